//! How links are made: calling, being called, and what happens when two nodes call each
//! other at the same time.
//!
//! A link is one connection. Who calls makes it and says hello; who is called answers. If two
//! nodes call each other, the call of the one whose host comes first in the alphabet counts, and
//! the other is told that they [crossed](Control::Crossed).

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{Deadline, Instant, Seldom};
use egret_net::vi::{ConnectError, Connecting, Landing, ListenError, Listener, Vi};

use super::allowed::not_allowed;
use super::behind::Waiters;
use super::core::{Core, Fixed, Flag, Stopped};
use super::slots::{Key, Slots};
use super::state::{Line, Place, State};
use crate::link::carrier::{Carrier, post_receives};
use crate::link::control::{Control, Hello, VERSION};
use crate::link::lands::Lands;
use crate::link::{LinkError, LinkUpError};

/// Links that are being made.
pub(crate) struct Opening {
    listener: Arc<Listener>,
    accepting: Accepting,
    /// Raised when there is something to look at.
    flag: Arc<Flag>,
    pub(super) calls: BTreeMap<String, Calling>,
    pub(super) strangers: Slots<Stranger>,
    /// Connections that were told to give way, until when they are kept.
    pub(super) told: Vec<(Instant, Vi)>,
    /// Links of those who are not listed, until when they are kept.
    pub(super) unlisted: Vec<(Instant, Key)>,
    /// What the log is told of those who get no link, and of those whose link is cut off.
    pub(super) turned_away: Seldom,
    pub(super) cut_off: Seldom,
}

pub(super) type Accepting = Pin<Box<dyn Future<Output = Result<Vi, ListenError>> + Send>>;

/// A call that is under way.
#[derive(Debug, Default)]
pub(super) struct Calling {
    connecting: Option<Connecting>,
    made: Option<Vi>,
    /// The link, from when its connection is made to when the peer has greeted.
    pub(super) link: Option<Key>,
    failed: Option<LinkUpError>,
    waiters: Waiters,
    /// When it is to be tried again.
    pub(super) again: Option<Instant>,
}

/// A connection that somebody has made and not yet said what for.
#[derive(Debug)]
pub(super) struct Stranger {
    pub(super) vi: Vi,
    pub(super) lands: Arc<Lands>,
    /// What it has said, if it must be listed first.
    pub(super) hello: Option<Hello>,
    until: Instant,
}

impl Opening {
    pub(crate) fn new(fixed: &Fixed) -> Result<Self, ListenError> {
        let listener = Arc::new(fixed.nic.listen(SERVICE, 0, &fixed.vi)?);
        let accepting = accept(&listener);
        let (calls, strangers) = (BTreeMap::new(), Slots::default());
        let (flag, told, unlisted) = (Flag::raised(), Vec::new(), Vec::new());
        let (turned_away, cut_off) = (Seldom::default(), Seldom::default());
        Ok(Self {
            listener,
            accepting,
            flag,
            calls,
            strangers,
            told,
            unlisted,
            turned_away,
            cut_off,
        })
    }

    /// Raises the flag.
    pub(super) fn waker(&self) -> Waker {
        self.flag.waker()
    }

    /// Connections that have not said what they are for.
    pub(crate) fn strangers(&self) -> usize {
        self.strangers.len()
    }

    pub(crate) fn next_event(&self) -> Option<Instant> {
        let calls = self.calls.values().filter_map(|call| call.again);
        let told = self.told.iter().map(|told| told.0);
        let strangers = self.strangers.values().map(|stranger| stranger.until);
        let unlisted = self.unlisted.iter().map(|link| link.0);
        calls.chain(told).chain(strangers).chain(unlisted).min()
    }

    /// The connection that was made for a call, if it is one.
    pub(crate) fn take_made(&mut self, host: &str) -> Option<Vi> {
        self.calls.get_mut(host)?.made.take()
    }

    /// The call is as far as this link.
    pub(crate) fn set_link(&mut self, host: &str, link: Key) {
        if let Some(call) = self.calls.get_mut(host) {
            call.link = Some(link);
        }
    }

    /// A call is refused for good.
    pub(crate) fn call_refused(&mut self, host: &str, why: LinkUpError) {
        if let Some(call) = self.calls.get_mut(host) {
            call.link = None;
            call.fail(why);
        }
    }

    /// Ends all that is being made.
    pub(crate) fn close(&mut self) -> Vec<Key> {
        for call in self.calls.values_mut() {
            call.fail(LinkUpError::Link(LinkError::Closed));
        }
        self.told.clear();
        self.strangers.keys()
    }

    /// A link to `host` that was being made is no more.
    pub(crate) fn link_ended(&mut self, host: &str, link: Key, why: &LinkError) {
        self.unlisted.retain(|(_, kept)| *kept != link);
        if let Some(call) = self.calls.get_mut(host)
            && call.link.take_if(|known| *known == link).is_some()
        {
            call.fail(LinkUpError::Link(why.clone()));
        }
    }

    /// Ends a call that is under way.
    pub(super) fn call_failed(&mut self, host: &str, why: LinkError) {
        if let Some(call) = self.calls.get_mut(host).filter(|call| call.failed.is_none()) {
            call.fail(LinkUpError::Link(why));
        }
    }
}

impl Calling {
    pub(super) const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn fail(&mut self, why: LinkUpError) {
        self.failed = Some(why);
        self.waiters.wake();
    }
}

pub(super) fn accept(listener: &Arc<Listener>) -> Accepting {
    let listener = Arc::clone(listener);
    Box::pin(async move { listener.accept().await })
}

impl Core {
    /// The link to a host, which is made if there is none.
    pub(crate) fn link(
        self: &Arc<Self>,
        host: &str,
        deadline: Deadline,
    ) -> Result<Key, LinkUpError> {
        let made = self.wait(deadline, |state, waker| state.link_to(host, deadline, waker));
        match made {
            Ok(made) => made,
            Err(Stopped::InHandler) => Err(LinkUpError::InHandler),
            Err(Stopped::TimedOut { waited }) => {
                let known = self.state.with(|state| state.give_up(host));
                let peer = host.to_owned();
                Err(known.unwrap_or(LinkUpError::TimedOut { peer, waited }))
            }
        }
    }
}

impl State {
    pub(crate) fn link_to(
        &mut self,
        host: &str,
        deadline: Deadline,
        waker: Option<&Waker>,
    ) -> Option<Result<Key, LinkUpError>> {
        if let Some(link) = self.hosts.get(host) {
            return Some(Ok(*link));
        }
        if self.closed {
            return Some(Err(LinkUpError::Link(LinkError::Closed)));
        }
        if let Some(call) = self.opening.calls.get_mut(host) {
            if let Some(why) = call.failed.take() {
                self.opening.calls.remove(host);
                return Some(Err(why));
            }
            call.waiters.wait(waker);
            return None;
        }
        if host == self.fixed.nic.host() {
            return Some(Err(LinkUpError::Oneself));
        }
        let Some(connecting) = self.connecting(host, deadline) else {
            return Some(Err(not_allowed(host)));
        };
        let connecting = Some(connecting);
        let mut call = Calling { connecting, ..Calling::default() };
        call.waiters.wait(waker);
        self.opening.calls.insert(host.to_owned(), call);
        self.open_more();
        None
    }

    /// Nobody has answered in time. Others that wait for the same call anew. Why the call has
    /// failed, if the fabric says so by now.
    pub(crate) fn give_up(&mut self, host: &str) -> Option<LinkUpError> {
        self.open_more();
        let mut call = self.opening.calls.remove(host)?;
        call.waiters.wake();
        // Who drives has no waker.
        self.fixed.nic.wake();
        if let Some(link) = call.link {
            self.end(link, |_| LinkError::Closed);
        }
        call.failed
    }

    /// Begins to connect, with a host that may have a link.
    fn connecting(&self, host: &str, deadline: Deadline) -> Option<Connecting> {
        let to = self.allowed.address(host, SERVICE)?;
        Some(self.fixed.nic.connect(&to, &self.fixed.vi, deadline))
    }

    #[inline]
    pub(crate) fn is_busy_opening(&self) -> bool {
        self.opening.flag.is_raised()
            || !self.opening.calls.is_empty()
            || self.opening.strangers.len() > 0
            || !self.opening.told.is_empty()
            || !self.opening.unlisted.is_empty()
    }

    /// Looks after calls and strangers.
    #[cold]
    pub(crate) fn open_more(&mut self) {
        if self.opening.flag.take() {
            self.accept_more();
            self.open_paths();
        }
        let now = self.fixed.nic.now();
        for stranger in self.opening.strangers.keys() {
            if self.opening.strangers.get(stranger).is_some_and(|known| known.until <= now) {
                self.send_away(stranger);
            }
        }
        self.opening.told.retain(|(until, _)| *until > now);
        self.part_from_unlisted(now);
        let hosts: Vec<String> = self.opening.calls.keys().cloned().collect();
        for host in hosts {
            if self.hosts.contains_key(&host) {
                let call = self.opening.calls.remove(&host);
                call.into_iter().for_each(|mut call| call.waiters.wake());
            } else {
                self.call_more(&host, now);
            }
        }
    }

    fn accept_more(&mut self) {
        let waker = self.opening.waker();
        let mut context = Context::from_waker(&waker);
        while let Poll::Ready(accepted) = self.opening.accepting.as_mut().poll(&mut context) {
            let Ok(vi) = accepted else {
                self.opening.accepting = Box::pin(std::future::pending());
                return;
            };
            self.opening.accepting = accept(&self.opening.listener);
            if self.closed {
                continue;
            }
            self.make_room(&vi);
            let lands = self.lands();
            self.post_receives(&vi, &lands);
            let until = self.fixed.nic.now() + HELLO_WITHIN;
            let id = vi.id();
            let stranger = Stranger { vi, lands, hello: None, until };
            let key = self.opening.strangers.insert(stranger);
            self.set_place(id, Some(Place::Stranger(key)));
        }
    }

    /// Sends the oldest away that have not said hello, if there are as many as may be, of one
    /// stranger or of all.
    fn make_room(&mut self, newcomer: &Vi) {
        let mut all = Vec::new();
        for (key, stranger) in self.opening.strangers.iter_mut() {
            let is_same = match (stranger.vi.peer_key(), newcomer.peer_key()) {
                (Some(one), Some(other)) => one == other,
                _ => stranger.vi.peer() == newcomer.peer(),
            };
            all.push((stranger.until, is_same, key));
        }
        all.sort_by_key(|(until, ..)| *until);
        // Those of a pool may come all at once, and are not to push each other out.
        let peers = usize::try_from(self.fixed.options.peers_max).unwrap_or(usize::MAX);
        let most = STRANGERS_MAX.max(peers);
        let of_one = all.iter().filter(|(_, is_same, _)| *is_same).count();
        let oldest = if of_one >= STRANGER_MAX {
            all.iter().find(|(_, is_same, _)| *is_same)
        } else if all.len() >= most {
            all.first()
        } else {
            None
        };
        if let Some(&(.., key)) = oldest {
            self.send_away(key);
        }
    }

    pub(crate) fn lands(&self) -> Arc<Lands> {
        Arc::new(Lands::new(Arc::clone(&self.fixed.depot)))
    }

    /// Posts what a connection receives into.
    fn post_receives(&self, vi: &Vi, lands: &Arc<Lands>) {
        let landing: Arc<dyn Landing> = lands.clone();
        post_receives(vi, self.fixed.receives(), u64::MAX, &landing);
    }

    /// Goes on with a call.
    fn call_more(&mut self, host: &str, now: Instant) {
        let Some(call) = self.opening.calls.get_mut(host) else { return };
        if call.link.is_some() || call.failed.is_some() {
            return;
        }
        if call.again.is_some_and(|again| again <= now) {
            let fresh = self.connecting(host, Deadline::DEFAULT);
            let call = self.opening.calls.get_mut(host).expect("just looked at");
            if fresh.is_none() {
                return call.fail(not_allowed(host));
            }
            (call.connecting, call.again) = (fresh, None);
        }
        let waker = self.opening.waker();
        let call = self.opening.calls.get_mut(host).expect("just looked at");
        match call.connect_more(&waker) {
            Ok(true) => self.say_hello(host),
            Ok(false) => {}
            Err(why) => call.fail(LinkUpError::Connect(why)),
        }
    }

    /// The connection of a call is made.
    fn say_hello(&mut self, host: &str) {
        let Some(vi) = self.opening.take_made(host) else { return };
        let lands = self.lands();
        self.numbers += 1;
        let number = self.numbers;
        self.post_receives(&vi, &lands);
        let hello = self.hello(number);
        let link = self.add_line(host, vi, lands, true);
        let line = self.links.get(link).expect("just made");
        line.number = number;
        line.control(&hello);
        self.opening.set_link(host, link);
        self.pump(link);
    }

    pub(crate) fn hello(&self, link: u64) -> Control {
        let (host, incarnation) = (self.fixed.nic.host().to_owned(), self.fixed.incarnation);
        Control::Hello(Hello { version: VERSION, link, incarnation, host })
    }

    /// A link over a connection that has its receives.
    pub(super) fn add_line(&mut self, host: &str, vi: Vi, lands: Arc<Lands>, called: bool) -> Key {
        let id = vi.id();
        let mut line = Line::new(host, &self.fixed, lands, Carrier::new(vi), called);
        self.counters.made += 1;
        line.made = self.counters.made;
        let link = self.links.insert(line);
        self.set_place(id, Some(Place::Link(link)));
        link
    }
}

impl Calling {
    /// Whether the connection is made now.
    fn connect_more(&mut self, waker: &Waker) -> Result<bool, ConnectError> {
        let mut context = Context::from_waker(waker);
        if let Some(connecting) = &mut self.connecting {
            let Poll::Ready(made) = Pin::new(connecting).poll(&mut context) else {
                return Ok(false);
            };
            self.connecting = None;
            self.made = Some(made?);
        }
        Ok(self.made.is_some())
    }
}

/// What links listen for.
const SERVICE: &str = "egret.link";
/// Connections that have not said what they are for; more, if all peers that there may be come.
const STRANGERS_MAX: usize = 64;
/// Links that one stranger may be about to make: one, and one before that which it has given up.
const STRANGER_MAX: usize = 2;
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// When a call that crossed another is tried again, should the other not come through.
pub(super) const CROSSED_AGAIN: Duration = Duration::from_millis(50);
