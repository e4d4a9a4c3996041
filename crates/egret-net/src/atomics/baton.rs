//! A role that one thread has at a time, handed from thread to thread. How to wait with it
//! [`Baton`] says.
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
//! A foreground thread that finds the role with a thread in the background sets `wanted`, and
//! ends the holder's wait for the nic. The holder looks at `wanted` after it has polled the
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
use std::task::{Wake, Waker};

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

/// The role of driving something, which one thread has at a time. The others sit,
/// each parked on its own, and are woken one by one: when what they wait for has
/// come, or when the role is theirs.
///
/// ```
/// use std::sync::Arc;
///
/// use egret_net::rt;
/// use egret_net::sync::{Baton, Entered, Ground, Seat, Waited};
///
/// let baton = Arc::new(Baton::default());
/// let Entered::Mine(turn) = baton.enter(Ground::Foreground) else { panic!("nobody has it") };
/// let other = rt::spawn("other", {
///     let baton = Arc::clone(&baton);
///     move || {
///         let mut seat = Seat::new(Ground::Foreground);
///         match baton.sit(&mut seat) {
///             Entered::Mine(turn) => drop(turn),
///             Entered::Taken { seat, .. } => {
///                 assert!(matches!(seat.wait(None), Waited::Given(_)));
///             }
///         }
///     }
/// })?;
/// drop(turn); // to the other, if it sits
/// other.join().expect("it does not panic");
/// assert!(matches!(baton.enter(Ground::Background), Entered::Mine(_)));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # How to wait with it
///
/// [`enter`](Self::enter): whoever gets the role drives until it has what it waits
/// for, and drops the role. Whoever does not makes a [`Seat`], registers the seat's
/// [waker](Seat::waker) where it will be told, looks once more whether what it waits
/// for is there, [sits](Self::sit) and [waits](Seated::wait). A wake that comes before
/// the wait ends it.
///
/// A thread in the [background](Ground::Background) that has the role polls the nic,
/// looks at [`wanted`](Self::wanted), and then waits for more than it saw. Whoever is
/// told to `wake` it calls [`Nic::wake`](crate::vi::Nic::wake). It so leaves in time,
/// whichever of the two is first.
pub struct Baton<A: Atomics = StdAtomics> {
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

/// A place to wait for the role; of the thread that made it, for any number of waits,
/// one after the other.
pub struct Seat<A: Atomics = StdAtomics> {
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

/// The role; dropping it leaves, and gives it to one of the threads that sit, those in
/// the foreground first.
#[must_use = "the role is left when this is dropped"]
pub struct Turn<'a, A: Atomics = StdAtomics> {
    baton: &'a Baton<A>,
}

/// Who has the role now; dropping it tells it.
pub struct Next<A: Atomics = StdAtomics>(Arc<Chair<A>>);

/// A seat that is taken; dropping it rises, and passes the role on if it was given.
#[must_use = "the seat is left when this is dropped"]
pub struct Seated<'a, 's, A: Atomics = StdAtomics> {
    baton: &'a Baton<A>,
    chair: &'s Arc<Chair<A>>,
    is_up: bool,
}

/// What became of an attempt to get the role.
#[derive(Debug)]
pub enum Entered<'a, S, A: Atomics = StdAtomics> {
    /// It is the caller's.
    Mine(Turn<'a, A>),
    /// Somebody has it.
    Taken {
        /// The seat that was taken, if one was asked for.
        seat: S,
        /// Whether one in the background has it and was asked just now to leave: the
        /// caller is to end its wait.
        wake: bool,
    },
}

/// How a wait ended.
#[derive(Debug)]
pub enum Waited<'a, A: Atomics = StdAtomics> {
    /// The role is the caller's.
    Given(Turn<'a, A>),
    /// The seat was woken: what it waits for may have come. The role is somebody
    /// else's, or nobody's.
    Woken,
    /// It was not, in time. The role is not the caller's either.
    TimedOut,
}

impl<A: Atomics> Baton<A> {
    pub(crate) fn new() -> Self {
        Self::behind(&Joint::new(()))
    }

    /// A role that is known under this lock: a thread that has the lock enters and leaves without
    /// another.
    pub(crate) fn behind<T>(lock: &Joint<T, A>) -> Self {
        let inside = lock.sharing(Inside { holder: None, seats: Default::default() });
        Self { inside, wanted: A::Word::new(0), turns: A::Word::new(0) }
    }

    /// Takes the role if nobody has it. Costs as little as the lock of a nic.
    #[inline]
    pub fn enter(&self, ground: Ground) -> Entered<'_, (), A> {
        self.inside.with(|inside| match inside.holder {
            None => Entered::Mine(self.take(inside, ground)),
            Some(holder) => Entered::Taken { seat: (), wake: self.ask(holder, ground) },
        })
    }

    /// Takes the role if nobody has it, and a seat if somebody does.
    pub fn sit<'a, 's>(&'a self, seat: &'s mut Seat<A>) -> Entered<'a, Seated<'a, 's, A>, A> {
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
    #[must_use]
    #[inline]
    pub fn wanted(&self) -> bool {
        self.wanted.load(Relaxed) != 0
    }

    /// Grows whenever the role is taken, given or [used again](Turn::again): whoever
    /// sees the same number twice knows, without a lock, that nobody has driven in
    /// between but one who has not said so.
    #[must_use]
    #[inline]
    pub fn turns(&self) -> u64 {
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
        drop(self.inside.with(|inside| self.pass(inside)));
    }

    /// With the lock: the role is the next seat's, which is to be told, or nobody's.
    #[inline]
    fn pass(&self, inside: &mut Inside<A>) -> Option<Next<A>> {
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
    fn pass_on(&self, inside: &mut Inside<A>) -> Option<Next<A>> {
        let next = inside.next();
        inside.holder = next.as_ref().map(|chair| chair.ground);
        if planted(Fault::GivenTwice) {
            inside.holder = None;
        }
        if let Some(chair) = &next {
            self.count();
            chair.given.store(1, Release);
        }
        next.map(Next)
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
    pub fn again(&self) {
        self.baton.count();
    }

    /// Leaves, for a thread that has the lock which the role is known under: who has the role then
    /// is told when the answer is dropped, behind the lock.
    #[inline]
    #[must_use = "who has the role then is told when this is dropped"]
    pub fn hand(self) -> Option<Next<A>> {
        let baton = ManuallyDrop::new(self).baton;
        baton.inside.with(|inside| baton.pass(inside))
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
    #[must_use]
    pub fn new(ground: Ground) -> Self {
        let (woken, given) = (A::Word::new(0), A::Word::new(0));
        let chair = Chair { ground, thread: A::current(), woken, given };
        Self { chair: Arc::new(chair), _thread_bound: PhantomData }
    }

    /// What others wake it by.
    #[cfg(test)]
    pub(super) const fn chair(&self) -> &Arc<Chair<A>> {
        &self.chair
    }
}

impl Seat {
    /// Wakes it, from any thread: ends the wait in it, or the next one.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.chair))
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
    /// Parks until the seat is woken, is given the role, or until `until`. A role that
    /// is given to a seat which was woken, or whose time is up, is passed on.
    #[must_use]
    pub fn wait(mut self, until: Option<Instant>) -> Waited<'a, A> {
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
        drop(next);
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

impl<A: Atomics> fmt::Debug for Turn<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn")
    }
}

impl<A: Atomics> fmt::Debug for Next<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Next")
    }
}

impl<A: Atomics> fmt::Debug for Seat<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seat")
    }
}

impl<A: Atomics> fmt::Debug for Seated<'_, '_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seated")
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
