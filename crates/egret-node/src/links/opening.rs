//! How links are made: calling, being called, and what happens when two nodes call each
//! other at the same time.
//!
//! A link over a reliable fabric is two connections. Who calls makes both and says hello
//! on each; who is called answers on the first when both are there. If two nodes call each
//! other, the call of the one whose host comes first in the alphabet counts, and the other
//! is told that they [crossed](Control::Crossed).

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::vi::{Address, ConnectError, Connecting, Landing, ListenError, Listener, Vi};

use super::behind::Sleeper;
use super::core::{Core, Fixed, Flag, Stopped};
use super::slots::{Key, Slots};
use super::state::{Line, Place, State, remember};
use crate::link::carrier::{Carrier, Direct, post_receives};
use crate::link::control::{Control, Hello, VERSION};
use crate::link::lands::Lands;
use crate::link::machine::Machine;
use crate::link::windowed::post_datagrams;
use crate::link::{Head, Kind, Lane, LinkError, LinkUpError};

/// Links that are being made.
pub(crate) struct Opening {
    listener: Arc<Listener>,
    accepting: Accepting,
    /// Raised when there is something to look at.
    flag: Arc<Flag>,
    pub(super) calls: BTreeMap<String, Calling>,
    pub(super) strangers: Slots<Stranger>,
    /// Connections that were told to give way, until when they are kept.
    pub(super) told: Vec<(Instant, Vi, Vi)>,
    /// Links over a lossy fabric that must be greeted by then.
    unmet: Vec<(Instant, Key)>,
}

type Accepting = Pin<Box<dyn Future<Output = Result<Vi, ListenError>> + Send>>;

/// A call that is under way.
#[derive(Debug, Default)]
pub(super) struct Calling {
    connecting: Vec<Connecting>,
    made: Vec<Vi>,
    /// The link, from when its connections are made to when the peer has greeted.
    pub(super) link: Option<Key>,
    failed: Option<LinkUpError>,
    wakers: Vec<Sleeper>,
    /// When it is to be tried again.
    pub(super) again: Option<Instant>,
}

/// A connection that somebody has made and not yet said what for.
#[derive(Debug)]
pub(super) struct Stranger {
    pub(super) vi: Vi,
    pub(super) lands: Arc<Lands>,
    pub(super) hello: Option<Hello>,
    until: Instant,
}

/// Somebody who has not said hello.
enum Unproven {
    Stranger(Key),
    Link(Key),
}

impl Opening {
    pub(crate) fn new(fixed: &Fixed) -> Result<Self, ListenError> {
        let listener = Arc::new(fixed.nic.listen(SERVICE, 0, &fixed.vi)?);
        let accepting = accept(&listener);
        let (calls, strangers, told) = (BTreeMap::new(), Slots::default(), Vec::new());
        let (flag, unmet) = (Flag::raised(), Vec::new());
        Ok(Self { listener, accepting, flag, calls, strangers, told, unmet })
    }

    /// Connections that have not said what they are for.
    pub(crate) fn strangers(&self) -> usize {
        self.strangers.len()
    }

    pub(crate) fn next_event(&self) -> Option<Instant> {
        let calls = self.calls.values().filter_map(|call| call.again);
        let told = self.told.iter().map(|told| told.0);
        let strangers = self.strangers.values().map(|stranger| stranger.until);
        let unmet = self.unmet.iter().map(|unmet| unmet.0);
        calls.chain(told).chain(strangers).chain(unmet).min()
    }

    /// The connection that was made for a call, if it is one.
    pub(crate) fn take_made(&mut self, host: &str) -> Option<Vi> {
        self.calls.get_mut(host)?.made.pop()
    }

    /// The call is as far as this link.
    pub(crate) fn set_link(&mut self, host: &str, link: Key) {
        if let Some(call) = self.calls.get_mut(host) {
            call.link = Some(link);
        }
    }

    /// A link that must be greeted soon.
    pub(crate) fn expect_hello(&mut self, link: Key, now: Instant) {
        self.unmet.push((now + HELLO_WITHIN, link));
    }

    /// A call is refused for good.
    pub(crate) fn call_refused(&mut self, host: &str, why: LinkUpError) {
        if let Some(call) = self.calls.get_mut(host) {
            call.link = None;
            call.fail(why);
        }
    }

    /// A stranger that is none any more.
    pub(crate) fn take_stranger(&mut self, key: Key) -> Option<(Vi, Arc<Lands>)> {
        self.strangers.remove(key).map(|known| (known.vi, known.lands))
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
    fn fail(&mut self, why: LinkUpError) {
        self.failed = Some(why);
        self.wakers.drain(..).for_each(Sleeper::wake);
    }
}

fn accept(listener: &Arc<Listener>) -> Accepting {
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
            if let Some(waker) = waker {
                remember(&mut call.wakers, waker);
            }
            return None;
        }
        if host == self.fixed.nic.host() {
            return Some(Err(LinkUpError::Oneself));
        }
        let connecting = self.connecting(host, deadline);
        let wakers = waker.into_iter().map(Sleeper::of);
        let call = Calling { connecting, wakers: wakers.collect(), ..Calling::default() };
        self.opening.calls.insert(host.to_owned(), call);
        self.open_more();
        None
    }

    /// Nobody has answered in time. Others that wait for the same call anew. Why the call has
    /// failed, if the fabric says so by now.
    pub(crate) fn give_up(&mut self, host: &str) -> Option<LinkUpError> {
        self.open_more();
        let call = self.opening.calls.remove(host)?;
        call.wakers.into_iter().for_each(Sleeper::wake);
        // Who drives has no waker.
        self.fixed.nic.wake();
        if let Some(link) = call.link {
            self.end(link, |_| LinkError::Closed);
        }
        call.failed
    }

    fn connecting(&self, host: &str, deadline: Deadline) -> Vec<Connecting> {
        let to = Address::new(host, SERVICE, 0);
        let connect = |_| self.fixed.nic.connect(&to, &self.fixed.vi, deadline);
        (0..self.fixed.connections()).map(connect).collect()
    }

    #[inline]
    pub(crate) fn is_busy_opening(&self) -> bool {
        self.opening.flag.is_raised()
            || !self.opening.calls.is_empty()
            || self.opening.strangers.len() > 0
            || !self.opening.told.is_empty()
            || !self.opening.unmet.is_empty()
    }

    /// Looks after calls and strangers.
    #[cold]
    pub(crate) fn open_more(&mut self) {
        self.accept_more();
        let now = self.fixed.nic.now();
        for stranger in self.opening.strangers.keys() {
            if self.opening.strangers.get(stranger).is_some_and(|known| known.until <= now) {
                self.send_away(stranger);
            }
        }
        self.opening.told.retain(|(until, ..)| *until > now);
        for (until, link) in std::mem::take(&mut self.opening.unmet) {
            let unmet = self.links.get(link).is_some_and(|line| line.incarnation.is_none());
            if unmet && until > now {
                self.opening.unmet.push((until, link));
            } else if unmet {
                self.cut_off(link, "it has not said hello");
            }
        }
        let hosts: Vec<String> = self.opening.calls.keys().cloned().collect();
        for host in hosts {
            if self.hosts.contains_key(&host) {
                let call = self.opening.calls.remove(&host);
                call.into_iter().flat_map(|call| call.wakers).for_each(Sleeper::wake);
            } else {
                self.call_more(&host, now);
            }
        }
    }

    fn accept_more(&mut self) {
        if !self.opening.flag.take() {
            return;
        }
        let waker = self.opening.flag.waker();
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
            self.make_room(vi.peer());
            let lands = self.lands();
            if self.fixed.is_lossy() {
                post_datagrams(&vi, self.fixed.receives());
            } else {
                self.post_receives(&vi, &lands);
            }
            let until = self.fixed.nic.now() + HELLO_WITHIN;
            let id = vi.id();
            let stranger = Stranger { vi, lands, hello: None, until };
            let key = self.opening.strangers.insert(stranger);
            self.set_place(id, Some(Place::Stranger(key)));
        }
    }

    /// Sends the oldest away that have not said hello, if there are as many as may be, of one
    /// stranger or of all.
    fn make_room(&mut self, peer: &str) {
        let mut all = Vec::new();
        for (key, stranger) in self.opening.strangers.iter_mut() {
            all.push((stranger.until, stranger.vi.peer() == peer, Unproven::Stranger(key)));
        }
        for (until, link) in &self.opening.unmet {
            let is_same = self.links.get(*link).is_some_and(|line| line.machine.peer == peer);
            all.push((*until, is_same, Unproven::Link(*link)));
        }
        all.sort_by_key(|(until, ..)| *until);
        // Those of a pool may come all at once, and are not to push each other out.
        let peers = usize::try_from(self.fixed.options.peers_max).unwrap_or(usize::MAX);
        let most = STRANGERS_MAX.max(peers.saturating_mul(self.fixed.connections()));
        let of_one = all.iter().filter(|(_, is_same, _)| *is_same).count();
        let oldest = if of_one >= STRANGER_MAX * self.fixed.connections() {
            all.iter().find(|(_, is_same, _)| *is_same)
        } else if all.len() >= most {
            all.first()
        } else {
            None
        };
        match oldest {
            Some((.., Unproven::Stranger(key))) => self.send_away(*key),
            Some((.., Unproven::Link(link))) => {
                let link = *link;
                self.opening.unmet.retain(|(_, unmet)| *unmet != link);
                self.cut_off(link, "it has not said hello");
            }
            None => {}
        }
    }

    pub(crate) fn lands(&self) -> Arc<Lands> {
        Arc::new(Lands::new(Arc::clone(&self.fixed.depot)))
    }

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
            (call.connecting, call.again) = (fresh, None);
        }
        let waker = self.opening.flag.waker();
        let call = self.opening.calls.get_mut(host).expect("just looked at");
        match call.connect_more(&waker, self.fixed.connections()) {
            Ok(true) if self.fixed.is_lossy() => self.say_hello_lossy(host),
            Ok(true) => self.say_hello(host),
            Ok(false) => {}
            Err(why) => call.fail(LinkUpError::Connect(why)),
        }
    }

    /// Both connections are made.
    fn say_hello(&mut self, host: &str) {
        let Some(call) = self.opening.calls.get_mut(host) else { return };
        let (Some(bulk), Some(talk)) = (call.made.pop(), call.made.pop()) else { return };
        let lands = self.lands();
        self.post_receives(&talk, &lands);
        self.post_receives(&bulk, &lands);
        let number = rt::random();
        let link = self.add_line(host, (talk, bulk), lands, true);
        for lane in [Lane::Talk, Lane::Bulk] {
            let hello = self.hello(number, lane);
            let line = self.links.get(link).expect("just made");
            let frame = line.machine.frame(Head::of(Kind::Control, 0), &[], &hello);
            line.machine.push(lane, frame);
        }
        self.opening.set_link(host, link);
        self.pump(link);
    }

    pub(crate) fn hello(&self, link: u64, lane: Lane) -> Vec<u8> {
        let (host, incarnation) = (self.fixed.nic.host().to_owned(), self.fixed.incarnation);
        let hello = Hello { version: VERSION, lane: lane as u8, link, incarnation, host };
        Control::Hello(hello).to_bytes()
    }

    pub(super) fn add_line(
        &mut self,
        host: &str,
        vis: (Vi, Vi),
        lands: Arc<Lands>,
        called: bool,
    ) -> Key {
        let machine = Machine::new(host, &self.fixed, lands);
        let carrier = Carrier::Direct(Box::new(Direct::new(vis.0, vis.1)));
        let ids = carrier.ids();
        let link = self.add_line_of(Line::new(machine, carrier, called));
        for (id, lane) in ids.into_iter().zip([Lane::Talk, Lane::Bulk]) {
            self.set_place(id, Some(Place::Link(link, lane)));
        }
        link
    }

    pub(crate) fn add_line_of(&mut self, mut line: Line) -> Key {
        self.counters.made += 1;
        line.made = self.counters.made;
        self.links.insert(line)
    }
}

impl Calling {
    /// Whether all connections are made now.
    fn connect_more(&mut self, waker: &Waker, connections: usize) -> Result<bool, ConnectError> {
        let mut context = Context::from_waker(waker);
        while let Some(first) = self.connecting.first_mut() {
            let Poll::Ready(made) = Pin::new(first).poll(&mut context) else { return Ok(false) };
            drop(self.connecting.remove(0));
            self.made.push(made?);
        }
        Ok(self.made.len() == connections)
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
