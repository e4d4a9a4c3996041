//! How links are made: calls of this side, calls of other nodes, and calls that cross.
//!
//! A link is one connection. The caller makes the connection and sends a hello; the callee answers
//! with a hello. If two nodes call each other at the same time, the call of the node whose host name
//! is first in the alphabet counts, and the other node is told that its call has
//! [crossed](LinkControl::Crossed).

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{Deadline, Instant, LogLimit};
use egret_net::vi::{ConnectError, Connecting, DirectPlacement, Listener, OpenError, Vi};

use super::allow_list::not_allowed;
use super::core::{LinksCore, LinksSetup, WaitStopped, WakeFlag};
use super::link_side::LinkSide;
use super::state::LinksState;
use super::table::ConnectionOwner;
use crate::link::LinkError;
use crate::link::connection::{LinkConnection, post_receives};
use crate::link::control::{LinkControl, LinkHello, VERSION};
use crate::link::placement::Placement;
use crate::slots::{SlotKey, SlotTable};
use crate::wakers::WakerList;

/// Links that are being made.
pub(crate) struct LinkOpening {
    listener: Arc<Listener>,
    accepting: Accepting,
    /// Raised when a connection was accepted or made.
    flag: Arc<WakeFlag>,
    pub(super) calls: BTreeMap<String, LinkAttempt>,
    pub(super) strangers: SlotTable<Stranger>,
    /// Connections that were told why they get no link, and until when they are kept.
    pub(super) told: Vec<(Instant, Vi)>,
    /// Links of hosts that are not listed, and until when they are kept.
    pub(super) unlisted: Vec<(Instant, SlotKey)>,
    /// Limits of the log for refused callers, and for links that are cut off.
    pub(super) turned_away: LogLimit,
    pub(super) cut_off: LogLimit,
}

pub(super) type Accepting = Pin<Box<dyn Future<Output = Result<Vi, OpenError>> + Send>>;

/// A call that is under way.
#[derive(Debug, Default)]
pub(super) struct LinkAttempt {
    connecting: Option<Connecting>,
    made: Option<Vi>,
    /// The link, from when its connection is made to when the peer has said its hello.
    pub(super) link: Option<SlotKey>,
    failed: Option<LinkError>,
    waiters: WakerList,
    /// When the call is repeated.
    pub(super) again: Option<Instant>,
}

/// A connection that a peer has made, and has sent no valid hello by yet.
#[derive(Debug)]
pub(super) struct Stranger {
    pub(super) vi: Vi,
    pub(super) lands: Arc<Placement>,
    /// The hello of the peer, if its host must be listed before it gets a link.
    pub(super) hello: Option<LinkHello>,
    until: Instant,
}

impl LinkOpening {
    pub(crate) fn new(fixed: &LinksSetup) -> Result<Self, OpenError> {
        let listener = Arc::new(fixed.nic.listen(SERVICE, 0, &fixed.vi)?);
        let accepting = accept(&listener);
        let (calls, strangers) = (BTreeMap::new(), SlotTable::default());
        let (flag, told, unlisted) = (WakeFlag::raised(), Vec::new(), Vec::new());
        let (turned_away, cut_off) = (LogLimit::default(), LogLimit::default());
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

    /// How many connections have sent no valid hello yet.
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

    /// The connection of the call is made, and has this link.
    pub(crate) fn set_link(&mut self, host: &str, link: SlotKey) {
        if let Some(call) = self.calls.get_mut(host) {
            call.link = Some(link);
        }
    }

    /// A call is refused for good.
    pub(crate) fn call_refused(&mut self, host: &str, why: LinkError) {
        if let Some(call) = self.calls.get_mut(host) {
            call.link = None;
            call.fail(why);
        }
    }

    /// Ends all links that are being made.
    pub(crate) fn close(&mut self) -> Vec<SlotKey> {
        for call in self.calls.values_mut() {
            call.fail(LinkError::Closed);
        }
        self.told.clear();
        self.strangers.keys()
    }

    /// A link to `host` has ended; a call that was making it has failed.
    pub(crate) fn link_ended(&mut self, host: &str, link: SlotKey, why: &LinkError) {
        self.unlisted.retain(|(_, kept)| *kept != link);
        if let Some(call) = self.calls.get_mut(host)
            && call.link.take_if(|known| *known == link).is_some()
        {
            call.fail(why.clone());
        }
    }

    /// Ends a call that is under way.
    pub(super) fn call_failed(&mut self, host: &str, why: LinkError) {
        if let Some(call) = self.calls.get_mut(host).filter(|call| call.failed.is_none()) {
            call.fail(why);
        }
    }
}

impl LinkAttempt {
    pub(super) const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn fail(&mut self, why: LinkError) {
        self.failed = Some(why);
        self.waiters.wake();
    }
}

pub(super) fn accept(listener: &Arc<Listener>) -> Accepting {
    let listener = Arc::clone(listener);
    Box::pin(async move { listener.accept().await })
}

impl LinksCore {
    /// The link to a host, which is made if there is none.
    pub(crate) fn link(
        self: &Arc<Self>,
        host: &str,
        deadline: Deadline,
    ) -> Result<SlotKey, LinkError> {
        self.link_while(host, deadline, None)
    }

    /// The same, for as long as the link is wanted, which is asked now and then.
    pub(crate) fn link_while(
        self: &Arc<Self>,
        host: &str,
        deadline: Deadline,
        is_wanted: Option<&dyn Fn() -> bool>,
    ) -> Result<SlotKey, LinkError> {
        let (mut left, mut past) = (deadline, Duration::ZERO);
        loop {
            let slice = match left {
                _ if is_wanted.is_none() => left,
                Deadline::In(left) => Deadline::In(left.min(ASKS)),
                Deadline::UntilDead => Deadline::In(ASKS),
            };
            match self.wait(slice, |state, waker| state.link_to(host, deadline, waker)) {
                Ok(made) => return made,
                Err(WaitStopped::InHandler) => return Err(LinkError::InHandler),
                Err(WaitStopped::TimedOut { waited }) => past += waited,
            }
            if let Deadline::In(whole) = deadline {
                left = Deadline::In(whole.saturating_sub(past));
            }
            if left == Deadline::NOW || is_wanted.is_none_or(|is_wanted| !is_wanted()) {
                let known = self.state.with(|state| state.give_up(host));
                let peer = host.to_owned();
                return Err(known.unwrap_or(LinkError::TimedOut { peer, waited: past }));
            }
        }
    }
}

impl LinksState {
    pub(crate) fn link_to(
        &mut self,
        host: &str,
        deadline: Deadline,
        waker: Option<&Waker>,
    ) -> Option<Result<SlotKey, LinkError>> {
        if let Some(link) = self.links.to_host(host) {
            return Some(Ok(link));
        }
        if self.closed {
            return Some(Err(LinkError::Closed));
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
            return Some(Err(LinkError::Oneself));
        }
        let Some(connecting) = self.connecting(host, deadline) else {
            return Some(Err(not_allowed(host)));
        };
        let connecting = Some(connecting);
        let mut call = LinkAttempt { connecting, ..LinkAttempt::default() };
        call.waiters.wait(waker);
        self.opening.calls.insert(host.to_owned(), call);
        self.open_more();
        None
    }

    /// Gives up a call whose deadline has passed. Other threads that wait for the same host call again.
    /// Returns why the call has failed, if the fabric knows by now.
    pub(crate) fn give_up(&mut self, host: &str) -> Option<LinkError> {
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
            if self.links.to_host(&host).is_some() {
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
            self.connections.insert(id, ConnectionOwner::Stranger(key));
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

    pub(crate) fn lands(&self) -> Arc<Placement> {
        Arc::new(Placement::new(Arc::clone(&self.fixed.depot)))
    }

    /// Posts what a connection receives into.
    fn post_receives(&self, vi: &Vi, lands: &Arc<Placement>) {
        let landing: Arc<dyn DirectPlacement> = lands.clone();
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
            Err(why) => call.fail(LinkError::Connect(why)),
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

    pub(crate) fn hello(&self, link: u64) -> LinkControl {
        let (host, incarnation) = (self.fixed.nic.host().to_owned(), self.fixed.incarnation);
        LinkControl::Hello(LinkHello { version: VERSION, link, incarnation, host })
    }

    /// A link over a connection that has its receives.
    pub(super) fn add_line(
        &mut self,
        host: &str,
        vi: Vi,
        lands: Arc<Placement>,
        called: bool,
    ) -> SlotKey {
        let id = vi.id();
        let mut line = LinkSide::new(host, &self.fixed, lands, LinkConnection::new(vi), called);
        self.counters.made += 1;
        line.made = self.counters.made;
        let link = self.links.insert(line);
        self.connections.insert(id, ConnectionOwner::Link(link));
        link
    }
}

impl LinkAttempt {
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

/// How often it is asked whether a link that is being made is still wanted.
const ASKS: Duration = Duration::from_millis(100);
/// What links listen for.
const SERVICE: &str = "egret.link";
/// Connections without a valid hello, at most; more, if all allowed peers connect at once.
const STRANGERS_MAX: usize = 64;
/// Connections without a valid hello of one peer, at most: one, and an older one that it has given up.
const STRANGER_MAX: usize = 2;
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// When a call that crossed another is tried again, should the other not come through.
pub(super) const CROSSED_AGAIN: Duration = Duration::from_millis(50);
