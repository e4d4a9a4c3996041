//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.

#[cfg(test)]
use std::cell::Cell;

/// Ways to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A node that was declared dead is served.
    NotFenced,
    /// A rank that is joined again has the incarnation that it had.
    SameIncarnation,
    /// Names outlive their node.
    NamesKept,
    /// Somebody is not told something.
    Skipped,
    /// Somebody is told in another order.
    Reordered,
    /// Who does not answer is waited for for ever.
    Deaf,
    /// Who is silent is not asked.
    Unasked,
    /// The time in which the registry was stopped counts.
    Unforgiving,
    /// A node that is gone dies again with its link.
    TwiceDead,
    /// A name is taken back whatever it stands for by now.
    AnyUnbound,
    /// Who waits for a name is not told that it is bound.
    WaitForgotten,
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

/// Runs `body` with `fault` planted on this thread, and says whether the checks in it
/// noticed (by a panic).
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
