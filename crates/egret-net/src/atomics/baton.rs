//! A role that one thread has at a time, handed from thread to thread.
//!
//! Of several threads that wait for what a nic brings, one drives it: it has the
//! *role*. The others sit, each parked on its own, and are woken one by one: when
//! what they wait for has come, or when the role is theirs.
//!
//! ```text
//!           enter, sit                  leave: nobody sits
//!   free ───────────────▶ a thread has it ───────────────▶ free
//!                           │         ▲
//!     leave: somebody sits  │         │ wait: it is yours
//!                           ▼         │
//!                         a seat has it ──▶ the next seat, or free,
//!                                           if it was woken or its time is up
//! ```
//!
//! Who has the role, and who sits, is known under one [lock](super::Joint), so that the
//! role is never lost and never doubled: whoever leaves names the next in the same
//! moment, and whoever rises from a seat looks, in the moment it leaves the queue,
//! whether it was named. One that was named and does not want the role any more passes
//! it on. A seat that was woken already is passed over: it will rise by itself.
//!
//! A wake is a word that is set before the thread is unparked, and cleared by the wait
//! that it ends: one that comes before the wait ends the wait.
//!
//! # Foreground and background
//!
//! A background thread drives when nobody else does. A foreground thread that finds
//! the role with one has it asked to leave: `wanted` is set, and whoever set it ends
//! the holder's wait for the nic. The holder looks at `wanted` after it has polled the
//! nic and before it waits for more than it saw; so either it sees the wish, or its
//! wait ends at once.
//!
//! # Costs
//!
//! To enter and to leave is to take a lock that leans, twice, and to store two words. A role
//! [behind](Baton::behind) a lock that the thread has anyway costs the words alone.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::task::Wake;

use super::{Atomics, Joint, StdAtomics, Word};
use crate::fault::planted;
use crate::rt::{self, Instant};

/// Whether a thread drives for itself or for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// It waits for something of its own.
    Foreground,
    /// It drives when nobody else does, and leaves when it is asked to.
    Background,
}

/// See the [module](self).
pub(crate) struct Baton<A: Atomics = StdAtomics> {
    inside: Joint<Inside<A>, A>,
    /// Whether a holder in the background is asked to leave. Written under the lock.
    wanted: A::Word,
    /// How often the role was taken or used. Written by its holder.
    turns: A::Word,
}

struct Inside<A: Atomics> {
    holder: Option<Ground>,
    /// Who sits: in the foreground, and in the background.
    seats: [VecDeque<Arc<Chair<A>>>; 2],
}

/// A place to wait for the role: of one thread, for one wait after the other.
pub(crate) struct Seat<A: Atomics = StdAtomics> {
    chair: Arc<Chair<A>>,
    /// The thread that made it is the one that is unparked.
    _thread_bound: PhantomData<*const ()>,
}

/// What others have of a seat.
pub(crate) struct Chair<A: Atomics = StdAtomics> {
    ground: Ground,
    thread: A::Thread,
    woken: A::Word,
    /// Whether it was given the role. Written under the baton's lock.
    given: A::Word,
}

/// The role. Dropping it leaves.
pub(crate) struct Turn<'a, A: Atomics = StdAtomics> {
    baton: &'a Baton<A>,
}

/// Who has the role now. Dropping it tells it.
pub(crate) struct Next<A: Atomics = StdAtomics>(Arc<Chair<A>>);

/// A seat that is taken. Dropping it rises.
pub(crate) struct Seated<'a, 's, A: Atomics = StdAtomics> {
    baton: &'a Baton<A>,
    chair: &'s Arc<Chair<A>>,
    is_up: bool,
}

/// What became of an attempt to get the role.
pub(crate) enum Entered<T, S> {
    /// It is the caller's.
    Mine(T),
    /// Somebody has it. `wake`: one in the background, which was just asked to leave.
    Taken { seat: S, wake: bool },
}

/// How a wait ended.
pub(crate) enum Waited<T> {
    /// The role is the caller's.
    Given(T),
    /// What it waits for has come.
    Woken,
    /// It did not, in time.
    TimedOut,
}

impl<A: Atomics> Baton<A> {
    pub(crate) fn new() -> Self {
        Self::behind(&Joint::new(()))
    }

    /// A role that is known under this lock, which its holder may have when it leaves.
    pub(crate) fn behind<T>(lock: &Joint<T, A>) -> Self {
        let inside = lock.sharing(Inside { holder: None, seats: Default::default() });
        Self { inside, wanted: A::Word::new(0), turns: A::Word::new(0) }
    }

    /// Takes the role if nobody has it.
    #[inline]
    pub(crate) fn enter(&self, ground: Ground) -> Entered<Turn<'_, A>, ()> {
        self.inside.with(|inside| match inside.holder {
            None => Entered::Mine(self.take(inside, ground)),
            Some(holder) => Entered::Taken { seat: (), wake: self.ask(holder, ground) },
        })
    }

    /// Takes the role if nobody has it, and a seat if somebody does.
    pub(crate) fn sit<'a, 's>(
        &'a self,
        seat: &'s mut Seat<A>,
    ) -> Entered<Turn<'a, A>, Seated<'a, 's, A>> {
        let chair = &seat.chair;
        self.inside.with(|inside| match inside.holder {
            None => Entered::Mine(self.take(inside, chair.ground)),
            Some(holder) => {
                inside.seats_of(chair.ground).push_back(Arc::clone(chair));
                let wake = self.ask(holder, chair.ground);
                Entered::Taken { seat: Seated { baton: self, chair, is_up: false }, wake }
            }
        })
    }

    /// Whether a foreground thread waits for a holder in the background to leave.
    #[inline]
    pub(crate) fn wanted(&self) -> bool {
        self.wanted.load(Relaxed) != 0
    }

    /// Grows whenever the role is taken or [used](Turn::again).
    #[inline]
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    #[inline]
    fn take(&self, inside: &mut Inside<A>, ground: Ground) -> Turn<'_, A> {
        inside.holder = Some(ground);
        self.count();
        Turn { baton: self }
    }

    /// One more turn, of the one who has the role or the lock.
    #[inline]
    fn count(&self) {
        self.turns.store(self.turns.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// With the lock: asks a holder to leave, if it is one to be asked and was not yet.
    #[cold]
    fn ask(&self, holder: Ground, ground: Ground) -> bool {
        let asks = (holder, ground) == (Ground::Background, Ground::Foreground);
        if !asks || self.wanted() || planted(Fault::WishForgotten) {
            return false;
        }
        self.wanted.store(1, Relaxed);
        true
    }

    #[inline]
    fn leave(&self) {
        let next = self.inside.with(|inside| self.pass(inside));
        if let Some(next) = next {
            next.tell();
        }
    }

    /// With the lock: the role is the next seat's, which is to be told, or nobody's.
    #[inline]
    fn pass(&self, inside: &mut Inside<A>) -> Option<Arc<Chair<A>>> {
        if self.wanted() {
            self.wanted.store(0, Relaxed);
        }
        if inside.seats.iter().all(VecDeque::is_empty) {
            inside.holder = None;
            return None;
        }
        self.pass_on(inside)
    }

    #[cold]
    fn pass_on(&self, inside: &mut Inside<A>) -> Option<Arc<Chair<A>>> {
        let next = inside.next();
        inside.holder = next.as_ref().map(|chair| chair.ground);
        if planted(Fault::GivenTwice) {
            inside.holder = None;
        }
        if let Some(chair) = &next {
            self.count();
            chair.given.store(1, Release);
        }
        next
    }
}

impl Default for Baton {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Atomics> Inside<A> {
    fn seats_of(&mut self, ground: Ground) -> &mut VecDeque<Arc<Chair<A>>> {
        &mut self.seats[ground as usize]
    }

    /// The seat that gets the role: one that has something to wait for.
    fn next(&mut self) -> Option<Arc<Chair<A>>> {
        self.seats.iter_mut().find_map(|seats| {
            let at = seats.iter().position(|chair| chair.woken.load(Acquire) == 0)?;
            seats.remove(at)
        })
    }

    fn remove(&mut self, chair: &Arc<Chair<A>>) {
        if !planted(Fault::SeatLeft) {
            self.seats_of(chair.ground).retain(|other| !Arc::ptr_eq(other, chair));
        }
    }
}

impl<A: Atomics> Turn<'_, A> {
    /// Counts one more turn with the role.
    #[inline]
    pub(crate) fn again(&self) {
        self.baton.count();
    }
}

impl<A: Atomics> Turn<'_, A> {
    /// Leaves, for a thread that has the lock: who has the role then is told when the answer is
    /// dropped, which is to be behind the lock.
    #[inline]
    pub(crate) fn hand(self) -> Option<Next<A>> {
        let baton = ManuallyDrop::new(self).baton;
        baton.inside.with(|inside| baton.pass(inside)).map(Next)
    }
}

impl<A: Atomics> Drop for Next<A> {
    fn drop(&mut self) {
        self.0.tell();
    }
}

impl<A: Atomics> Drop for Turn<'_, A> {
    #[inline]
    fn drop(&mut self) {
        self.baton.leave();
    }
}

impl<A: Atomics> Seat<A> {
    /// A seat of the calling thread.
    pub(crate) fn new(ground: Ground) -> Self {
        let (woken, given) = (A::Word::new(0), A::Word::new(0));
        let chair = Chair { ground, thread: A::current(), woken, given };
        Self { chair: Arc::new(chair), _thread_bound: PhantomData }
    }

    /// What others wake it by.
    pub(crate) fn chair(&self) -> &Arc<Chair<A>> {
        &self.chair
    }
}

impl<A: Atomics> Chair<A> {
    /// What its thread waits for has come.
    pub(crate) fn wake(&self) {
        if planted(Fault::WokenLate) {
            A::unpark(&self.thread);
        }
        if self.woken.swap(1, AcqRel) == 0 && !planted(Fault::WokenLate) {
            A::unpark(&self.thread);
        }
    }

    /// The role is its.
    fn tell(&self) {
        if !planted(Fault::Untold) {
            A::unpark(&self.thread);
        }
    }

    fn is(word: &A::Word) -> bool {
        word.load(Acquire) != 0
    }
}

impl Wake for Chair {
    fn wake(self: Arc<Self>) {
        Self::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Self::wake(self);
    }
}

impl<'a, A: Atomics> Seated<'a, '_, A> {
    /// Parks until one of the three. The role is the caller's if it is told so, and
    /// only then.
    pub(crate) fn wait(mut self, until: Option<Instant>) -> Waited<Turn<'a, A>> {
        let chair = self.chair;
        self.is_up = true;
        let is_over = loop {
            if Chair::<A>::is(&chair.woken) || Chair::<A>::is(&chair.given) {
                break false;
            }
            if until.is_some_and(|until| rt::now() >= until) {
                break true;
            }
            A::park(until);
        };
        let woken = chair.woken.swap(0, AcqRel) != 0;
        match (self.rise(!woken && !is_over), woken) {
            (Some(turn), _) => Waited::Given(turn),
            (None, true) => Waited::Woken,
            (None, false) => Waited::TimedOut,
        }
    }

    /// Leaves the queue, with the role if that was given and is `wanted`.
    fn rise(&self, wanted: bool) -> Option<Turn<'a, A>> {
        let (turn, next) = self.baton.inside.with(|inside| {
            if self.chair.given.load(Relaxed) == 0 {
                inside.remove(self.chair);
                return (None, None);
            }
            self.chair.given.store(0, Relaxed);
            if wanted {
                return (Some(Turn { baton: self.baton }), None);
            }
            (None, if planted(Fault::RoleKept) { None } else { self.baton.pass(inside) })
        });
        if let Some(next) = next {
            next.tell();
        }
        turn
    }
}

impl<A: Atomics> Drop for Seated<'_, '_, A> {
    fn drop(&mut self) {
        if !self.is_up {
            drop(self.rise(false));
        }
    }
}

impl<A: Atomics> fmt::Debug for Baton<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (turns, wanted) = (self.turns(), self.wanted());
        let mut said = f.debug_struct("Baton");
        let said = said.field("turns", &turns).field("wanted", &wanted);
        let known = self.inside.try_with(|inside| {
            (inside.holder, inside.seats.iter().map(VecDeque::len).sum::<usize>())
        });
        match known {
            Some((holder, seats)) => said.field("holder", &holder).field("seats", &seats).finish(),
            None => said.finish_non_exhaustive(),
        }
    }
}

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A seat that was given the role and does not want it keeps it.
    RoleKept,
    /// Whoever leaves gives the role to a seat, and lets others enter too.
    GivenTwice,
    /// A thread is unparked before the word says why.
    WokenLate,
    /// A thread that was given the role is not unparked.
    Untold,
    /// A thread that rises leaves its seat in the queue.
    SeatLeft,
    /// A holder in the background is not asked to leave.
    WishForgotten,
}
