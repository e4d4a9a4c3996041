//! What a fabric implements: the other side of the virtual interface.
//!
//! A [`Machine`] is one nic with all its connections, as a state machine: it has neither lock nor
//! thread, and the time is [handed in](After::now). The handles that a program has of it
//! ([`Nic`], [`Listener`], [`Vi`], [`Drain`]) are written once for all fabrics. They share one
//! lock around the machine, wait and sleep for it, and tell the program what [`After`] has
//! collected once the lock is free.
//!
//! What a machine may rely on:
//!
//! * One thread at a time calls it, and nothing that it calls comes back to it but by a
//!   [`Reply`].
//! * Descriptors were checked against its [`Limits`]; receives are writable.
//! * Each connection that it has [made](NewConnection) is [released](Machine::release) once, and named by
//!   no call afterwards.
//!
//! What it must keep:
//!
//! * A [`Posted`] completes exactly once. Dropping one fails it, so forgetting
//!   one takes effort.
//! * [`close`](Machine::close), and an error, complete everything outstanding before they
//!   return or before the error can be seen.
//! * Nothing blocks.
//! * Code of the program runs in the sink of a drain and where a receive
//!   [chooses its memory](super::DirectPlacement), and nowhere else: what wakes or tells anybody goes to
//!   [`After`].
//! * Messages of the eager class ([`Posted::is_eager`]) take receives of that class only, and
//!   neither class waits for the other. A machine that [carries](Machine::has_eager) eager
//!   messages itself is never given any.
//! * Bytes of a peer never panic.
//!
//! `docs/design/own-fabric.md` shows how to write a whole one.
//!
//! The smallest machine: a nic that reaches no other, and that no other reaches.
//!
//! ```
//! use std::sync::Arc;
//! use std::task::Waker;
//!
//! use egret_net::fabric::{
//!     After, ConnId, ConnectRequest, ListenerName, Machine, NewConnection, OpenError, Unposted, ViSpec,
//! };
//! use egret_net::rt::Deadline;
//! use egret_net::vi::{
//!     Address, ConnectError, Counters, Keys, Limits, Nic, PostError, Posted, Reliability, Ticket,
//!     ViError, ViOptions, Wait,
//! };
//!
//! #[derive(Debug, Default)]
//! struct Island(Arc<Keys>);
//!
//! impl Machine for Island {
//!     fn host(&self) -> &str {
//!         "island"
//!     }
//!     fn limits(&self) -> Limits {
//!         Limits::least()
//!     }
//!     fn keys(&self) -> &Arc<Keys> {
//!         &self.0
//!     }
//!     fn listen(&mut self, _: &ListenerName, _: Reliability) -> Result<(), OpenError> {
//!         Ok(())
//!     }
//!     fn unlisten(&mut self, _: &ListenerName, _: &mut After) {}
//!     fn wake_on_arrival(&mut self, _: &ListenerName, waker: Waker) -> Option<Waker> {
//!         Some(waker)
//!     }
//!     fn accept(
//!         &mut self,
//!         _: &ListenerName,
//!         _: ViSpec,
//!         _: &mut After,
//!     ) -> Result<Option<NewConnection>, OpenError> {
//!         Ok(None)
//!     }
//!     fn connect(&mut self, request: ConnectRequest, after: &mut After) {
//!         let waited = after.now() - request.since;
//!         let (host, why) = (request.to.host, "the sea".to_owned());
//!         after.settle(request.promise, Err(ConnectError::UnknownHost { host, waited, why }));
//!     }
//!     // There are no connections: nothing is posted, and nothing comes.
//!     fn post(&mut self, _: ConnId, posted: Posted, _: &mut After) -> Result<(), Unposted> {
//!         Err(Unposted::new(PostError::Broken(ViError::Closed), posted))
//!     }
//!     fn cancel(&mut self, _: ConnId, _: Ticket, _: &mut After) -> bool {
//!         false
//!     }
//!     fn close(&mut self, _: ConnId, _: &mut After) {}
//!     fn release(&mut self, _: ConnId, _: &mut After) {}
//!     fn error(&self, _: ConnId) -> Option<ViError> {
//!         None
//!     }
//!     fn counters(&self, _: ConnId) -> Counters {
//!         Counters::default()
//!     }
//!     fn poll(&mut self, _: &mut After) {}
//!     fn shut(&mut self, _: &mut After) {}
//! }
//!
//! let nic = Nic::new(Box::new(Island::default()), Wait::default());
//! let to = Address::new("mainland", "ferry", 0);
//! let refused = nic.block_on(nic.connect(&to, &ViOptions::default(), Deadline::DEFAULT));
//! assert!(matches!(refused, Err(ConnectError::UnknownHost { .. })));
//! ```

use std::any::Any;
use std::fmt;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;

pub use super::after::After;
pub use super::promise::ConnectPromise;
use super::{
    Address, Counters, DrainId, Keys, Lane, Limits, OpenError, Position, PostError, Posted,
    PublicKey, Reliability, Sink, Ticket, Trust, ViError, ViId, WhyIsolated,
};
#[cfg(doc)]
use super::{Drain, Listener, Nic, Reply, Vi};
use crate::rt::Instant;

/// One nic of a fabric and its connections. See the [module](self) for the rules.
pub trait Machine: Any + Send + fmt::Debug {
    /// The name peers connect to. It stays as it is.
    fn host(&self) -> &str;
    /// The key that the nic proves to peers, where nics do. It stays as it is.
    fn key(&self) -> Option<PublicKey> {
        None
    }
    /// What the nic allows. It stays as it is.
    fn limits(&self) -> Limits;
    /// The memory that the nic exposes: the same as long as the machine lives.
    fn keys(&self) -> &Arc<Keys>;

    /// Begins to listen; there must be no other listener for the same.
    ///
    /// # Errors
    ///
    /// If someone does, or the nic is down.
    fn listen(&mut self, name: &ListenerName, reliability: Reliability) -> Result<(), OpenError>;
    /// Stops to listen, and sends away who waits to be accepted.
    fn unlisten(&mut self, name: &ListenerName, after: &mut After);
    /// Keeps `waker`, to be woken once when a peer connects to this listener. One that will
    /// wake the same as another that is kept, or that has no listener, comes back: wakers are
    /// dropped with no lock held.
    fn wake_on_arrival(&mut self, name: &ListenerName, waker: Waker) -> Option<Waker>;
    /// Accepts the oldest connection that waits for this listener.
    ///
    /// # Errors
    ///
    /// If the nic is down.
    fn accept(
        &mut self,
        name: &ListenerName,
        spec: ViSpec,
        after: &mut After,
    ) -> Result<Option<NewConnection>, OpenError>;
    /// Begins to connect, and [settles](After::settle) the promise when that is decided, at the
    /// latest when the request's time is up.
    fn connect(&mut self, request: ConnectRequest, after: &mut After);

    /// Takes a descriptor, or gives it back with the reason.
    ///
    /// Another thread may sleep on the [armed](Self::arm) machine meanwhile, and sleeps on unless
    /// this call completes something or sets [`After::happened`]. So the machine begins here what
    /// can begin, and has its descriptor become readable when the rest can go on, or sets
    /// `happened`: then the sleeper [disarms](Self::disarm) the machine, and arms it again before
    /// its next sleep. The same holds for the other calls that have an [`After`].
    ///
    /// # Errors
    ///
    /// If the queue is full or the connection broken.
    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted>;
    /// Completes a descriptor that has not begun with [`ViError::Cancelled`],
    /// before it returns `true`.
    fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool;
    /// Closes the connection, if it is open, and completes everything outstanding.
    fn close(&mut self, conn: ConnId, after: &mut After);
    /// Closes the connection, and forgets it: all handles to it were dropped.
    fn release(&mut self, conn: ConnId, after: &mut After);
    /// Why the connection is in the error state, if it is.
    fn error(&self, conn: ConnId) -> Option<ViError>;
    /// What the connection has done so far.
    fn counters(&self, conn: ConnId) -> Counters;

    /// Does what can be done without waiting.
    fn poll(&mut self, after: &mut After);
    /// When the machine is to be polled at the latest though nothing comes. A thread that goes to sleep
    /// asks once, behind [`arm`](Self::arm): a call that makes the moment an earlier one sets
    /// [`After::happened`].
    fn next_event(&self) -> Option<Instant> {
        None
    }
    /// What is readable when something comes while the machine is [armed](Self::arm); the same
    /// as long as the machine lives. A machine without one is polled every millisecond while
    /// threads wait for it, and event loops cannot.
    fn descriptor(&self) -> Option<MachineFd> {
        None
    }
    /// From now on what comes makes the descriptor readable; what has come before is dealt with
    /// here. Whether there is more to do, so that no thread may sleep. [`disarm`](Self::disarm)
    /// follows in either case, and other calls may come in between.
    fn arm(&mut self, after: &mut After) -> bool {
        self.poll(after);
        false
    }
    /// The descriptor need not become readable any more, and is not any more; what made it
    /// readable is dealt with.
    fn disarm(&mut self, _woken: Woken<'_>, after: &mut After) {
        self.poll(after);
    }
    /// The nic goes down: no caller is accepted any more, and everything ends.
    fn shut(&mut self, after: &mut After);

    /// Whether the machine carries eager messages of this level itself, by the functions below.
    /// Otherwise they travel as posted messages of the eager class. It stays as it is.
    fn has_eager(&self, _level: Reliability) -> bool {
        false
    }
    /// Whether eager messages leave when they are sent, and a drain finds those that have come,
    /// without a [`poll`](Self::poll). It stays as it is.
    fn is_at_once(&self) -> bool {
        Reliability::ALL.into_iter().all(|level| self.has_eager(level))
    }
    /// Sends an eager message, if nothing is against it: the position behind it. A thread that waits
    /// is not woken.
    ///
    /// The answer fits a register. One that is built in memory waits there until all stores
    /// before it are done, and those of the message take longer than the rest of a send.
    fn try_send(
        &mut self,
        _conn: ConnId,
        _lane: Lane,
        _tag: u64,
        _parts: &[&[u8]],
    ) -> Option<NonZeroU64> {
        None
    }
    /// Sends an eager message, or says why not: what follows a [`try_send`](Self::try_send)
    /// that did not.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    fn send(
        &mut self,
        conn: ConnId,
        _lane: Lane,
        _tag: u64,
        _parts: &[&[u8]],
        _after: &mut After,
    ) -> Result<Position, PostError> {
        Err(PostError::Broken(self.error(conn).unwrap_or(ViError::Closed)))
    }
    /// How much of a lane has arrived at the peer, as far as is known; if the peer is to be
    /// `asked`, it says so soon.
    fn arrived(
        &mut self,
        _conn: ConnId,
        _lane: Lane,
        _asked: bool,
        _after: &mut After,
    ) -> Position {
        Position::default()
    }
    /// Passes eager messages that have arrived for this drain to `sink`, at most `budget`. That
    /// some are there, [`poll`](Self::poll) has said by [`After::happened`].
    fn drain(
        &mut self,
        _drain: DrainId,
        _budget: usize,
        _sink: &mut Sink<'_>,
        _after: &mut After,
    ) -> Drained {
        Drained::default()
    }

    /// Whether the machine has datagrams for a [window](crate::fabric::window) above it, by the
    /// functions below: on connections whose [spec](ViSpec) carries less than it promises. Nothing is
    /// posted there. It stays as it is.
    fn has_datagrams(&self) -> bool {
        false
    }
    /// Bytes of the longest datagram that the path of a connection carries in one piece, as far as is
    /// known now, its [edges](Self::datagram_edges) included.
    fn datagram_max(&self, _conn: ConnId) -> usize {
        0
    }
    /// Bytes before and behind those of a datagram that are the machine's to write. A connection
    /// keeps them as they are.
    fn datagram_edges(&self, _conn: ConnId) -> [usize; 2] {
        [DATAGRAM_HEAD, 0]
    }
    /// Datagrams as long as the last one are lost though shorter ones arrive: the path may carry less
    /// than is known.
    fn doubt_path(&mut self, _conn: ConnId) {}
    /// Sends datagrams, which lie one behind the other in `train`: each of `size` bytes, but the last,
    /// which may have fewer. In each the [edges](Self::datagram_edges) are the machine's to write, and
    /// zero when it comes for the first time. How many bytes have left, or are lost; the rest has no
    /// room now, and comes again as the machine leaves it. Then a sleeping thread is to wait for
    /// room, too, until a call finds it for all of its train.
    fn send_datagrams(
        &mut self,
        _conn: ConnId,
        train: &mut [u8],
        _size: usize,
        _after: &mut After,
    ) -> usize {
        train.len()
    }
    /// What has come next for the window above. While the machine has datagrams, all that comes is
    /// taken by this call, and neither by [`poll`](Self::poll) nor by [`arm`](Self::arm).
    fn next_datagram(&mut self, _after: &mut After) -> Option<DatagramEvent<'_>> {
        None
    }

    /// The world in which the machine's time passes, if that is not the real one. It stays the
    /// same.
    fn world(&self) -> Option<Arc<dyn VirtualTime>> {
        None
    }
    /// Whether the machine is to be polled, and has events of its own. One of a world need not, if
    /// all that happens to it happens there. It stays as it is.
    fn is_driven(&self) -> bool {
        self.world().is_none()
    }
}

/// A world with a time of its own, which passes when its threads look or wait. Its functions are
/// called without the lock of any machine, and it may run code of the program.
///
/// A machine of such a world is not armed or disarmed, and polled only if it [is
/// driven](Machine::is_driven): what happens to it happens here.
/// The [module](self) has an example.
pub trait VirtualTime: Send + Sync + fmt::Debug {
    /// The present moment.
    fn now(&self) -> Instant;
    /// Lets happen what is due. How much has happened so far.
    fn look(&self) -> EventCount;
    /// Lets time pass until more has happened than was `seen`, at the latest `until`. May return
    /// early. Answers like `look`.
    fn wait(&self, seen: EventCount, until: Option<Instant>) -> EventCount;
    /// Ends all waits for what was seen before.
    fn wake(&self);
}

/// How much has happened on a nic: something to wait for more than.
/// The [module](self) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCount(pub u64);

/// What came of [arming](super::Nic::arm) a nic.
/// [`Nic::fd`](super::Nic::fd) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arming {
    /// The machine is not armed: something is there to poll.
    Ready,
    /// The machine is armed: its descriptor is readable when something happens.
    Armed {
        /// When it is to be disarmed at the latest.
        until: Option<Instant>,
    },
}

/// What is readable when something comes to a machine.
/// The [module](self) has an example.
#[derive(Debug, Clone)]
pub enum MachineFd {
    /// Any descriptor: a sleeping thread polls it, and the machine finds out what has come.
    Any(Arc<OwnedFd>),
    /// A set of the kernel's (`epoll`), level-triggered or edge-triggered, whose tokens are less
    /// than `u64::MAX`. The thread that sleeps polls it and hands in the events, which saves a call of
    /// the system for each sleep. The hub polls it for no other thread; a machine that polls it as well makes
    /// sure that the sleeping thread is woken (`After::happened`).
    Set(Arc<OwnedFd>),
}

/// How a machine comes to be disarmed.
/// The [module](self) has an example.
#[derive(Debug, Clone, Copy)]
pub enum Woken<'a> {
    /// No thread slept.
    Awake,
    /// A thread slept: the descriptor is readable, the time of the next event has come, or
    /// something else was to be done.
    Slept,
    /// The same, and this is what the set said.
    Said(&'a [SetEvent]),
}

impl<'a> Woken<'a> {
    /// Whether a thread has slept.
    #[must_use]
    pub const fn has_slept(&self) -> bool {
        !matches!(self, Self::Awake)
    }

    /// What the set said.
    #[must_use]
    pub const fn said(&self) -> &'a [SetEvent] {
        match *self {
            Self::Said(events) => events,
            Self::Awake | Self::Slept => &[],
        }
    }
}

/// What a set said of one of its descriptors.
/// The [module](self) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetEvent {
    /// By what the set knows the descriptor.
    pub token: u64,
    /// Whether there is room to write.
    pub has_room: bool,
    /// Whether there is an error to hear.
    pub has_error: bool,
}

/// What came of a drain.
/// The [module](self) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Messages.
    pub count: usize,
    /// Whether some were answered there and then.
    pub answers: bool,
}

/// What has come for a [window](crate::fabric::window).
/// The [module](self) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramEvent<'a> {
    /// A datagram of this connection, without its [edges](Machine::datagram_edges).
    Datagram(ConnId, &'a [u8]),
    /// This connection has ended, for the reason that [`Machine::error`] says.
    Ended(ConnId),
}

/// Bytes at the beginning of a datagram that are its machine's, if that has no other
/// [edges](Machine::datagram_edges).
pub const DATAGRAM_HEAD: usize = 16;

/// The service and the tag of a listener.
/// The [module](self) has an example.
pub type ListenerName = (String, u64);

/// The number of a connection, which its machine gives to it and to no other.
/// The [module](self) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A connection that a machine has made, to be given to the program.
/// The [module](self) has an example.
#[derive(Debug)]
#[non_exhaustive]
pub struct NewConnection {
    /// How the program's handle will name it.
    pub conn: ConnId,
    /// The other end's host.
    pub peer: Box<str>,
    /// How far the two sides trust each other.
    pub trust: Trust,
    /// Why the connection is isolated, if this side asked for more.
    pub why_isolated: Option<WhyIsolated>,
    /// The key that the other end has proven, on a fabric where it does.
    pub key: Option<PublicKey>,
    /// Whether what the two ends say is encrypted: no host between them can read it, or change it
    /// unnoticed.
    pub is_encrypted: bool,
}

impl NewConnection {
    /// An isolated connection with this peer.
    #[must_use]
    pub fn new(conn: ConnId, peer: &str) -> Self {
        Self {
            conn,
            peer: peer.into(),
            trust: Trust::Isolated,
            why_isolated: None,
            key: None,
            is_encrypted: false,
        }
    }
}

/// A descriptor that a fabric did not take, and why. In a box: it is the rare
/// answer, and the common one should not move its size about.
/// The [module](self) has an example.
#[derive(Debug)]
pub struct Unposted(Box<(PostError, Posted)>);

impl Unposted {
    /// Gives `posted` back.
    #[cold]
    #[must_use]
    pub fn new(why: PostError, posted: Posted) -> Self {
        Self(Box::new((why, posted)))
    }

    pub(super) fn into_parts(self) -> (PostError, Posted) {
        *self.0
    }
}

/// How an end of a connection is to be.
/// The [module](self) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViSpec {
    /// The level asked for, on which both ends agree.
    pub reliability: Reliability,
    /// The level that the machine is to carry: a lower one, if a
    /// [window](crate::fabric::window) above it sees to the rest.
    pub carries: Reliability,
    /// Descriptors that may be outstanding on each queue.
    pub depth: u32,
    /// What its handle is called.
    pub vi: ViId,
    /// Where its eager messages are drained.
    pub drain: DrainId,
}

impl ViSpec {
    /// An end of its own, with a drain of its own.
    #[must_use]
    pub fn new(reliability: Reliability, depth: u32) -> Self {
        let (vi, drain) = (ViId::unused(), DrainId::unused());
        Self { reliability, carries: reliability, depth, vi, drain }
    }
}

/// A connection to be made.
/// The [module](self) has an example.
#[derive(Debug)]
pub struct ConnectRequest {
    /// Where to.
    pub to: Address,
    /// How this end is to be.
    pub spec: ViSpec,
    /// When the program asked for it.
    pub since: Instant,
    /// When to give up.
    pub until: Option<Instant>,
    /// Whether to give up as soon as it is known that the host, or the listener, is not there.
    pub at_once: bool,
    /// What to [settle](After::settle).
    pub promise: ConnectPromise,
}
