//! The two counts that decide who is last: the handles to a slot, and the slots
//! of a closed pool that are still out.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::fault::{self, Fault, planted};
use crate::atomics::{Atomics, StdAtomics, Word};

/// Counts the handle that a split makes. Only for the owner of the handle that
/// is split: with a count of 1 it is alone, and no other can appear meanwhile.
#[inline]
pub(crate) fn count_split<W: Word>(handles: &W) {
    if planted(Fault::SplitForgotten) {
        return;
    }
    if handles.load(Acquire) == 1 {
        handles.store(2, Relaxed);
    } else {
        handles.fetch_add(1, Relaxed);
    }
}

/// Counts off the handle that a join ends. Only for the owner of both: with a
/// count of 2 they are alone.
#[inline]
pub(crate) fn count_join<W: Word>(handles: &W) {
    if planted(Fault::JoinForgotten) {
        return;
    }
    if handles.load(Acquire) == 2 {
        handles.store(1, Relaxed);
    } else {
        handles.fetch_sub(1, Relaxed);
    }
}

/// Lets go of one handle, given the count of all; `Some` if it was the last,
/// with the flag bits the count had. The count is then 1 again.
#[inline]
pub(crate) fn let_go<W: Word>(handles: &W) -> Option<u64> {
    // The only handle there is: no other can be made, so nothing is written.
    // Acquire pairs with the release of those let go before.
    if handles.load(Acquire) == 1 {
        return Some(0);
    }
    let_go_counted(handles)
}

#[cold]
fn let_go_counted<W: Word>(handles: &W) -> Option<u64> {
    let before = fault::fetch_sub_handle(handles, AcqRel);
    if before & !RECLAIMED != 1 {
        return None;
    }
    handles.store(fault::count_restored(1), Relaxed);
    Some(before & RECLAIMED)
}

/// A slot of another process's pool comes here, and has one handle. `false` if
/// it is here already.
#[inline]
#[must_use = "a slot that is here already gets no second handle"]
pub(crate) fn arrive<W: Word>(handles: &W) -> bool {
    if handles.load(Acquire) != 0 && !planted(Fault::ArriveTwice) {
        return false;
    }
    handles.store(1, Relaxed);
    true
}

/// The only handle to such a slot ends, and `tell` tells its home. The slot is
/// away first: its home may send it again at once.
#[inline]
pub(crate) fn depart<W: Word>(handles: &W, tell: impl FnOnce()) {
    fault::in_order(|| handles.store(0, fault::depart_order(Release)), tell);
}

/// Set in the count of the handles while the slot has a reclaim callback.
pub(crate) const RECLAIMED: u64 = 1 << 63;

/// The slots of a closed pool that are still on their way home.
///
/// The closer learns only list by list how many are out, while some of them
/// come home. Until it has added the total the balance is below zero (modulo
/// 2^64), so it reaches zero exactly once: when the last one is accounted for.
#[derive(Debug)]
pub(crate) struct ClosingBalance<A: Atomics = StdAtomics> {
    balance: A::Word,
}

impl<A: Atomics> ClosingBalance<A> {
    pub(crate) fn new() -> Self {
        Self { balance: A::Word::new(0) }
    }

    /// All lists are closed with `out` slots out; `true` if all are home.
    #[must_use = "the caller that accounts for the last slot frees the pool"]
    pub(crate) fn closed(&self, out: u64) -> bool {
        self.balance.fetch_add(out, AcqRel).wrapping_add(out) == 0
    }

    /// A slot came home to a closed list; `true` if it was the last.
    #[must_use = "the caller that accounts for the last slot frees the pool"]
    pub(crate) fn came_home(&self) -> bool {
        self.balance.fetch_sub(1, AcqRel) == 1
    }
}
