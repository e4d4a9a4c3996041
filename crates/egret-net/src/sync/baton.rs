//! A role that is handed from thread to thread.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use super::Ground;
use crate::atomics::{self, baton};
use crate::rt::Instant;

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
#[derive(Default)]
pub struct Baton(atomics::Baton);

/// The role; dropping it leaves, and gives it to one of the threads that sit, those in
/// the foreground first.
#[must_use = "the role is left when this is dropped"]
pub struct Turn<'a>(atomics::Turn<'a>);

/// Who has the role now; dropping it tells it.
pub struct Next(#[expect(dead_code, reason = "its drop tells")] atomics::Next);

/// A place to wait for the role; of the thread that made it, for any number of waits,
/// one after the other.
pub struct Seat(atomics::Seat);

/// A seat that is taken; dropping it rises, and passes the role on if it was given.
#[must_use = "the seat is left when this is dropped"]
pub struct Seated<'a, 's>(atomics::Seated<'a, 's>);

/// What became of an attempt to get the role.
#[derive(Debug)]
pub enum Entered<'a, S> {
    /// It is the caller's.
    Mine(Turn<'a>),
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
pub enum Waited<'a> {
    /// The role is the caller's.
    Given(Turn<'a>),
    /// The seat was woken: what it waits for may have come. The role is somebody
    /// else's, or nobody's.
    Woken,
    /// It was not, in time. The role is not the caller's either.
    TimedOut,
}

impl Baton {
    /// A role that is known under a lock which there is: a thread that has the lock enters and
    /// leaves without another.
    pub(crate) fn behind_lock<T>(lock: &atomics::Joint<T>) -> Self {
        Self(atomics::Baton::behind(lock))
    }

    /// Takes the role if nobody has it. Costs as little as the lock of a nic.
    #[inline]
    pub fn enter(&self, ground: Ground) -> Entered<'_, ()> {
        match self.0.enter(ground) {
            baton::Entered::Mine(turn) => Entered::Mine(Turn(turn)),
            baton::Entered::Taken { seat, wake } => Entered::Taken { seat, wake },
        }
    }

    /// Takes the role if nobody has it, and a seat if somebody does.
    pub fn sit<'a, 's>(&'a self, seat: &'s mut Seat) -> Entered<'a, Seated<'a, 's>> {
        match self.0.sit(&mut seat.0) {
            baton::Entered::Mine(turn) => Entered::Mine(Turn(turn)),
            baton::Entered::Taken { seat, wake } => Entered::Taken { seat: Seated(seat), wake },
        }
    }

    /// Whether a foreground thread waits for a holder in the background to leave.
    #[must_use]
    #[inline]
    pub fn wanted(&self) -> bool {
        self.0.wanted()
    }

    /// Grows whenever the role is taken, given or [used again](Turn::again): whoever
    /// sees the same number twice knows, without a lock, that nobody has driven in
    /// between but one who has not said so.
    #[must_use]
    #[inline]
    pub fn turns(&self) -> u64 {
        self.0.turns()
    }
}

impl Turn<'_> {
    /// Leaves, for a thread that has the lock which the role is known under: who has the role then
    /// is told when the answer is dropped, behind the lock.
    #[inline]
    #[must_use = "who has the role then is told when this is dropped"]
    pub fn hand(self) -> Option<Next> {
        self.0.hand().map(Next)
    }

    /// Counts one more turn with the role.
    #[inline]
    pub fn again(&self) {
        self.0.again();
    }
}

impl Seat {
    /// A seat of the calling thread.
    #[must_use]
    pub fn new(ground: Ground) -> Self {
        Self(atomics::Seat::new(ground))
    }

    /// Wakes it, from any thread: ends the wait in it, or the next one.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(self.0.chair()))
    }
}

impl<'a> Seated<'a, '_> {
    /// Parks until the seat is woken, is given the role, or until `until`. A role that
    /// is given to a seat which was woken, or whose time is up, is passed on.
    #[must_use]
    pub fn wait(self, until: Option<Instant>) -> Waited<'a> {
        match self.0.wait(until) {
            baton::Waited::Given(turn) => Waited::Given(Turn(turn)),
            baton::Waited::Woken => Waited::Woken,
            baton::Waited::TimedOut => Waited::TimedOut,
        }
    }
}

impl fmt::Debug for Baton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn")
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Next")
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seat")
    }
}

impl fmt::Debug for Seated<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seated")
    }
}
