//! The listening side of a rendezvous.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SocketFlags, accept_with, bind, listen};
use thiserror::Error;

use super::control::{Control, ControlError};
use super::fault::{Fault, planted};
use super::greeting::{Acceptance, Greeting, Handles, Terms, hear};
use super::knock::seqpacket;
use super::name::{NameTooLong, address};
use super::peer::{OtherUser, Peer, own_user};
use super::socket::{Received, Sent, Socket};
use super::trust::{Stance, Verdict};
use crate::fabric::greet::{
    Admission, Callee, DISPLACED, GreetError, News, Room, Source, Stage, UnderWay,
};
use crate::fabric::hub::Refusal;
use crate::rt::Instant;
use crate::vi::{Agreed, Hello, HelloError, PublicKey};

/// Where a nic is found by its name. Closed by being dropped, with whoever has
/// not finished greeting.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: OwnedFd,
    stance: Stance,
    /// Watches the listener and the visitors that have not greeted.
    epoll: OwnedFd,
    greeting: BTreeMap<u64, Guest>,
    next: u64,
    /// Until when nobody is let in, after the system had no descriptor to give.
    resting: Option<Instant>,
    /// Handshakes that may begin until the next [turn](Self::turn).
    left: usize,
}

/// Somebody who connected and has not finished greeting.
#[derive(Debug)]
struct Guest {
    control: Control,
    since: Instant,
    until: Instant,
    callee: Callee,
}

/// Somebody who greeted, and waits for an answer.
#[derive(Debug)]
pub(crate) struct Visitor {
    /// What it asks for.
    pub hello: Hello,
    /// What it said beside that.
    pub greeting: Greeting,
    /// The key that it has proven.
    pub key: PublicKey,
    /// How far the two trust each other.
    pub agreed: Agreed,
    /// Its descriptors, unchecked.
    pub handles: Handles<OwnedFd>,
    control: Control,
    callee: Callee,
}

/// Why an acceptor does not open.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum AcceptorError {
    /// No socket can be called so.
    #[error(transparent)]
    Name(#[from] NameTooLong),
    /// Another socket has the name: most likely a nic of this user.
    #[error("a nic named {host:?} is open already (`grep egret/ /proc/net/unix` shows the names)")]
    Taken {
        /// The name.
        host: String,
    },
    /// The operating system would not.
    #[error("no acceptor for the nic: {0}")]
    System(#[from] Errno),
}

/// Somebody was not let in. For the log; the acceptor stays open.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("process {pid} was turned away: {why}")]
pub(crate) struct TurnedAway {
    /// The process; zero if it is not known.
    pub pid: i32,
    /// Why.
    pub why: Turned,
}

/// Why somebody was not let in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum Turned {
    /// Another user's process.
    #[error("{0}")]
    OtherUser(#[from] OtherUser),
    /// As many as are waited for have not greeted yet.
    #[error("too many others have not greeted yet")]
    Crowded,
    /// It gave way to another.
    #[error("{DISPLACED}")]
    Displaced,
    /// It said nothing in time.
    #[error("it did not greet in time")]
    Silent,
    /// It left before it said anything.
    #[error("it left without a greeting")]
    Left,
    /// Its greeting came to nothing.
    #[error("{0}")]
    Greeting(#[from] GreetError),
    /// The operating system would not.
    #[error("{0}; too many open files are a matter of `ulimit -n`")]
    System(#[from] Errno),
}

/// How many may be connected without having greeted, and how many of one process: a descriptor or
/// two each, and 3 KiB of memory.
pub(crate) const CROWD: Room = Room { all: 128, of_one: 64 };
/// Handshakes that are begun in one turn. The others wait where they are, so that those who greet
/// without end do not stop what goes over connections.
pub(crate) const HANDSHAKES_AT_ONCE: usize = 8;

impl Acceptor {
    /// Takes the name `host`, for this user. Visitors are trusted as the
    /// `stance` says.
    ///
    /// # Errors
    ///
    /// If the name is taken or too long.
    pub(crate) fn open(host: &str, stance: Stance) -> Result<Self, AcceptorError> {
        let address = address(host)?;
        let listener = seqpacket()?;
        bind(&listener, &address).map_err(|errno| match errno {
            Errno::ADDRINUSE => AcceptorError::Taken { host: host.to_owned() },
            errno => AcceptorError::System(errno),
        })?;
        listen(&listener, BACKLOG)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&epoll, &listener, LISTENER)?;
        let (greeting, next) = (BTreeMap::new(), LISTENER + 1);
        let (resting, left) = (None, HANDSHAKES_AT_ONCE);
        Ok(Self { listener, stance, epoll, greeting, next, resting, left })
    }

    /// Readable when [`poll_visitor`](Self::poll_visitor) has something to tell.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// The nic looks at its sockets again.
    pub(crate) const fn turn(&mut self) {
        self.left = HANDSHAKES_AT_ONCE;
    }

    /// When to call [`poll_visitor`](Self::poll_visitor) even if nothing is readable.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.greeting.values().map(|guest| guest.until).chain(self.resting).min()
    }

    /// The next visitor, who finished greeting, if there is one. Call it until
    /// there is none; who is left then, because as many handshakes as one [turn](Self::turn) has
    /// were begun, keeps [`fd`](Self::fd) readable. Whoever connects now must have greeted by `until`.
    ///
    /// # Errors
    ///
    /// If somebody was turned away. The acceptor goes on.
    pub(crate) fn poll_visitor(
        &mut self,
        now: Instant,
        until: Instant,
    ) -> Result<Option<Visitor>, TurnedAway> {
        self.rested(now);
        self.dismiss_silent(now)?;
        // Each round ends the call, fills a place among those who greet, or brings
        // one of them to its last word.
        while self.left > 0
            && let Some(ready) = self.ready()
        {
            let visitor = if ready == LISTENER {
                self.let_in(now, until)?
            } else if let Some(guest) = self.greeting.remove(&ready) {
                self.hear(ready, guest)?
            } else {
                None
            };
            if visitor.is_some() {
                return Ok(visitor);
            }
        }
        Ok(None)
    }

    /// Who has something to say.
    fn ready(&self) -> Option<u64> {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(LISTENER),
        }];
        let found = retry_on_intr(|| {
            epoll::wait(&self.epoll, events.as_mut_slice(), Some(&Timespec::default()))
        });
        found.is_ok_and(|count| count == 1).then(|| events[0].data.u64())
    }

    /// Lets one more in, if the kernel lets us, it is of this user and there is room.
    /// A visitor if another turns out to have greeted when it was to give way.
    fn let_in(&mut self, now: Instant, until: Instant) -> Result<Option<Visitor>, TurnedAway> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = match accept_with(&self.listener, flags) {
            Ok(fd) => fd,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(errno) => {
                self.rest(now);
                return Err(TurnedAway { pid: 0, why: errno.into() });
            }
        };
        let socket = Socket::new(fd);
        let peer = Peer::of(&socket).map_err(|errno| TurnedAway { pid: 0, why: errno.into() })?;
        let pid = peer.pid;
        let strange = peer.check_user();
        let control = Control::new(socket, peer);
        let callee = Callee::new(self.stance.greet.clone(), true);
        if let Err(why) = strange {
            refuse(&control, callee, &Refusal::OtherUser { uid: own_user() });
            return Err(TurnedAway { pid, why: why.into() });
        }
        let outcome = match self.admit(pid, now) {
            Admission::Free => Ok(None),
            Admission::Instead(oldest) => self.give_way(oldest),
            Admission::Later => Err(TurnedAway { pid, why: Turned::Crowded }),
        };
        let is_full = self.admit(pid, now) != Admission::Free;
        if is_full {
            refuse(&control, callee, &Refusal::Crowded);
            return outcome;
        }
        let number = self.next;
        let watched = if planted(Fault::WatchRefused) {
            Err(Errno::NOSPC)
        } else {
            watch(&self.epoll, &control.fd(), number)
        };
        if let Err(errno) = watched {
            refuse(&control, callee, &Refusal::Crowded);
            // Who has greeted has nothing to do with it.
            let visitor = outcome?.ok_or(TurnedAway { pid, why: errno.into() })?;
            return Ok(Some(visitor));
        }
        self.next += 1;
        self.greeting.insert(number, Guest { control, since: now, until, callee });
        outcome
    }

    /// Whether there is a place for one more of this process.
    fn admit(&self, pid: i32, now: Instant) -> Admission<u64> {
        let of = |pid| Source::Process(if planted(Fault::SharesForgotten) { 0 } else { pid });
        let under_way = self.greeting.iter().map(|(number, guest)| {
            let stage = if guest.callee.is_silent() { Stage::Silent } else { Stage::Opened };
            let source = of(guest.control.peer().pid);
            UnderWay { key: *number, source, stage: stage(guest.since) }
        });
        let room = if planted(Fault::SharesForgotten) {
            Room { of_one: CROWD.all, ..CROWD }
        } else {
            CROWD
        };
        room.admit(of(pid), now, under_way)
    }

    /// One who greets gives way to the next, unless it has said something meanwhile.
    fn give_way(&mut self, number: u64) -> Result<Option<Visitor>, TurnedAway> {
        let Some(guest) = self.greeting.remove(&number) else { return Ok(None) };
        let pid = guest.control.peer().pid;
        if is_readable(&guest.control.fd()) {
            return self.hear(number, guest);
        }
        refuse(&guest.control, guest.callee, &Refusal::Crowded);
        Err(TurnedAway { pid, why: Turned::Displaced })
    }

    /// Hears the next step of a greeting, and answers.
    fn hear(&mut self, number: u64, mut guest: Guest) -> Result<Option<Visitor>, TurnedAway> {
        let pid = guest.control.peer().pid;
        let away = |why| TurnedAway { pid, why };
        let mut packet = match guest.control.receive() {
            Ok(Received::Packet(packet)) => packet,
            // It was readable: whoever says nothing then has nothing to say.
            Ok(Received::Gone | Received::Nothing) => return Err(away(Turned::Left)),
            Err(errno) => return Err(away(errno.into())),
        };
        let had_begun = guest.callee.has_begun();
        let news = hear(&mut guest.callee, &packet);
        let is_counted = news.is_ok() || !planted(Fault::LostUncounted);
        if !had_begun && guest.callee.has_begun() && is_counted {
            self.left -= usize::from(!planted(Fault::HandshakesUnbounded));
        }
        let said = guest.say();
        let (key, hello, terms) = match news.map_err(|why| away(why.into()))? {
            News::Hello { peer, hello, terms } => (peer, hello, terms),
            _ if said => {
                self.greeting.insert(number, guest);
                return Ok(None);
            }
            _ => return Err(away(Turned::Left)),
        };
        let Guest { control, callee, .. } = guest;
        let (greeting, handles) = match Greeting::decode(&terms, &mut packet) {
            Ok(read) => read,
            Err(why) => {
                let why = HelloError::from(why);
                refuse(&control, callee, &Refusal::Hello(why.clone()));
                return Err(away(GreetError::from(why).into()));
            }
        };
        // The visitor keeps its socket; an acceptor has nothing more to watch for there.
        epoll::delete(&self.epoll, control.fd()).map_err(|errno| away(errno.into()))?;
        let agreed = self.stance.settle(greeting.wish, control.peer());
        Ok(Some(Visitor { hello, greeting, key, agreed, handles, control, callee }))
    }

    /// Sends one away whose time is up, if there is one.
    fn dismiss_silent(&mut self, now: Instant) -> Result<(), TurnedAway> {
        let late = self.greeting.iter().find(|(_, guest)| guest.until <= now);
        let Some(number) = late.map(|(number, _)| *number) else { return Ok(()) };
        let guest = self.greeting.remove(&number).expect("just found");
        Err(TurnedAway { pid: guest.control.peer().pid, why: Turned::Silent })
    }

    /// Lets nobody in for a moment: without descriptors the listener would stay
    /// readable and keep its nic busy with nothing.
    fn rest(&mut self, now: Instant) {
        self.resting = now.checked_add(REST);
        _ = epoll::delete(&self.epoll, &self.listener);
    }

    fn rested(&mut self, now: Instant) {
        if self.resting.is_some_and(|until| until <= now) {
            let watched = watch(&self.epoll, &self.listener, LISTENER);
            self.resting = if watched.is_ok() { None } else { now.checked_add(REST) };
        }
    }
}

impl Guest {
    /// Says what there is to say; whether it could.
    fn say(&mut self) -> bool {
        let step = self.callee.outgoing();
        let len = step.len();
        let said = len == 0 || matches!(self.control.send_bytes(step, &[]), Ok(Sent::Sent));
        self.callee.sent(len);
        said
    }
}

impl Visitor {
    /// Makes the connection.
    ///
    /// # Errors
    ///
    /// If the visitor is gone.
    pub(crate) fn accept(
        self,
        terms: &Terms,
        handles: Handles<BorrowedFd<'_>>,
    ) -> Result<(Control, Handles<OwnedFd>), ControlError> {
        let Self { control, mut callee, .. } = self;
        let pid = control.peer().pid;
        let verdict = Verdict::of(self.agreed, self.greeting.wish);
        callee.welcome(&Acceptance { terms: *terms, verdict }.encode());
        match control.send_bytes(callee.outgoing(), &handles.borrowed())? {
            Sent::Sent => Ok((control, self.handles)),
            // The first packet always fits; only descriptors under way can be too many.
            Sent::Full => Err(ControlError::System { pid, errno: Errno::TOOMANYREFS }),
        }
    }

    /// Says why not. Nothing is waited for.
    pub(crate) fn refuse(self, refusal: &Refusal) {
        refuse(&self.control, self.callee, refusal);
    }

    /// Whether it left meanwhile.
    pub(crate) fn is_gone(&self) -> bool {
        self.control.is_gone()
    }

    /// Who it is.
    #[cfg(test)]
    pub(crate) const fn peer(&self) -> &Peer {
        self.control.peer()
    }
}

/// Best effort: whoever does not get it sees the connection end.
fn refuse(control: &Control, mut callee: Callee, refusal: &Refusal) {
    callee.refuse(refusal);
    if !callee.outgoing().is_empty() {
        _ = control.send_bytes(callee.outgoing(), &[]);
    }
}

/// Whether there is something to read, or to learn that there is not.
fn is_readable(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn watch(epoll: &OwnedFd, fd: &impl AsFd, number: u64) -> Result<(), Errno> {
    epoll::add(epoll, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
}

/// Connections that the kernel keeps for an acceptor that is not looking.
const BACKLOG: i32 = 128;
const REST: Duration = Duration::from_millis(10);
/// The listener's number; visitors have higher ones.
const LISTENER: u64 = 0;
