//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one for each module with planted faults.

#[cfg(test)]
pub(crate) use crate::fault::caught;
pub(crate) use crate::fault::planted;

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
    /// The owner of a cache looks whether it still is before it says it is busy.
    CheckBeforeBusy,
    /// The owner of a cache says it is busy and looks without a fence between.
    NoLightFence,
    /// The owner of a cache says it is done without releasing what it did.
    BusyRelaxed,
    /// A revoker does not wait for an owner that is busy.
    RevokeUnawaited,
    /// A revoker says that it is done before it is, and another believes it.
    RevokedEarly,
    /// A revoker leaves in the cache what is there.
    CacheForgotten,
    /// A waiter sleeps while another thread may have a cache.
    SleepUnrevoked,
    /// The closer counts without looking for a cache.
    CloseUnrevoked,
    /// A join forgets a handle that stays counted.
    JoinForgotten,
    /// A peer's memory is mapped though its size may change.
    AdoptUnsealed,
    /// A slot that is here gets a second handle.
    ArriveTwice,
    /// A slot's home is told that it is away before it is.
    DepartLate,
    /// A slot is away without releasing what was done with it.
    DepartRelaxed,
    /// A part of a buffer is lent, or one of which others have parts.
    LendParts,
    /// A home's plan is believed.
    PlanUnchecked,
    /// A visit ends without those who are still here.
    VisitMiscounts,
}
