//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.

#[cfg(test)]
use std::cell::Cell;

/// Ways to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// What a flow held when it was closed is not free again.
    Leaky,
    /// A flow may hold whatever is free.
    Greedy,
    /// Who asks gets more, whether it is read or not.
    Stuffed,
    /// What was guaranteed is not set aside.
    Unreserved,
    /// A piece of any size is waited for.
    Believed,
    /// Nobody looks whether a peer had credit for what it sends.
    Unchecked,
    /// A writer does not look at its credit.
    Spendthrift,
    /// What is dropped unread is not granted again.
    DroppedCharged,
    /// An abort ends the message after the one it is for.
    LateAbort,
    /// The parts that a writer had not sent go out after the abort.
    AbortedSent,
    /// A want is not heard if the credit crosses it.
    WantForgotten,
    /// Credit that nobody uses is not asked for when others wait for it.
    NotRecalled,
    /// A refused piece takes the channel with it.
    RefusalKept,
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

/// Runs `body` with `fault` planted on this thread, and says whether the checks in it noticed
/// (by a panic).
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
