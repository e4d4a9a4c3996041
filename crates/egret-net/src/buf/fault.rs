//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one for each module with planted faults.

use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use crate::atomics::{Atomics, Word};
#[cfg(test)]
pub(crate) use crate::fault::caught;
pub(crate) use crate::fault::planted;

/// One way to get the protocol wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A take leaves the tag alone, so a head that came back looks unchanged.
    NoTag,
    /// A give publishes its slot without releasing the slot's link.
    LinkUnreleased,
    /// A give clears the waiting bit and wakes no waiter.
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
    /// The owner of a cache checks that it is the owner before it says that it is busy.
    CheckBeforeBusy,
    /// The owner of a cache says that it is busy and checks without a fence between.
    NoLightFence,
    /// The owner of a cache says it is done without releasing what it did.
    BusyRelaxed,
    /// A revoker does not wait for an owner that is busy.
    RevokeUnawaited,
    /// A revoker says that it is done before it is, and another believes it.
    RevokedEarly,
    /// A revoker leaves the slots in the cache.
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
    /// The home of a slot is told that the slot is away before the slot is.
    DepartLate,
    /// A slot is away without releasing what was done with it.
    DepartRelaxed,
    /// A part of a buffer is lent, or one of which others have parts.
    LendParts,
    /// The plan of another process's pool is not checked.
    PlanUnchecked,
    /// A visit ends with a wrong count of the slots that are still here.
    VisitMiscounts,
}

// What follows returns the value that it is given, or does what it is named for, unless a fault is
// planted.

/// The order in which a give publishes its slot.
#[inline(always)]
pub(super) fn push_order(order: Ordering) -> Ordering {
    if planted(Fault::LinkUnreleased) { Relaxed } else { order }
}

/// The order in which a slot goes away.
#[inline(always)]
pub(super) fn depart_order(order: Ordering) -> Ordering {
    if planted(Fault::DepartRelaxed) { Relaxed } else { order }
}

/// The order in which the owner of a cache says that it is done.
#[inline(always)]
pub(super) fn done_order(order: Ordering) -> Ordering {
    if planted(Fault::BusyRelaxed) { Relaxed } else { order }
}

#[inline(always)]
pub(super) fn light_fence<A: Atomics>() {
    if !planted(Fault::NoLightFence) {
        A::light_fence();
    }
}

/// A slot goes away, and then its home is told.
#[inline(always)]
pub(super) fn in_order(go: impl FnOnce(), tell: impl FnOnce()) {
    if planted(Fault::DepartLate) {
        tell();
        return go();
    }
    go();
    tell();
}

/// Counts off a handle. How many there were.
#[inline(always)]
pub(super) fn fetch_sub_handle<W: Word>(handles: &W, order: Ordering) -> u64 {
    if planted(Fault::LetGoTorn) {
        let before = handles.load(Acquire);
        handles.store(before - 1, Release);
        return before;
    }
    handles.fetch_sub(1, if planted(Fault::LetGoRelaxed) { Relaxed } else { order })
}

/// The count of handles to a slot that comes home.
#[inline(always)]
pub(super) fn count_restored(count: u64) -> u64 {
    if planted(Fault::CountNotRestored) { 0 } else { count }
}

/// What stands for the owner of a cache while that is revoked.
pub(super) fn owner_while_revoking(revoking: u64, revoked: u64) -> u64 {
    if planted(Fault::RevokedEarly) { revoked } else { revoking }
}

/// Whether a revoker waits for an owner.
pub(super) fn is_awaited(is_busy: bool) -> bool {
    is_busy && !planted(Fault::RevokeUnawaited)
}

pub(super) fn revoke_to_close(revoke: impl FnOnce()) {
    if !planted(Fault::CloseUnrevoked) {
        revoke();
    }
}

pub(super) fn revoke_to_sleep(revoke: impl FnOnce()) {
    if !planted(Fault::SleepUnrevoked) {
        revoke();
    }
}

/// The queue that a give got hold of first.
pub(super) fn queue_before_give<T>(queue: T, after: impl Fn() -> T) -> T {
    if planted(Fault::QueueAfterGive) { after() } else { queue }
}

/// What is found wrong with a home's plan.
pub(super) fn plan_check<E>(found: Result<(), E>) -> Result<(), E> {
    if planted(Fault::PlanUnchecked) { Ok(()) } else { found }
}

/// How many slots have come to a visit and were not given back.
pub(super) fn met(count: u64) -> u64 {
    count + u64::from(planted(Fault::VisitMiscounts))
}
