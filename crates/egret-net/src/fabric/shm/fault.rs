//! Faults that tests plant here, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of
//! a fault.

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A copy leaves out the bytes after the last whole word.
    TailForgotten,
    /// The last byte of a foreign range may lie behind its end.
    BoundsOffByOne,
    /// A peer's memory is mapped as it comes.
    SealsIgnored,
    /// A slot says that it is filled without releasing what it is filled with.
    PutRelaxed,
    /// A slot says that it is filled, and then is.
    PutEarly,
    /// Sequence numbers stop at the last one that 32 bits hold.
    SequenceStops,
    /// A slot is read without acquiring what its number stands for.
    PollRelaxed,
    /// A ringer may look at the flag before its slot is seen.
    RingUnfenced,
    /// A sleeper may look at its rings before its flag is seen.
    ArmUnfenced,
    /// A sleeper looks at its rings for the last time before it raises its flag.
    #[cfg(test)]
    LookBeforeArm,
    /// A sleeper drains its cord only when its flag is raised again.
    #[cfg(test)]
    DrainAfterArm,
    /// What the peer rang is left in the cord.
    NotDrained,
}

#[cfg(not(test))]
#[inline(always)]
pub(super) const fn planted(_fault: Fault) -> bool {
    false
}

#[cfg(test)]
pub(super) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Runs `body` with `fault` planted on this thread, and says whether the checks
/// in it noticed (by a panic).
#[cfg(test)]
pub(super) fn caught(fault: Fault, body: impl FnOnce()) -> bool {
    PLANTED.set(Some(fault));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    PLANTED.set(None);
    outcome.is_err()
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}
