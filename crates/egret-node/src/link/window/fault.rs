//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.

#[cfg(test)]
use std::cell::Cell;

/// Ways to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Checksums are not looked at.
    Unchecked,
    /// Datagrams of another link are taken.
    OlderLife,
    /// A message that comes twice is delivered twice.
    Twice,
    /// A message is delivered when it comes, not when it is its turn.
    Overtaken,
    /// Nobody acknowledges what has come before.
    QuietDoubles,
    /// What was not acknowledged in time is not sent again.
    Unrepeated,
    /// After silence everything is repeated at once.
    Storm,
    /// An acknowledgement is acknowledged.
    AckOfAck,
    /// An acknowledgement of anything is believed.
    AnyAck,
    /// Nobody looks where a piece is in the window.
    Boundless,
    /// A piece has the bytes it has.
    AnySize,
}

/// Whether `fault` is planted on this thread.
#[cfg(not(test))]
#[inline(always)]
pub(super) const fn planted(_fault: Fault) -> bool {
    false
}

/// Whether `fault` is planted on this thread.
#[cfg(test)]
pub(super) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Runs `body` with `fault` planted on this thread, and says whether the checks in it
/// noticed (by a panic).
#[cfg(test)]
pub(super) fn caught(fault: Fault, body: impl FnOnce()) -> bool {
    PLANTED.set(Some(fault));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    PLANTED.set(None);
    outcome.is_err()
}

#[cfg(test)]
thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}
