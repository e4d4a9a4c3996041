//! The paths of all links: how they are made and end, and what comes by them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{Deadline, Instant};
use egret_net::sync::deferred::{self, DeferredWork};
use egret_net::vi::{
    Address, Completion, ConnectError, Connecting, Descriptor, Drain, Listener, OpenError,
    Reliability, Vi, ViId, ViOptions,
};

use super::fault::{self, Fault, planted};
use super::handle::PathConnection;
use super::head::{PathHead, ReceivedNumbers};
use crate::am::{BundleState, HandlerTable, TableKey, UpcallHandler, UpcallKind};
use crate::link::LinkError;
use crate::links::core::LinksSetup;
use crate::links::opening::{Accepting, accept};
use crate::links::state::LinksState;
use crate::links::table::ConnectionOwner;
use crate::slots::{SlotKey, SlotTable};
use crate::wakers::WakerList;

/// The paths of all links.
pub(crate) struct PathTable {
    /// None if the nic does not offer the level.
    listener: Option<Arc<Listener>>,
    accepting: Accepting,
    /// For connections.
    vi: ViOptions,
    all: SlotTable<PathState>,
    /// Paths that are being made, by their links.
    calls: BTreeMap<SlotKey, PathAttempt>,
    /// Where the handlers of ports are.
    ports: BTreeMap<u64, TableKey>,
}

/// One end of a path.
struct PathState {
    shared: Arc<PathConnection>,
    link: SlotKey,
    /// Whether this side made it, and sends.
    is_ours: bool,
    /// Handles that programs have to it.
    handles: usize,
    came: ReceivedNumbers,
    /// Messages that wait for their handlers.
    waiting: u32,
}

/// How long a call that has failed is kept for who waits for it.
const FAILED_FOR: Duration = Duration::from_secs(1);

struct PathAttempt {
    connecting: Connecting,
    /// Why there is none, and since when that is known.
    failed: Option<(Instant, ConnectError)>,
    waiters: WakerList,
}

impl PathTable {
    pub(crate) fn new(fixed: &LinksSetup, drain: &Drain) -> Result<Self, OpenError> {
        let (reliability, drain) = (Reliability::Unreliable, Some(drain.clone()));
        let vi = ViOptions { reliability, drain, ..fixed.vi.clone() };
        let is_offered = fixed.nic.limits().offers(reliability);
        let listener = is_offered.then(|| fixed.nic.listen(SERVICE, 0, &vi)).transpose()?;
        let listener = listener.map(Arc::new);
        let accepting = accepting(listener.as_ref());
        let (all, calls, ports) = (SlotTable::default(), BTreeMap::new(), BTreeMap::new());
        Ok(Self { listener, accepting, vi, all, calls, ports })
    }

    /// Paths that there are, or are being made.
    pub(crate) fn len(&self) -> usize {
        self.all.len() + self.calls.len()
    }

    /// The links that have one.
    pub(crate) fn links(&self) -> impl Iterator<Item = SlotKey> {
        self.all.values().map(|path| path.link).chain(self.calls.keys().copied())
    }

    /// Messages that the connections of peers' paths have dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.all.values().map(PathState::dropped).sum()
    }

    fn find(&mut self, link: SlotKey, is_ours: bool) -> Option<(SlotKey, &mut PathState)> {
        self.all.iter_mut().find(|(_, path)| path.link == link && path.is_ours == is_ours)
    }
}

impl PathState {
    /// Whether as many messages wait for their handlers as may.
    fn is_full(&self) -> bool {
        self.waiting >= WAITING_MAX && !planted(Fault::Boundless)
    }

    fn dropped(&self) -> u64 {
        if self.is_ours { 0 } else { self.shared.vi.counters().dropped }
    }
}

fn accepting(listener: Option<&Arc<Listener>>) -> Accepting {
    listener.map_or_else(|| Box::pin(std::future::pending()) as Accepting, accept)
}

impl LinksState {
    /// This side's path to a host, which is made if there is none, as is the link.
    pub(super) fn path_to(
        &mut self,
        host: &str,
        deadline: Deadline,
        waker: Option<&Waker>,
    ) -> Option<Result<(SlotKey, Arc<PathConnection>), LinkError>> {
        let link = match self.link_to(host, deadline, waker)? {
            Ok(link) => link,
            Err(why) => return Some(Err(why)),
        };
        if self.closed {
            return Some(Err(LinkError::Closed));
        }
        if self.paths.find(link, true).is_none() {
            let now = self.fixed.nic.now();
            let is_old = |failed: &(Instant, ConnectError)| failed.0 + FAILED_FOR < now;
            // Who waited for that has given up.
            self.paths.calls.retain(|_, call| !call.failed.as_ref().is_some_and(is_old));
            if !self.paths.calls.contains_key(&link) {
                let mut to = Address::new(host, SERVICE, 0);
                to.key = self.links.get(link).and_then(|line| line.key());
                let connecting = self.fixed.nic.connect(&to, &self.paths.vi, deadline);
                let (failed, waiters) = (None, WakerList::default());
                self.paths.calls.insert(link, PathAttempt { connecting, failed, waiters });
            }
            self.connect_paths();
        }
        if let Some((key, path)) = self.paths.find(link, true) {
            path.handles += 1;
            return Some(Ok((key, Arc::clone(&path.shared))));
        }
        let call = self.paths.calls.get_mut(&link)?;
        if let Some((_, why)) = call.failed.take() {
            self.paths.calls.remove(&link);
            return Some(Err(why.into()));
        }
        call.waiters.wait(waker);
        None
    }

    /// Gives up a path that was not answered in time. Other waiters for it call anew.
    pub(super) fn give_up_path(&mut self, host: &str) -> Option<LinkError> {
        let Some(link) = self.links.to_host(host) else { return self.give_up(host) };
        let mut call = self.paths.calls.remove(&link)?;
        call.waiters.wake();
        // Who drives has no waker.
        self.fixed.nic.wake();
        call.failed.map(|(_, why)| LinkError::Connect(why))
    }

    /// Looks after those that are being made: somebody has connected, or was connected.
    pub(crate) fn open_paths(&mut self) {
        let waker = self.opening.waker();
        let mut context = Context::from_waker(&waker);
        while let Poll::Ready(accepted) = self.paths.accepting.as_mut().poll(&mut context) {
            let listener = self.paths.listener.as_ref().filter(|_| accepted.is_ok());
            self.paths.accepting = accepting(listener);
            accepted.into_iter().for_each(|vi| self.let_path_in(vi));
        }
        self.connect_paths();
    }

    fn connect_paths(&mut self) {
        let waker = self.opening.waker();
        let mut context = Context::from_waker(&waker);
        let (mut made, now) = (Vec::new(), self.fixed.nic.now());
        for (link, call) in self.paths.calls.iter_mut().filter(|(_, call)| call.failed.is_none()) {
            if let Poll::Ready(answer) = Pin::new(&mut call.connecting).poll(&mut context) {
                call.waiters.wake();
                match answer {
                    Ok(vi) => made.push((*link, vi)),
                    Err(why) => call.failed = Some((now, why)),
                }
            }
        }
        for (link, vi) in made {
            self.paths.calls.remove(&link);
            self.add_path(link, vi, true);
        }
    }

    /// A peer has made a path, in place of the one before. Who has no link gets none.
    fn let_path_in(&mut self, vi: Vi) {
        let link = self.links.to_host(vi.peer());
        // The same process has the link.
        let link = link
            .filter(|link| self.links.get(*link).is_some_and(|line| line.key() == vi.peer_key()));
        let Some(link) = link.filter(|_| !self.closed) else {
            self.counters.turned_away += 1;
            return self.tell_turned_away(vi.peer(), "a path without a link");
        };
        self.replace_path(link, vi.peer());
        self.add_path(link, vi, false);
    }

    /// The peer of a link has made another path.
    fn replace_path(&mut self, link: SlotKey, peer: &str) {
        if let Some((before, _)) = self.paths.find(link, false)
            && !planted(Fault::Hoarded)
        {
            self.end_path(before, LinkError::Replaced { peer: peer.to_owned() });
        }
    }

    fn add_path(&mut self, link: SlotKey, vi: Vi, is_ours: bool) {
        // It completes when the connection ends: nothing else is posted by either side.
        if vi.post_recv(Descriptor::new(vec![0_u8; 1])).is_err() {
            return;
        }
        let (id, shared) = (vi.id(), PathConnection::new(vi));
        let (handles, came, waiting) = (0, ReceivedNumbers::default(), 0);
        let path = PathState { shared, link, is_ours, handles, came, waiting };
        let key = self.paths.all.insert(path);
        self.connections.insert(id, ConnectionOwner::Path(key));
    }

    /// The connection of a path has ended, or the peer has posted what no honest one does.
    #[cold]
    pub(crate) fn path_broke(&mut self, path: SlotKey, completion: &Completion) {
        let Some(known) = self.paths.all.get(path) else { return };
        let why = match &completion.status {
            Ok(()) => {
                let (peer, why) = (known.shared.peer.to_string(), "a posted message on a path");
                LinkError::CutOff { peer, why: why.to_owned() }
            }
            Err(why) => LinkError::of(&known.shared.peer, why),
        };
        self.end_path(path, why);
    }

    fn end_path(&mut self, path: SlotKey, why: LinkError) {
        if let Some(path) = self.paths.all.remove(path) {
            // Before it is closed: who sends is to find the reason.
            let _ = path.shared.ended.set(why);
            self.counters.path_dropped += path.dropped();
            path.shared.vi.disconnect();
            self.connections.remove(path.shared.vi.id());
        }
    }

    /// A link has ended, and its paths with it.
    pub(crate) fn end_paths(&mut self, link: SlotKey, why: &LinkError) {
        if planted(Fault::Outlives) {
            return;
        }
        for is_ours in [true, false] {
            if let Some((path, _)) = self.paths.find(link, is_ours) {
                self.end_path(path, why.clone());
            }
        }
        self.paths.calls.remove(&link).into_iter().for_each(|mut call| call.waiters.wake());
    }

    pub(super) fn add_path_handle(&mut self, path: SlotKey) {
        self.paths.all.get(path).into_iter().for_each(|path| path.handles += 1);
    }

    /// A handle goes, and with the last one the path.
    pub(super) fn drop_path_handle(&mut self, path: SlotKey) {
        if let Some(known) = self.paths.all.get(path) {
            known.handles -= 1;
            if known.handles == 0 {
                self.end_path(path, LinkError::Closed);
            }
        }
    }

    /// Sets what runs for a port. The one before is to be dropped without a lock.
    pub(super) fn set_port(&mut self, port: u64, run: UpcallHandler) -> Option<UpcallHandler> {
        if self.closed {
            return Some(run);
        }
        let Self { paths, bundles, .. } = self;
        let home = *paths.ports.entry(port).or_insert_with(|| {
            let mut state = BundleState::default();
            let table = state.tables.insert(HandlerTable::default());
            TableKey { bundle: bundles.insert(state), table }
        });
        let table = bundles.get(home.bundle)?.tables.get(home.table)?;
        table.set(HandlerTable::ON_PATH, Some(run))
    }

    /// Takes out what runs for a port, to be dropped without a lock.
    pub(super) fn take_port(&mut self, port: u64) -> Option<HandlerTable> {
        let home = self.paths.ports.remove(&port)?;
        let table = self.bundles.get(home.bundle)?.tables.remove(home.table);
        self.forget_bundle(home.bundle);
        table
    }

    /// Takes out what runs for all ports: the links are closed.
    pub(crate) fn close_ports(&mut self) {
        let ports: Vec<u64> = self.paths.ports.keys().copied().collect();
        for table in ports.into_iter().filter_map(|port| self.take_port(port)).collect::<Vec<_>>() {
            if let Err(left) = deferred::defer(DeferredWork::Closure(Box::new(move || drop(table))))
            {
                left.run();
            }
        }
    }

    /// Takes messages that have come by paths, at most `budget`. How many there were.
    #[inline]
    pub(crate) fn drain_paths(&mut self, drain: &Drain, budget: usize) -> usize {
        if self.paths.all.len() == 0 {
            return 0;
        }
        drain.take(budget, &mut |reply, port, bytes| self.path_said(reply.vi(), port, bytes))
    }

    fn path_said(&mut self, vi: ViId, port: u64, message: &[u8]) {
        let Some(ConnectionOwner::Path(key)) = self.connections.owner(vi) else { return };
        let Some(path) = self.paths.all.get(key) else { return };
        let message = PathHead::open(port, message).filter(|(number, _)| path.came.take(*number));
        let home = fault::handler_of(&self.paths.ports, port);
        let (Some((_, bytes)), Some(home), false) = (message, home, path.is_full()) else {
            self.counters.path_dropped += 1;
            return;
        };
        path.waiting += 1;
        let peer = Arc::clone(&path.shared.peer);
        let what = UpcallKind::Path { path: key, peer, bytes: self.copied(bytes) };
        let upcall = self.upcall(SlotKey::default(), home, what, Instant::default());
        self.upcalls.push_back(upcall);
    }

    /// The handler of a message has run, or there was none any more.
    pub(crate) fn path_served(&mut self, path: SlotKey, bytes: Vec<u8>, has_run: bool) {
        self.paths.all.get(path).into_iter().for_each(|path| path.waiting -= 1);
        self.counters.path_received += u64::from(has_run);
        self.counters.path_dropped += u64::from(!has_run);
        self.keep_scratch(bytes);
    }
}

/// What paths listen for.
const SERVICE: &str = "egret.path";
/// Messages of a path that wait for their handlers, at most: as many as a mapping has under way.
const WAITING_MAX: u32 = 256;
