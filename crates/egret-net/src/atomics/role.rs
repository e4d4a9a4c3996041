//! The role of driving a nic, which one thread has at a time and hands to the next. [`DrivingRole`]
//! says how to wait with it.
//!
//! ```text
//!           enter, enter_or_wait        leave: no thread waits
//!   free ───────────────▶ a thread has it ───────────────▶ free
//!                           │         ▲
//!  leave: a thread waits    │         │ wait: the role is given
//!                           ▼         │
//!                      a waiter has it ──▶ the next waiter, or free,
//!                                          if it was woken or its deadline passed
//! ```
//!
//! The holder and the queue of waiters are known under one [lock](super::BiasedLock), so that the
//! role is never lost and never doubled: a holder that leaves names the next one in the same moment,
//! and a waiter that leaves the queue checks in the same moment whether it was named. A waiter that
//! was named and does not want the role any more passes it on. A waiter that was woken already is
//! passed over: it will leave the queue by itself.
//!
//! A wake is a word that is set before the thread is unparked, and cleared by the wait that it ends:
//! a wake that comes before the wait ends the wait.
//!
//! # Foreground and background
//!
//! A foreground thread that finds the role with a background thread sets `wanted`, and ends that
//! thread's wait for the nic. The holder checks `wanted` after it has polled the nic and before it
//! waits for more than it saw; so either it sees the request, or its wait ends at once.
//!
//! # Costs
//!
//! To enter and to leave is to take a biased lock, twice, and to store two words. A role
//! [behind](DrivingRole::behind) a lock that the thread has anyway costs the words alone.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::task::{Wake, Waker};

use super::{Atomics, BiasedLock, StdAtomics, Word};
use crate::fault::planted;
use crate::rt::{self, Instant};

/// Why a thread drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverKind {
    /// The thread waits for something of its own.
    Foreground,
    /// The thread drives when no other does, and leaves when it is asked to.
    Background,
}

/// The role of driving a nic, which one thread has at a time. Other threads wait, each parked on its
/// own, and are woken one by one: when the event they wait for has come, or when the role is given to
/// them.
///
/// ```
/// use std::sync::Arc;
///
/// use egret_net::rt;
/// use egret_net::sync::{DriverKind, DrivingRole, RoleAttempt, RoleWait, RoleWaiter};
///
/// let role = Arc::new(DrivingRole::default());
/// let RoleAttempt::Acquired(guard) = role.enter(DriverKind::Foreground) else { panic!("it is free") };
/// let other = rt::spawn("other", {
///     let role = Arc::clone(&role);
///     move || {
///         let mut waiter = RoleWaiter::new(DriverKind::Foreground);
///         match role.enter_or_wait(&mut waiter) {
///             RoleAttempt::Acquired(guard) => drop(guard),
///             RoleAttempt::Taken { waiter, .. } => {
///                 assert!(matches!(waiter.wait(None), RoleWait::Given(_)));
///             }
///         }
///     }
/// })?;
/// drop(guard); // gives the role to the other thread, if it waits
/// other.join().expect("it does not panic");
/// assert!(matches!(role.enter(DriverKind::Background), RoleAttempt::Acquired(_)));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # How to wait with it
///
/// [`enter`](Self::enter): a thread that gets the role drives until its event has come, and drops the
/// role. A thread that does not get it makes a [`RoleWaiter`], registers the waiter's
/// [waker](RoleWaiter::waker) for its event, checks once more whether the event has come, [enters the
/// queue](Self::enter_or_wait) and [waits](QueuedWaiter::wait). A wake that comes before the wait ends
/// the wait.
///
/// A thread in the [background](DriverKind::Background) that has the role polls the nic, checks
/// [`is_wanted`](Self::is_wanted), and then waits for more than it saw. A caller that is told to
/// `wake` the holder calls [`Nic::wake`](crate::vi::Nic::wake). So the holder leaves in time,
/// whichever of the two happens first.
pub struct DrivingRole<A: Atomics = StdAtomics> {
    state: BiasedLock<RoleState<A>, A>,
    /// Whether a background holder is asked to leave. Written under the lock.
    wanted: A::Word,
    /// How often the role was taken or used. Written by its holder.
    uses: A::Word,
}

struct RoleState<A: Atomics> {
    holder: Option<DriverKind>,
    /// The waiters in the foreground, and those in the background.
    waiters: [VecDeque<Arc<WaiterState<A>>>; 2],
}

/// Waits for the role; belongs to the thread that made it, for any number of waits, one after the
/// other.
pub struct RoleWaiter<A: Atomics = StdAtomics> {
    state: Arc<WaiterState<A>>,
    /// A wake unparks the thread that made the waiter.
    _thread_bound: PhantomData<*const ()>,
}

/// The part of a waiter that other threads reach.
pub(crate) struct WaiterState<A: Atomics = StdAtomics> {
    kind: DriverKind,
    thread: A::Thread,
    woken: A::Word,
    /// Whether the waiter was given the role. Written under the lock of the role.
    given: A::Word,
}

/// The role; dropping it gives the role to a waiter, those in the foreground first.
#[must_use = "the role is left when this is dropped"]
pub struct RoleGuard<'a, A: Atomics = StdAtomics> {
    role: &'a DrivingRole<A>,
}

/// The waiter that has the role now; dropping this unparks its thread.
pub struct NextHolder<A: Atomics = StdAtomics>(Arc<WaiterState<A>>);

/// A waiter in the queue; dropping it leaves the queue, and passes the role on if it was given.
#[must_use = "the waiter leaves the queue when this is dropped"]
pub struct QueuedWaiter<'a, 's, A: Atomics = StdAtomics> {
    role: &'a DrivingRole<A>,
    state: &'s Arc<WaiterState<A>>,
    has_left: bool,
}

/// The outcome of an attempt to get the role.
#[derive(Debug)]
pub enum RoleAttempt<'a, S, A: Atomics = StdAtomics> {
    /// The caller has the role.
    Acquired(RoleGuard<'a, A>),
    /// Another thread has the role.
    Taken {
        /// The caller's waiter, in the queue, if the caller gave one.
        waiter: S,
        /// Whether a background thread has the role and was just asked to leave: the caller ends
        /// the wait of that thread.
        wake: bool,
    },
}

/// How a wait ended.
#[derive(Debug)]
pub enum RoleWait<'a, A: Atomics = StdAtomics> {
    /// The caller has the role.
    Given(RoleGuard<'a, A>),
    /// The waiter was woken: its event may have come. The caller does not have the role.
    Woken,
    /// The deadline passed. The caller does not have the role.
    TimedOut,
}

impl<A: Atomics> DrivingRole<A> {
    pub(crate) fn new() -> Self {
        Self::behind(&BiasedLock::new(()))
    }

    /// A role under an existing lock: a thread that has the lock enters and leaves without another
    /// one.
    pub(crate) fn behind<T>(lock: &BiasedLock<T, A>) -> Self {
        let state = lock.sharing(RoleState { holder: None, waiters: Default::default() });
        Self { state, wanted: A::Word::new(0), uses: A::Word::new(0) }
    }

    /// Takes the role if it is free. Costs as little as the lock of a nic.
    #[inline]
    pub fn enter(&self, kind: DriverKind) -> RoleAttempt<'_, (), A> {
        self.state.with(|inside| match inside.holder {
            None => RoleAttempt::Acquired(self.take(inside, kind)),
            Some(holder) => RoleAttempt::Taken { waiter: (), wake: self.ask(holder, kind) },
        })
    }

    /// Takes the role if it is free; otherwise puts the waiter into the queue.
    pub fn enter_or_wait<'a, 's>(
        &'a self,
        waiter: &'s mut RoleWaiter<A>,
    ) -> RoleAttempt<'a, QueuedWaiter<'a, 's, A>, A> {
        let state = &waiter.state;
        self.state.with(|inside| match inside.holder {
            None => RoleAttempt::Acquired(self.take(inside, state.kind)),
            Some(holder) => {
                inside.waiters_of(state.kind).push_back(Arc::clone(state));
                let wake = self.ask(holder, state.kind);
                RoleAttempt::Taken {
                    waiter: QueuedWaiter { role: self, state, has_left: false },
                    wake,
                }
            }
        })
    }

    /// Whether a foreground thread waits for a background holder to leave.
    #[must_use]
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed) != 0
    }

    /// Grows whenever the role is taken, given or [used again](RoleGuard::count_use): a caller that
    /// reads the same number twice knows, without a lock, that no thread has driven in between,
    /// except one that did not count its use.
    #[must_use]
    #[inline]
    pub fn uses(&self) -> u64 {
        self.uses.load(Relaxed)
    }

    #[inline]
    fn take(&self, inside: &mut RoleState<A>, kind: DriverKind) -> RoleGuard<'_, A> {
        inside.holder = Some(kind);
        self.count();
        RoleGuard { role: self }
    }

    /// Counts a use. Only for the thread that has the role or the lock.
    #[inline]
    fn count(&self) {
        self.uses.store(self.uses.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// With the lock: asks a background holder to leave, if it was not asked yet.
    #[cold]
    fn ask(&self, holder: DriverKind, kind: DriverKind) -> bool {
        let asks = (holder, kind) == (DriverKind::Background, DriverKind::Foreground);
        if !asks || self.is_wanted() || planted(Fault::RequestForgotten) {
            return false;
        }
        self.wanted.store(1, Relaxed);
        true
    }

    #[inline]
    fn leave(&self) {
        drop(self.state.with(|inside| self.pass(inside)));
    }

    /// With the lock: gives the role to the next waiter, which is to be notified, or frees it.
    #[inline]
    fn pass(&self, inside: &mut RoleState<A>) -> Option<NextHolder<A>> {
        if self.is_wanted() {
            self.wanted.store(0, Relaxed);
        }
        if inside.waiters.iter().all(VecDeque::is_empty) {
            inside.holder = None;
            return None;
        }
        self.pass_on(inside)
    }

    #[cold]
    fn pass_on(&self, inside: &mut RoleState<A>) -> Option<NextHolder<A>> {
        let next = inside.next();
        inside.set_holder(next.as_deref());
        if let Some(state) = &next {
            self.count();
            state.given.store(1, Release);
        }
        next.map(NextHolder)
    }
}

impl Default for DrivingRole {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Atomics> RoleState<A> {
    fn waiters_of(&mut self, kind: DriverKind) -> &mut VecDeque<Arc<WaiterState<A>>> {
        &mut self.waiters[kind as usize]
    }

    /// The role is given to this waiter, or free.
    fn set_holder(&mut self, next: Option<&WaiterState<A>>) {
        self.holder = next.filter(|_| !planted(Fault::GivenTwice)).map(|state| state.kind);
    }

    /// Removes the waiter that gets the role: the first that was not woken.
    fn next(&mut self) -> Option<Arc<WaiterState<A>>> {
        self.waiters.iter_mut().find_map(|waiters| {
            let at = waiters.iter().position(|state| state.woken.load(Acquire) == 0)?;
            waiters.remove(at)
        })
    }

    fn remove(&mut self, state: &Arc<WaiterState<A>>) {
        if !planted(Fault::WaiterLeftQueued) {
            self.waiters_of(state.kind).retain(|other| !Arc::ptr_eq(other, state));
        }
    }
}

impl<A: Atomics> RoleGuard<'_, A> {
    /// Counts one more use of the role.
    #[inline]
    pub fn count_use(&self) {
        self.role.count();
    }

    /// Passes the role on, for a thread that has the lock of the role. The next holder is notified
    /// when the result is dropped, which is to be after the lock is released.
    #[inline]
    #[must_use = "the next holder is notified when this is dropped"]
    pub fn hand_on(self) -> Option<NextHolder<A>> {
        let role = ManuallyDrop::new(self).role;
        role.state.with(|inside| role.pass(inside))
    }
}

impl<A: Atomics> Drop for NextHolder<A> {
    fn drop(&mut self) {
        self.0.notify_given();
    }
}

impl<A: Atomics> Drop for RoleGuard<'_, A> {
    #[inline]
    fn drop(&mut self) {
        self.role.leave();
    }
}

impl<A: Atomics> RoleWaiter<A> {
    /// A waiter of the calling thread.
    #[must_use]
    pub fn new(kind: DriverKind) -> Self {
        let (woken, given) = (A::Word::new(0), A::Word::new(0));
        let state = WaiterState { kind, thread: A::current(), woken, given };
        Self { state: Arc::new(state), _thread_bound: PhantomData }
    }

    /// What others wake it by.
    #[cfg(test)]
    pub(super) const fn state(&self) -> &Arc<WaiterState<A>> {
        &self.state
    }
}

impl RoleWaiter {
    /// Wakes it, from any thread: ends the wait in it, or the next one.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.state))
    }
}

impl<A: Atomics> WaiterState<A> {
    /// Wakes the waiter: its event has come.
    pub(crate) fn wake(&self) {
        if self.set_woken() {
            A::unpark(&self.thread);
        }
    }

    /// Says that the event has come. Whether the thread is to be unparked for that.
    fn set_woken(&self) -> bool {
        if planted(Fault::WokenLate) {
            A::unpark(&self.thread);
        }
        self.woken.swap(1, AcqRel) == 0 && !planted(Fault::WokenLate)
    }

    /// Notifies the waiter that it has the role.
    fn notify_given(&self) {
        if !planted(Fault::NotNotified) {
            A::unpark(&self.thread);
        }
    }

    fn is(word: &A::Word) -> bool {
        word.load(Acquire) != 0
    }
}

impl Wake for WaiterState {
    fn wake(self: Arc<Self>) {
        Self::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Self::wake(self);
    }
}

impl<'a, A: Atomics> QueuedWaiter<'a, '_, A> {
    /// Parks until the waiter is woken or given the role, at most until `until`. A role given to a
    /// waiter that was woken, or whose deadline passed, is passed on.
    #[must_use]
    pub fn wait(mut self, until: Option<Instant>) -> RoleWait<'a, A> {
        let state = self.state;
        self.has_left = true;
        let is_over = loop {
            if WaiterState::<A>::is(&state.woken) || WaiterState::<A>::is(&state.given) {
                break false;
            }
            if until.is_some_and(|until| rt::now() >= until) {
                break true;
            }
            A::park(until);
        };
        let woken = state.woken.swap(0, AcqRel) != 0;
        match (self.leave_queue(!woken && !is_over), woken) {
            (Some(guard), _) => RoleWait::Given(guard),
            (None, true) => RoleWait::Woken,
            (None, false) => RoleWait::TimedOut,
        }
    }

    /// Leaves the queue, with the role if it was given and `wants_role`.
    fn leave_queue(&self, wants_role: bool) -> Option<RoleGuard<'a, A>> {
        let (guard, next) = self.role.state.with(|inside| {
            if self.state.given.load(Relaxed) == 0 {
                inside.remove(self.state);
                return (None, None);
            }
            self.state.given.store(0, Relaxed);
            if wants_role {
                return (Some(RoleGuard { role: self.role }), None);
            }
            (None, self.pass_unwanted(inside))
        });
        drop(next);
        guard
    }

    fn pass_unwanted(&self, inside: &mut RoleState<A>) -> Option<NextHolder<A>> {
        if planted(Fault::RoleKept) { None } else { self.role.pass(inside) }
    }
}

impl<A: Atomics> Drop for QueuedWaiter<'_, '_, A> {
    fn drop(&mut self) {
        if !self.has_left {
            drop(self.leave_queue(false));
        }
    }
}

impl<A: Atomics> fmt::Debug for DrivingRole<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (uses, wanted) = (self.uses(), self.is_wanted());
        let mut said = f.debug_struct("DrivingRole");
        let said = said.field("uses", &uses).field("wanted", &wanted);
        let known = self.state.try_with(|inside| {
            (inside.holder, inside.waiters.iter().map(VecDeque::len).sum::<usize>())
        });
        match known {
            Some((holder, waiters)) => {
                said.field("holder", &holder).field("waiters", &waiters).finish()
            }
            None => said.finish_non_exhaustive(),
        }
    }
}

impl<A: Atomics> fmt::Debug for RoleGuard<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RoleGuard")
    }
}

impl<A: Atomics> fmt::Debug for NextHolder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NextHolder")
    }
}

impl<A: Atomics> fmt::Debug for RoleWaiter<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RoleWaiter")
    }
}

impl<A: Atomics> fmt::Debug for QueuedWaiter<'_, '_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueuedWaiter")
    }
}

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A waiter that was given the role and does not want it keeps it.
    RoleKept,
    /// A holder that leaves gives the role to a waiter, and lets others enter too.
    GivenTwice,
    /// A thread is unparked before the word says why.
    WokenLate,
    /// A thread that was given the role is not unparked.
    NotNotified,
    /// A thread that leaves the queue leaves its waiter in it.
    WaiterLeftQueued,
    /// A holder in the background is not asked to leave.
    RequestForgotten,
}
