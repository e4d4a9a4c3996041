//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

#[cfg(test)]
pub(crate) use crate::fault::caught;
pub(super) use crate::fault::planted;

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A loop is armed though something has happened meanwhile.
    ArmedLate,
    /// Peers are not told that a loop sleeps.
    NotArmed,
    /// What ended the sleep of a loop stays there, and ends the next.
    SetUnasked,
    /// A thread that wants to sleep waits until a loop is awake, which may be its own.
    LoopFirst,
}
