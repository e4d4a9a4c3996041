//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.

#[cfg(test)]
use std::cell::Cell;

/// Ways to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A message is served twice.
    Twice,
    /// The credit of a message that is not answered is not given back.
    CreditKept,
    /// An answer goes to another call.
    OtherCall,
    /// What an endpoint has waiting after a move is served in the wrong order.
    MovedAround,
    /// Whatever was not acknowledged is said not to have been delivered.
    SaidLost,
    /// A sender does not look at its window.
    Boundless,
    /// What was received into is not received into again.
    NotPosted,
    /// Nobody is told of a message that came back.
    Untold,
    /// A mapping that was given up still holds bytes.
    Leaky,
    /// The number of a mapping is free before the peer knows.
    NumberFree,
    /// An endpoint is not told that a link ended.
    EndUntold,
    /// An endpoint is told twice that a link ended.
    EndTwice,
    /// The pieces of a message are in another order.
    PiecesSwapped,
    /// Links are closed with a reason before the peer has what was sent.
    Hasty,
    /// An endpoint's own window is not what its mappings get.
    OtherWindow,
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
