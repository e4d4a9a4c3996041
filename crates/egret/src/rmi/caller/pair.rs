//! Two nodes of which one calls objects of the other: the connection that all stubs share, made at
//! the first call, and kept.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::Mutex;
use egret_node::Alarm;
use egret_node::am::{
    Endpoint, EndpointName, LinkPeer, MessageError, PendingMapping, RemoteEndpoint,
};
use egret_node::link::LinkError;
use egret_node::node::{NodeError, NodeHandle, Requirement, Route};

use crate::rmi::callee::objects::{CANCEL, ENDPOINTS};
use crate::rmi::caller::failure::FailureContext;
use crate::rmi::caller::unsent::{SendFailure, UnsentQueue};
use crate::rmi::exchange::Exchange;
use crate::rmi::fault::{Fault, planted};
use crate::rmi::head::WORDS_MAX;
use crate::rmi::interface_table::MethodNumbers;
use crate::rmi::{CallError, NodeId};

/// The way from this node to another, or to itself.
pub(crate) struct NodePair {
    there: RwLock<Option<Arc<PairConnection>>>,
    /// The connection that is being made, if one is. No thread waits for the lock: the one that has it runs
    /// handlers, which may want the same, and who finds it taken looks again.
    connecting: Mutex<Option<PairConnecting>>,
    /// Calls that wait to be sent, by [way](PairConnection::way).
    unsent: [Arc<UnsentQueue>; 2],
    pub(crate) handle: NodeHandle,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) node: NodeId,
    /// What is required of the fabric.
    requirement: Requirement,
    /// The fabric that is to connect, and since when: calls that do not wait long give up what they have begun.
    trying: Mutex<Option<(String, Instant)>>,
    /// Since when a node is waited for of which this one has not heard.
    unheard: Mutex<Option<Instant>>,
    /// The numbers of the methods of each interface that was met: the trait of the stub, and the
    /// number that the other node has given to that of the object.
    met: Mutex<Interfaces>,
}

type Interfaces = BTreeMap<(TypeId, u16), Arc<MethodNumbers>>;

/// A connection that is being made.
struct PairConnecting {
    clients: Arc<[Endpoint; 2]>,
    fabric: String,
    host: String,
    mapping: PendingMapping,
    /// When most calls can be sent, and the other mapping is still asked for.
    calls: Option<RemoteEndpoint>,
    /// Whether the link of the one before has ended meanwhile.
    is_second: bool,
}

/// A connection.
pub(crate) struct PairConnection {
    calls: RemoteEndpoint,
    /// By which calls go that are a part of others, and calls are cancelled: apart from most calls, so
    /// that there is room when they have none.
    within: RemoteEndpoint,
    /// Calls to cancel for which there was none all the same.
    uncancelled: Mutex<Vec<u64>>,
    /// Interfaces of which the other node has schemas, which it forgets when the link ends.
    described: Mutex<BTreeSet<(TypeId, u16)>>,
    _clients: Arc<[Endpoint; 2]>,
}

impl NodePair {
    pub(crate) fn new(
        handle: &NodeHandle,
        exchange: &Arc<Exchange>,
        node: NodeId,
        requirement: Requirement,
    ) -> Self {
        let (handle, exchange) = (handle.clone(), Arc::clone(exchange));
        let (there, unheard, met) = (RwLock::default(), Mutex::default(), Mutex::default());
        let (connecting, trying) = (Mutex::default(), Mutex::default());
        let unsent = [false, true].map(UnsentQueue::new);
        Self {
            there,
            connecting,
            unsent,
            handle,
            exchange,
            node,
            requirement,
            trying,
            unheard,
            met,
        }
    }

    /// Whether the other node is this one.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.node == self.handle.id()
    }

    /// The connection, if there is one.
    #[inline]
    pub(crate) fn there(&self) -> Option<Arc<PairConnection>> {
        self.there.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls that wait to be sent, of one of the two [ways](PairConnection::way).
    #[inline]
    pub(crate) const fn unsent(&self, is_nested: bool) -> &Arc<UnsentQueue> {
        &self.unsent[is_nested as usize]
    }

    /// If no call waits to be sent, no call needs the connection that is being made, and no thread drives it: it
    /// would be in the way of those that the other node makes.
    pub(crate) fn stop_unwanted(&self) {
        let is_unwanted = || self.unsent.iter().all(|unsent| unsent.is_empty());
        if is_unwanted()
            && let Some(mut making) = self.connecting.try_lock()
        {
            // Who wants one is counted before it has the lock.
            let begun = if is_unwanted() { making.take() } else { None };
            drop(making);
            drop(begun);
        }
    }

    /// Has a task woken at a moment, by who drives the links by which the other node is reached, or would be.
    pub(crate) fn alarm(&self, at: Instant, waker: &Waker) -> Alarm {
        match self.find_route() {
            Ok(route) => route.links.alarm(at, waker),
            Err(_) => self.handle.alarm(at, waker),
        }
    }

    /// Waits on a future, and drives those links meanwhile.
    pub(crate) fn wait_on<F: Future>(&self, future: F, deadline: Deadline) -> Option<F::Output> {
        match self.find_route() {
            Ok(route) => route.links.wait_on(future, deadline),
            Err(_) => self.handle.wait_on(future, deadline),
        }
    }

    /// The numbers of the methods of an interface, if it was met.
    pub(crate) fn known(&self, id: TypeId, interface: u16) -> Option<Arc<MethodNumbers>> {
        self.met.lock().get(&(id, interface)).cloned()
    }

    /// An interface was met.
    pub(crate) fn meets(&self, id: TypeId, interface: u16, methods: &Arc<MethodNumbers>) {
        self.met.lock().insert((id, interface), Arc::clone(methods));
    }

    /// Connects as far as that goes without waiting.
    pub(crate) fn poll_connect(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Arc<PairConnection>, SendFailure>> {
        if let Some(there) = self.there() {
            return Poll::Ready(Ok(there));
        }
        let Some(mut making) = self.connecting.try_lock() else { return Poll::Pending };
        let mut is_second = false;
        loop {
            let route = match self.route() {
                Ok(Some(route)) => route,
                Ok(None) => return Poll::Pending,
                // A node that is gone is not waited for, however far that was.
                Err(why) => {
                    *making = None;
                    return Poll::Ready(Err(SendFailure::Route(why)));
                }
            };
            // Another fabric is to be taken now, or another pair has a connection over this one.
            let other = making.take_if(|making| making.fabric != route.fabric);
            drop(other);
            if let Some(there) = self.exchange.connection(self.node, &route.fabric) {
                drop(making);
                return Poll::Ready(Ok(self.keep(there)));
            }
            // Those who wait for it have deadlines of their own; after this one it is tried anew.
            let connecting = making.get_or_insert_with(|| self.begin(&route, is_second));
            let within = self.name(&connecting.host, 1);
            let Poll::Ready(mapped) = connecting.poll(&within, context) else {
                return Poll::Pending;
            };
            let begun = making.take().expect("just polled");
            let PairConnecting { clients, calls, fabric, is_second: is_last, .. } = begun;
            let kept = match (mapped, calls) {
                // It may have been begun long ago, and its link has ended since.
                (Err(MessageError::Link(_)), _) if !is_last => {
                    is_second = true;
                    continue;
                }
                (Ok(within), Some(calls)) if calls.peer() == within.peer() => {
                    (calls, within, clients)
                }
                // The link of the first has ended meanwhile.
                (Ok(_), Some(_)) => continue,
                (Ok(_), None) => unreachable!("it comes first"),
                (Err(why), _) if self.has_next(&fabric, &why) => continue,
                // It is asked again and again, for as long as the registry has it for a member.
                (Err(why), _) if is_out_of_reach(&why) => return Poll::Pending,
                (Err(why), _) => return Poll::Ready(Err(SendFailure::Map(why))),
            };
            drop(making);
            let (calls, within, clients) = kept;
            let uncancelled = Mutex::default();
            let described = Mutex::default();
            let made = PairConnection { calls, within, uncancelled, described, _clients: clients };
            let (made, node) = (Arc::new(made), self.node);
            self.handle.connected(node, &fabric, &[]);
            let shared = self.exchange.share(node, &fabric, &made);
            // One that is not kept is dropped without a lock: that may run handlers.
            drop(made);
            return Poll::Ready(Ok(self.keep(shared)));
        }
    }

    /// Begins to connect.
    fn begin(&self, route: &Route, is_second: bool) -> PairConnecting {
        let Route { fabric, host, .. } = route;
        let clients = self.exchange.ends(fabric, &route.links);
        let left = {
            let mut trying = self.trying.lock();
            let (tried, since) = trying.get_or_insert_with(|| (fabric.clone(), rt::now()));
            if tried != fabric || rt::now() - *since > 2 * ATTEMPT {
                (*tried, *since) = (fabric.clone(), rt::now());
            }
            (*since + ATTEMPT).since(rt::now()).max(ATTEMPT_LEAST)
        };
        let mapping = clients[0].map(&self.name(host, 0), &[], Deadline::In(left));
        let (fabric, host) = (fabric.clone(), host.clone());
        PairConnecting { clients, fabric, host, mapping, calls: None, is_second }
    }

    /// Whether another fabric is to be taken now, because this one has made no link.
    fn has_next(&self, fabric: &str, why: &MessageError) -> bool {
        let is_fault = match why {
            // Whom the registry lists, this node hears once for all fabrics.
            MessageError::NoLink(LinkError::NotMember { .. }) => false,
            MessageError::NoLink(_) => true,
            MessageError::NotMappedInTime { linked, .. } => !linked,
            _ => false,
        };
        *self.trying.lock() = None;
        is_fault
            && self.handle.fate(self.node).is_none()
            && self.handle.not_connected(self.node, &self.requirement, fabric, &why.to_string())
    }

    /// A call has no answer. If that is the connection's fault, another is made.
    #[cold]
    pub(crate) fn failed(
        &self,
        there: &Arc<PairConnection>,
        error: MessageError,
        patience: Duration,
    ) -> CallError {
        self.forget_if_broken(there, &error);
        self.trouble(patience).call(error)
    }

    /// A call has this error: if that is the connection's fault, the next call makes another.
    pub(crate) fn forget_if_broken(&self, there: &Arc<PairConnection>, error: &MessageError) {
        let is_broken = matches!(
            error,
            MessageError::LinkLost { .. }
                | MessageError::EndpointGone
                | MessageError::TagChanged
                | MessageError::Link(_)
                | MessageError::Unmapped
        );
        if is_broken {
            self.forget(there);
        }
    }

    /// A connection that is of no use any more is forgotten: the next call makes another.
    fn forget(&self, broken: &Arc<PairConnection>) {
        let mut there = self.there.write().unwrap_or_else(PoisonError::into_inner);
        let forgotten = there.take_if(|it| Arc::ptr_eq(it, broken));
        drop(there);
        self.exchange.unshare(broken);
        if forgotten.is_some() {
            self.begin_anew();
        }
        drop(forgotten);
    }

    /// What was begun and not awaited is of no use any more.
    fn begin_anew(&self) {
        let begun = self.connecting.try_lock().and_then(|mut making| making.take());
        drop(begun);
    }

    /// A link is no more.
    pub(crate) fn ended(&self, peer: LinkPeer) {
        if let Some(there) = self.there().filter(|there| there.calls.peer() == peer) {
            self.forget(&there);
        }
    }

    /// For the errors of its calls.
    pub(crate) const fn trouble(&self, patience: Duration) -> FailureContext<'_> {
        FailureContext { handle: &self.handle, node: self.node, patience }
    }

    /// If this node is no member any more, that is the error of its calls.
    pub(crate) fn not_member(&self, may_have_run: bool) -> Option<CallError> {
        self.trouble(Duration::ZERO).not_member(may_have_run)
    }

    fn find_route(&self) -> Result<Route, NodeError> {
        self.handle.route_with(self.node, &self.requirement)
    }

    /// The way there. Of a node that has just joined this one may not have heard yet: then
    /// there is none for a while.
    fn route(&self) -> Result<Option<Route>, NodeError> {
        let mut unheard = self.unheard.lock();
        match self.find_route() {
            Err(NodeError::Unknown { .. })
                if rt::now() - *unheard.get_or_insert_with(rt::now) < UNHEARD_MAX =>
            {
                Ok(None)
            }
            route => {
                *unheard = None;
                route.map(Some)
            }
        }
    }

    /// One of the other node's endpoints.
    fn name(&self, host: &str, at: usize) -> EndpointName {
        EndpointName::new(host, ENDPOINTS[at], self.node.incarnation)
    }

    /// Keeps a connection, unless another was made meanwhile.
    fn keep(&self, made: Arc<PairConnection>) -> Arc<PairConnection> {
        *self.trying.lock() = None;
        // One that is not kept is dropped without the lock: that may run handlers.
        let mut there = self.there.write().unwrap_or_else(PoisonError::into_inner);
        let kept = Arc::clone(there.get_or_insert_with(|| Arc::clone(&made)));
        drop(there);
        drop(made);
        self.begin_anew();
        kept
    }
}

impl PairConnecting {
    /// Goes on; the mapping of calls that are a part of others comes last.
    fn poll(
        &mut self,
        within: &EndpointName,
        context: &mut Context<'_>,
    ) -> Poll<Result<RemoteEndpoint, MessageError>> {
        if self.calls.is_none() {
            match Pin::new(&mut self.mapping).poll(context) {
                Poll::Ready(Ok(calls)) => self.calls = Some(calls),
                other => return other,
            }
            self.mapping = self.clients[1].map(within, &[], Deadline::In(ATTEMPT));
        }
        Pin::new(&mut self.mapping).poll(context)
    }
}

impl PairConnection {
    /// The link that it is over.
    pub(crate) fn peer(&self) -> LinkPeer {
        self.calls.peer()
    }

    /// By what a call goes, which may be a part of another.
    #[inline]
    pub(crate) const fn way(&self, is_nested: bool) -> &RemoteEndpoint {
        if is_nested { &self.within } else { &self.calls }
    }

    /// The other node has the schemas of an interface.
    pub(crate) fn describes(&self, id: TypeId, interface: u16) {
        self.described.lock().insert((id, interface));
    }

    /// Whether it has them.
    pub(crate) fn has_described(&self, id: TypeId, interface: u16) -> bool {
        self.described.lock().contains(&(id, interface)) || planted(Fault::SchemasUnsent)
    }

    /// Cancels a call, and those that could not be cancelled before.
    pub(crate) fn cancel(&self, number: u64) {
        // Without the lock: sending may run what ends another call.
        let mut numbers = std::mem::take(&mut *self.uncancelled.lock());
        numbers.push(number);
        let first = numbers.len().saturating_sub(WORDS_MAX);
        if self.within.try_send((CANCEL, &numbers[first..])).is_ok() {
            numbers.truncate(first);
        }
        if !numbers.is_empty() {
            let mut uncancelled = self.uncancelled.lock();
            uncancelled.append(&mut numbers);
            // A caller with so many has had no answer for long.
            if uncancelled.len() > UNCANCELLED_MAX {
                uncancelled.clear();
            }
        }
    }
}

impl fmt::Debug for NodePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pair").field(&self.node).finish()
    }
}

/// Whether a node could not be reached, and may be later.
const fn is_out_of_reach(why: &MessageError) -> bool {
    use egret_net::vi::ConnectError::{NotAccepted, NotListening, UnknownHost};
    matches!(
        why,
        MessageError::NotMappedInTime { .. }
            | MessageError::NoLink(LinkError::Connect(
                NotAccepted { .. } | NotListening { .. } | UnknownHost { .. }
            ))
    )
}

/// Calls that are remembered to be cancelled.
const UNCANCELLED_MAX: usize = 1024;
/// How long a connection may take, before another is tried: from when calls have begun to want it.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How long an attempt may take at least, of calls that did not wait until the one before had failed.
const ATTEMPT_LEAST: Duration = Duration::from_millis(100);
/// A node of which nothing is heard for so long is none.
const UNHEARD_MAX: Duration = Duration::from_secs(5);
