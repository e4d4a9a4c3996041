//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a
//! fault.

#[cfg(test)]
use std::cell::Cell;

/// Ways to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// What does not fit leaves its beginning in the stream.
    HalfWritten,
    /// Arrays are not aligned.
    NoPadding,
    /// A length is believed, and memory taken for it.
    TrustedLength,
    /// A run over the end of a chunk goes on behind the first byte of the next.
    LostAtSplit,
    /// Nobody counts how deep it goes.
    Bottomless,
    /// A shared value is written again.
    Unshared,
    /// Cycles of a value that could not be read stay.
    Leaked,
    /// A type of the same name is taken for the same.
    AnyStructure,
    /// A value is handed out unchecked.
    Unchecked,
    /// A fingerprint does not see the names of fields.
    Nameless,
}

/// Whether `fault` is planted on this thread.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn planted(_fault: Fault) -> bool {
    false
}

/// Whether `fault` is planted on this thread.
#[cfg(test)]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Runs `body` with `fault` planted on this thread, and says whether the checks in
/// it noticed (by a panic).
#[cfg(test)]
pub(crate) fn caught(fault: Fault, body: impl FnOnce()) -> bool {
    PLANTED.set(Some(fault));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    PLANTED.set(None);
    outcome.is_err()
}

#[cfg(test)]
thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}
