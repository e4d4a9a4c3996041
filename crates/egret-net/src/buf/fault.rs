//! Faults that tests plant in the protocol, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of
//! a fault.

/// One way to get the protocol wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A take leaves the tag alone, so a head that came back looks unchanged.
    NoTag,
    /// A give publishes its slot before the slot's link is written.
    LinkAfterSwap,
    /// A give clears the waiting bit and wakes nobody.
    WakeForgotten,
    /// A waiter raises the waiting bit before it stands in the queue.
    RaiseBeforeQueue,
    /// A give looks for the queue in a pool that its slot no longer keeps.
    QueueAfterGive,
    /// A handle is let go without releasing what it did with the slot.
    LetGoRelaxed,
    /// A handle is let go by a load and a store.
    LetGoTorn,
    /// The closer counts one buffer too few.
    CloseMiscounts,
    /// The last reader leaves its count at zero.
    CountNotRestored,
    /// A split makes a second handle that is not counted.
    SplitForgotten,
    /// The owner of a stash looks whether it still is before it says it is busy.
    CheckBeforeBusy,
    /// The owner of a stash says it is busy and looks without a fence between.
    NoLightFence,
    /// The owner of a stash says it is done without releasing what it did.
    BusyRelaxed,
    /// A revoker does not wait for an owner that is busy.
    RevokeUnawaited,
    /// A revoker says that it is done before it is, and another believes it.
    RevokedEarly,
    /// A revoker leaves in the stash what is there.
    StashForgotten,
    /// A waiter sleeps while another thread may have a stash.
    SleepUnrevoked,
    /// The closer counts without looking for a stash.
    CloseUnrevoked,
    /// A join forgets a handle that stays counted.
    JoinForgotten,
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn planted(_fault: Fault) -> bool {
    false
}

#[cfg(test)]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Runs `body` with `fault` planted on this thread, and says whether the checks
/// in it noticed (by a panic).
#[cfg(test)]
pub(crate) fn caught(fault: Fault, body: impl FnOnce()) -> bool {
    PLANTED.set(Some(fault));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    PLANTED.set(None);
    outcome.is_err()
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}
