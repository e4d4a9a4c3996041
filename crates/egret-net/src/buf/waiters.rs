//! Threads that wait for a slot to come home.

use std::ptr::NonNull;
use std::sync::Arc;

use super::biased::BiasedSlots;
use super::fault::{self, Fault, planted};
use super::free_list::{FreeList, Given};
use crate::atomics::{Atomics, Lock, StdAtomics};
use crate::rt::{self, Instant};

/// Threads and tasks that wait for a slot of one class.
///
/// A waiter stands in the queue *before* it raises the list's waiting bit, and
/// a giver that cleared the bit empties the queue *after* that, so a waiter that is in
/// the queue when it sleeps is woken. All are woken: one slot came home, and the waiters
/// that do not get it raise the bit again.
pub(crate) struct SlotWaiters<A: Atomics = StdAtomics> {
    queue: A::Lock<SlotQueue<A::Thread>>,
}

struct SlotQueue<T> {
    next_ticket: u64,
    sleepers: Vec<(u64, T)>,
}

impl<A: Atomics> SlotWaiters<A> {
    pub(crate) fn new() -> Self {
        Self { queue: A::Lock::new(SlotQueue { next_ticket: 0, sleepers: Vec::new() }) }
    }

    /// Takes a slot of `slots`, asleep until there is one; `None` if there was
    /// none by `until`. For who has tried a [take](BiasedSlots::take) already.
    ///
    /// The waiter revokes the cache before it sleeps, so a slot that comes home comes to the list.
    #[cold]
    pub(crate) fn wait_take(&self, slots: &BiasedSlots<A>, until: Option<Instant>) -> Option<u32> {
        let ticket = self.queue.with(|queue| {
            queue.next_ticket += 1;
            queue.next_ticket
        });
        loop {
            if let Some(slot) = slots.list().take() {
                self.leave(ticket);
                return Some(slot);
            }
            if until.is_some_and(|until| rt::now() >= until) {
                self.leave(ticket);
                return None;
            }
            fault::revoke_to_sleep(|| slots.revoke());
            if self.enqueue_and_raise(ticket, slots.list()) {
                A::park(until);
            }
        }
    }

    /// Wakes all; owed by the thread that cleared the waiting bit.
    fn wake_all(&self) {
        if planted(Fault::WakeForgotten) {
            return;
        }
        let sleepers = self.queue.with(|queue| std::mem::take(&mut queue.sleepers));
        for (_, thread) in &sleepers {
            A::unpark(thread);
        }
    }

    /// Gives a slot back to a list that is closed or awaited, and pays the wake.
    /// The giver gets hold of the `queue` first: once the slot is back the pool
    /// may be gone. `true` if the list was closed, and the slot is gone.
    ///
    /// # Safety
    ///
    /// As for [`FreeList::give`].
    #[cold]
    pub(crate) unsafe fn give(
        queue: impl Fn() -> Arc<Self>,
        list: NonNull<FreeList<A>>,
        slot: u32,
    ) -> bool {
        let waiters = queue();
        // SAFETY: as the caller promised.
        let given = unsafe { FreeList::give_flagged(list, slot) };
        if given == Given::FreeAndAwaited {
            fault::queue_before_give(waiters, queue).wake_all();
        }
        given == Given::Closed
    }

    fn enqueue_and_raise(&self, ticket: u64, list: &FreeList<A>) -> bool {
        if planted(Fault::RaiseBeforeQueue) {
            let raised = list.raise_waiting();
            self.enqueue(ticket);
            return raised;
        }
        self.enqueue(ticket);
        list.raise_waiting()
    }

    fn enqueue(&self, ticket: u64) {
        self.queue.with(|queue| {
            if !queue.sleepers.iter().any(|(other, _)| *other == ticket) {
                queue.sleepers.push((ticket, A::current()));
            }
        });
    }

    fn leave(&self, ticket: u64) {
        self.queue.with(|queue| queue.sleepers.retain(|(other, _)| *other != ticket));
    }
}

impl<A: Atomics> std::fmt::Debug for SlotWaiters<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.queue.with(|queue| queue.sleepers.len());
        f.debug_struct("SlotWaiters").field("waiting", &waiting).finish()
    }
}
