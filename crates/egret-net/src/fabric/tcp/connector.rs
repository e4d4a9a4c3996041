//! A connection that this nic is making.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::event::epoll::EventFlags;

use super::datapath::Conn;
use super::driver::Fixed;
use super::greeting::{Lost, greet};
use super::socket::Socket;
use super::stream::Stream;
use super::token::KNOCK;
use crate::fabric::ConnectRequest;
use crate::fabric::greet::{Caller, Known, News, Wanted};
use crate::fabric::hub::patience::Patience;
use crate::fabric::hub::set::{self, token};
use crate::fabric::hub::{Connecting, Outcome};
use crate::fabric::place::Whereabouts;
use crate::rt::Instant;
use crate::vi::ConnectError;

/// Somebody who knocks until there is an answer or the time is up.
#[derive(Debug)]
pub(super) struct Connector {
    pub patience: Patience,
    whereabouts: Whereabouts,
    /// How many of the addresses were tried, ever.
    tried: usize,
    attempt: Option<Attempt>,
}

/// One knock.
#[derive(Debug)]
struct Attempt {
    socket: Socket,
    caller: Caller,
    is_connected: bool,
    since: Instant,
}

/// A connection, what is known of its other end, and the bytes that came behind the greeting.
type Met = (Box<Conn>, Known, Vec<u8>);

/// How soon to knock again at first.
const KNOCK_MIN: Duration = Duration::from_millis(1);
/// How long one knock may go unheard before the next address is tried.
const UNHEARD_MAX: Duration = Duration::from_secs(5);
/// How soon to look for the system's answer again.
const ASK_AGAIN: Duration = Duration::from_millis(2);

impl Connector {
    pub(super) fn new(request: ConnectRequest, now: Instant) -> Self {
        let whereabouts = Whereabouts::of(&request.to.host);
        let patience = Patience::new(request, now, KNOCK_MIN);
        Self { patience, whereabouts, tried: 0, attempt: None }
    }

    /// Knocks if it is time to, or gives up.
    pub(super) fn tick(&mut self, fixed: &Fixed, id: u64, now: Instant) -> Outcome<Met> {
        if self.patience.is_over(now) {
            let inside = self.attempt.as_ref().filter(|attempt| attempt.is_connected);
            let since = inside.map(|attempt| attempt.since);
            return Outcome::Failed(self.patience.too_late_inside(since, now));
        }
        if self.attempt.as_ref().is_some_and(|a| !a.is_connected && now - a.since >= UNHEARD_MAX) {
            self.attempt = None;
        }
        if self.attempt.is_some() || now < self.patience.next {
            return Outcome::Pending;
        }
        let to = match self.whereabouts(now) {
            Err(why) => return Outcome::Failed(why),
            Ok(None) => return Outcome::Pending,
            Ok(Some(to)) => to,
        };
        self.patience.knocked(now);
        // A host that cannot be reached now may be later.
        let Ok(socket) = Socket::connect(to) else { return self.unreached() };
        let wanted = Wanted {
            hello: self.patience.hello(),
            terms: fixed.host.clone().into_bytes(),
            key: self.patience.request.to.key,
            is_plain: fixed.stance.is_plain_to(to.ip()),
        };
        let caller = Caller::new(fixed.stance.clone(), wanted);
        // Without a place in the set the answer is seen at the next tick.
        let flags = EventFlags::IN | EventFlags::OUT;
        let _ = set::watch(&fixed.set, socket.fd(), token(KNOCK, id), flags);
        self.attempt = Some(Attempt { socket, caller, is_connected: false, since: now });
        Outcome::Pending
    }

    /// Where to knock next, as far as it is known.
    fn whereabouts(&mut self, now: Instant) -> Result<Option<SocketAddr>, ConnectError> {
        self.whereabouts.look_up();
        match self.whereabouts.known() {
            None => {
                self.patience.next = now + ASK_AGAIN;
                Ok(None)
            }
            Some([]) => Err(self.patience.unknown()),
            Some(all) => {
                let to = all[self.tried % all.len()];
                self.tried += 1;
                Ok(Some(to))
            }
        }
    }

    /// Looks whether there is an answer.
    pub(super) fn poll(&mut self, fixed: &Fixed, id: u64, now: Instant) -> Outcome<Met> {
        let Some(mut attempt) = self.attempt.take() else { return Outcome::Pending };
        if !attempt.is_connected {
            match attempt.socket.connected() {
                None => {
                    self.attempt = Some(attempt);
                    return Outcome::Pending;
                }
                Some(Err(_)) => return self.unreached(),
                Some(Ok(())) => {
                    attempt.is_connected = true;
                    let (fd, data) = (attempt.socket.fd(), token(KNOCK, id));
                    let _ = set::watch(&fixed.set, fd, data, EventFlags::IN);
                }
            }
        }
        self.patience.known = true;
        match greet(&attempt.socket, &mut attempt.caller) {
            Ok(None) => {
                self.attempt = Some(attempt);
                Outcome::Pending
            }
            Ok(Some((News::Welcome { .. }, behind))) => {
                let Some(session) = attempt.caller.take_session() else { return Outcome::Pending };
                let stream = Stream::Socket(attempt.socket);
                let keys = fixed.seal.keys_of_caller().or(session.keys);
                let conn = Conn::new(self.patience.request.spec, stream, &[], keys);
                Outcome::Made((Box::new(conn), session.known, behind))
            }
            Err(Lost::Greeting(why)) => {
                let why = self.patience.not_greeted(why, now);
                why.map_or(Outcome::Pending, Outcome::Failed)
            }
            Ok(Some(_)) | Err(Lost::Left | Lost::Unfit) => Outcome::Pending,
        }
    }

    /// The kernel there, or on the way, says that nobody is at the address. Somebody may come,
    /// or be at another.
    fn unreached(&self) -> Outcome<Met> {
        let tried_all = self.whereabouts.known().is_some_and(|all| self.tried >= all.len());
        if self.patience.is_in_vain() && tried_all {
            return Outcome::Failed(self.patience.unknown());
        }
        Outcome::Pending
    }
}

impl Connecting for Connector {
    fn deadline(&self) -> Option<Instant> {
        let next = match &self.attempt {
            None => Some(self.patience.next),
            Some(attempt) if !attempt.is_connected => Some(attempt.since + UNHEARD_MAX),
            Some(_) => None,
        };
        self.patience.request.until.into_iter().chain(next).min()
    }

    fn into_patience(self) -> Patience {
        self.patience
    }
}
