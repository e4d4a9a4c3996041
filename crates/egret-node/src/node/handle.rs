//! Handles of nodes.

use egret_net::rt::waits::{self, WaitHint, WaitPeer, WaitScope};
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::Mutex;

use super::RegistryRequests;
use super::open::OpenedFabrics;
use super::routes::RouteTable;
use super::view::PoolWatch;
use crate::am::Endpoint;
use crate::pool::{Departure, Distance, Events, Member, NodeError, NodeId, Properties, drive};
use crate::{Alarm, Links};

/// What can be done with a node; from [`Node::handle`](super::Node::handle), and what a
/// [`Node`](super::Node) dereferences to. Clones are handles to the same node; a handle does not keep
/// the node a member. The [module](super) has an example.
#[derive(Clone)]
pub struct NodeHandle {
    inner: Arc<NodeState>,
}

struct NodeState {
    id: NodeId,
    size: Option<u32>,
    pool: String,
    deadline: Deadline,
    opened: OpenedFabrics,
    watch: Arc<PoolWatch>,
    /// The endpoint that receives the registry's messages.
    endpoint: Mutex<Option<Arc<Endpoint>>>,
    routes: RouteTable,
    parts: Mutex<NodeParts>,
    /// How the node came to be closed.
    ended: OnceLock<Departure>,
}

/// What layers above keep with a node.
#[derive(Default)]
struct NodeParts {
    all: BTreeMap<TypeId, Arc<NodePartCell>>,
    is_closed: bool,
}

/// A part of one type, when it is made.
type NodePartCell = OnceLock<Arc<dyn NodePart>>;

/// What a layer above [keeps with a node](NodeHandle::part).
#[doc(hidden)]
pub trait NodePart: Any + Send + Sync {
    /// The node goes, and its links are closed. What runs for it is to end; a part may wait for
    /// that until `until`, and leaves the rest alone. One that is asked for behind that is closed
    /// each time.
    fn close(&self, until: Instant) {
        _ = until;
    }
}

/// A fabric that a node uses ([`NodeHandle::fabrics`]).
///
/// ```
/// let pool = egret_node::local::pool(1)?;
/// let fabrics = pool[0].fabrics();
/// assert!(fabrics.iter().any(|fabric| fabric.name == "tcp" && fabric.properties.reliable));
/// # Ok::<(), egret_node::node::JoinError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FabricInfo {
    /// The name of the fabric.
    pub name: String,
    /// The properties of the fabric.
    pub properties: Properties,
}

impl NodeHandle {
    pub(super) fn new(
        opened: OpenedFabrics,
        watch: Arc<PoolWatch>,
        endpoint: Arc<Endpoint>,
        (id, size, pool, deadline): (NodeId, Option<u32>, String, Deadline),
    ) -> Self {
        let endpoint = Mutex::new(Some(endpoint));
        let (routes, parts, ended) = (RouteTable::default(), Mutex::default(), OnceLock::new());
        Self {
            inner: Arc::new(NodeState {
                id,
                size,
                pool,
                deadline,
                opened,
                watch,
                endpoint,
                routes,
                parts,
                ended,
            }),
        }
    }

    /// The node's rank and incarnation.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.inner.id
    }

    /// The node's rank: its place in a closed pool, and in an open one its number in the order of joining.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.inner.id.rank
    }

    /// How many nodes the pool has: the ranks of a closed pool, and the members of an open one that are
    /// here now, this node among them, as of the events that this node has received. Of an open pool two calls may say
    /// two numbers: work is divided by one value of [`members`](Self::members) or [`view`](Self::view).
    /// [`local::open_pool`](crate::local::open_pool) has an example.
    #[must_use]
    pub fn size(&self) -> u32 {
        let here = || self.inner.watch.view.lock().state.members().len();
        self.inner.size.unwrap_or_else(|| u32::try_from(here()).unwrap_or(u32::MAX))
    }

    /// Whether the pool is open: nodes come and go, and no rank is used again.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inner.size.is_none()
    }

    /// The pool's name.
    #[must_use]
    pub fn pool(&self) -> &str {
        &self.inner.pool
    }

    /// The deadline of calls that have no deadline of their own.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        self.inner.deadline
    }

    /// The members, by rank: in an open pool that is the order in which they have joined.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.inner.watch.view.lock().state.members().values().cloned().collect()
    }

    /// The last node that had this rank, whether it is still a member or not; `None` if the rank was
    /// never joined.
    ///
    /// Nodes are addressed by [`NodeId`]: a rank is a place in a closed pool, which another node may
    /// take when the one before is gone.
    ///
    /// ```
    /// let pool = egret_node::local::pool(2)?;
    /// let other = pool[0].id_of(1).ok_or("nobody has joined as rank 1")?;
    /// assert_eq!(other, pool[1].id());
    /// println!("{}", pool[0].explain(other).ok_or("it has left")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn id_of(&self, rank: u32) -> Option<NodeId> {
        self.inner.watch.view.lock().state.last(rank).map(|(node, _)| node)
    }

    /// What a node has told the registry of itself, if it is a member; [`id_of`](Self::id_of) has the
    /// node of a rank.
    #[must_use]
    pub fn member(&self, node: NodeId) -> Option<Member> {
        self.inner.watch.view.lock().state.member(node).cloned()
    }

    /// How far two members are from each other, by where they [are](Member::location);
    /// [`topology`](crate::topology) has an example. `None` if one is no member.
    #[must_use]
    pub fn distance(&self, a: NodeId, b: NodeId) -> Option<Distance> {
        let view = self.inner.watch.view.lock();
        let (one, other) = (view.state.member(a)?, view.state.member(b)?);
        Some(if a == b { Distance::Node } else { one.location.distance(&other.location) })
    }

    /// Waits until every rank of a closed pool has joined. A rank that has joined and left counts as joined; a
    /// rank that has died and is not back does not. An open pool is complete as it is.
    ///
    /// # Errors
    ///
    /// [`NodeError::Gone`] if a node has died, [`NodeError::RegistryLost`], or
    /// [`NodeError::NotAllJoined`] at the deadline.
    #[track_caller]
    pub fn wait_all(&self, deadline: impl Into<Deadline>) -> Result<(), NodeError> {
        let _waits = self.waits("all members", None);
        let started = rt::now();
        let mut outcome = None;
        drive(&self.inner.watch, deadline.into(), &mut || {
            outcome = self.all_here();
            outcome.is_some()
        });
        let here = self.inner.watch.view.lock().state.members().len();
        let (here, waited) = (u32::try_from(here).unwrap_or(u32::MAX), rt::now() - started);
        outcome.unwrap_or(Err(NodeError::NotAllJoined { here, size: self.size(), waited }))
    }

    /// Whether every rank has joined, as far as that is decided.
    #[must_use]
    pub fn all_here(&self) -> Option<Result<(), NodeError>> {
        let view = self.inner.watch.view.lock();
        let mut all = true;
        for rank in 0..self.inner.size.unwrap_or(0) {
            match view.state.last(rank) {
                Some((node, Some(fate @ Departure::Died { .. }))) => {
                    return Some(Err(NodeError::Gone { node, fate: fate.clone() }));
                }
                last => all &= last.is_some(),
            }
        }
        if let Some(why) = &view.lost {
            return Some(Err(NodeError::RegistryLost { why: why.clone() }));
        }
        all.then_some(Ok(()))
    }

    /// The events of the pool, from the beginning. What this handle says of the pool ([`members`](Self::members),
    /// [`view`](Self::view), [`elected`](Self::elected)) is of all events that the node has received, also of those
    /// that the program has not taken yet.
    #[must_use]
    pub fn events(&self) -> Events {
        Events::new(Arc::new(Arc::clone(&self.inner.watch)))
    }

    /// How a node came to be no member any more.
    #[must_use]
    pub fn fate(&self, node: NodeId) -> Option<Departure> {
        self.inner.watch.view.lock().state.fate(node)
    }

    /// How this node came to be no member any more: it has left or was dropped, or the
    /// registry has [declared it dead](Self::fenced).
    #[must_use]
    pub fn own_fate(&self) -> Option<Departure> {
        let told = || self.fate(self.inner.id);
        let fenced = || self.fenced().map(|why| Departure::Died { why });
        self.inner.ended.get().cloned().or_else(told).or_else(fenced)
    }

    /// Waits until a node is no member any more: when its link has ended, what the registry
    /// knows of it is on its way.
    #[must_use]
    #[track_caller]
    pub fn wait_fate(&self, node: NodeId, deadline: impl Into<Deadline>) -> Option<Departure> {
        let _waits = self.waits("end of a node", Some(node));
        let mut fate = None;
        drive(&self.inner.watch, deadline.into(), &mut || {
            fate = self.fate(node);
            fate.is_some()
        });
        fate
    }

    /// Waits until this node has heard of a node, which the registry knows already.
    #[track_caller]
    pub(crate) fn wait_known(&self, node: NodeId, deadline: Deadline) {
        let _waits = self.waits("news of a node", Some(node));
        drive(&self.inner.watch, deadline, &mut || {
            self.member(node).is_some() || self.fate(node).is_some() || self.own_fate().is_some()
        });
    }

    /// Waits until a node, or this one, is no member any more: a link between them ends either way.
    #[doc(hidden)]
    #[track_caller]
    pub fn wait_parted(&self, node: NodeId, deadline: impl Into<Deadline>) {
        let _waits = self.waits("end of a node", Some(node));
        drive(&self.inner.watch, deadline.into(), &mut || {
            self.fate(node).is_some() || self.own_fate().is_some()
        });
    }

    /// The fabrics that this node uses, the best first.
    #[must_use]
    pub fn fabrics(&self) -> Vec<FabricInfo> {
        let OpenedFabrics { fabrics, properties, .. } = &self.inner.opened;
        let both = fabrics.iter().zip(properties);
        both.map(|((name, _), is)| FabricInfo { name: name.clone(), properties: is.clone() })
            .collect()
    }

    /// The links of each of its fabrics: where a layer above registers its endpoints.
    #[must_use]
    pub fn links(&self) -> &[(String, Links)] {
        &self.inner.opened.fabrics
    }

    /// The bytes of data that the node takes from others before its program does, over each
    /// fabric: what [`Config::budget`](super::Config::budget) says, or what its pool needs.
    #[must_use]
    pub fn budget(&self) -> u64 {
        let all = self.links().iter().map(|(_, links)| &links.core.state);
        all.map(|state| state.with(|state| state.fixed.options.budget)).max().unwrap_or(0)
    }

    /// What [`Config::in_flight`](super::Config::in_flight) says, if it says something.
    #[must_use]
    pub fn in_flight(&self) -> Option<u32> {
        self.inner.opened.in_flight
    }

    /// The node's one value of a type, made if there is none: what a layer above keeps with
    /// the node. It goes with the node; one that is made behind that is closed at once. `make` may
    /// ask for others, and not for its own.
    #[doc(hidden)]
    pub fn part<T: NodePart>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let (place, mut is_late) = {
            let mut parts = self.inner.parts.lock();
            (Arc::clone(parts.all.entry(TypeId::of::<T>()).or_default()), parts.is_closed)
        };
        let mut is_made = false;
        let part = Arc::clone(place.get_or_init(|| {
            is_made = true;
            Arc::new(make())
        }));
        is_late |= is_made && self.inner.parts.lock().is_closed;
        if is_late {
            part.close(rt::now());
        }
        let part: Arc<dyn Any + Send + Sync> = part;
        part.downcast().expect("a part is found by its type")
    }

    /// Asks the registry without waiting: the answers are futures.
    #[doc(hidden)]
    #[must_use]
    pub const fn begin(&self) -> RegistryRequests<'_> {
        RegistryRequests { handle: self }
    }

    /// Runs a future to its end on the calling thread, which drives the links of the node's best
    /// fabric meanwhile; see [`Links::block_on`]. Calls that are awaited need no other thread then: not for their
    /// answers, not for their deadlines, and not for callbacks of their methods.
    ///
    /// # Panics
    ///
    /// In a handler, which must not wait; and if the future does.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _waits = self.waits("future", None);
        self.best_links().block_on(future)
    }

    /// The same, for no longer than the deadline; see [`Links::wait_on`].
    #[track_caller]
    pub fn wait_on<F: Future>(
        &self,
        future: F,
        deadline: impl Into<Deadline>,
    ) -> Option<F::Output> {
        let _waits = self.waits("future", None);
        self.best_links().wait_on(future, deadline)
    }

    /// Has a task woken at a moment, by who drives the links of the node's best fabric: a thread that waits
    /// or runs [`block_on`](Self::block_on), a runtime of tokio's, or else the background thread; see
    /// [`Links::alarm`].
    pub fn alarm(&self, at: Instant, waker: &Waker) -> Alarm {
        self.best_links().alarm(at, waker)
    }

    pub(crate) fn best_links(&self) -> &Links {
        let best = self.links().first();
        best.map_or_else(|| unreachable!("it has a fabric"), |(_, links)| links)
    }

    /// Has a task woken when something happens in the pool, or a thread
    /// [says](Self::tell_changed) that something else has changed. The task looks at what it waits
    /// for behind this call.
    pub fn wake_when_changed(&self, context: &Context<'_>) {
        self.inner.watch.wake_when_changed(context.waker());
    }

    /// Wakes the tasks that wait for a [change](Self::wake_when_changed).
    pub fn tell_changed(&self) {
        self.inner.watch.tell_changed();
    }

    /// Makes progress without waiting; for a simulated world, which has no background threads.
    pub fn poll(&self) {
        self.links().iter().for_each(|(_, links)| links.poll());
        self.inner.opened.control.poll();
        self.inner.watch.look();
    }

    /// When [`poll`](Self::poll) has something to do at the latest.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        let all = self.links().iter().map(|(_, links)| links);
        let all = all.chain([&self.inner.opened.control]);
        all.filter_map(Links::next_event).min()
    }

    /// Why the registry has declared this node dead, if it has.
    #[must_use]
    pub fn fenced(&self) -> Option<String> {
        self.inner.watch.view.lock().fenced.clone()
    }

    /// Whether the registry is lost.
    #[must_use]
    pub fn has_lost_registry(&self) -> bool {
        self.inner.watch.view.lock().lost.is_some()
    }

    /// The calling thread may wait for something of a node, or of any, until the returned value is dropped.
    #[track_caller]
    pub(super) fn waits(&self, kind: &'static str, node: Option<NodeId>) -> WaitScope {
        waits::scope(self.wait_hint(kind, node))
    }

    /// What a wait of this node is for, to be shown.
    #[doc(hidden)]
    #[inline]
    #[track_caller]
    #[must_use]
    pub fn wait_hint(&self, kind: &'static str, node: Option<NodeId>) -> WaitHint {
        let hint = WaitHint::of(kind, self.best_links().core.number);
        match node {
            Some(node) => hint.by(WaitPeer::Node(node.rank, node.incarnation)),
            None => hint,
        }
    }

    pub(super) fn watch(&self) -> &Arc<PoolWatch> {
        &self.inner.watch
    }

    pub(super) fn opened(&self) -> &OpenedFabrics {
        &self.inner.opened
    }

    pub(super) fn routes(&self) -> &RouteTable {
        &self.inner.routes
    }

    /// Closes the node's links and parts, which may take until `until`; what was sent arrives, if it can by then.
    pub(super) fn close(&self, why: Option<&str>, until: Instant) {
        let fate = why.map_or(Departure::Left, |why| Departure::Died { why: why.to_owned() });
        _ = self.inner.ended.set(self.own_fate().unwrap_or(fate));
        let parts = {
            let mut parts = self.inner.parts.lock();
            parts.is_closed = true;
            std::mem::take(&mut parts.all)
        };
        self.inner.watch.close();
        let links = self.links().iter().map(|(_, links)| links);
        for links in links.chain([&self.inner.opened.control]) {
            end(links, why, Deadline::In(until.since(rt::now())));
        }
        let until = until.min(rt::now() + super::LEAVING);
        parts.values().filter_map(|place| place.get()).for_each(|part| part.close(until));
        drop(parts);
        let mut endpoint = self.inner.endpoint.lock();
        drop(endpoint.take());
        self.inner.routes.clear();
    }
}

/// Ends links, with the reason if there is one, and runs their handlers for no longer than `within`.
pub(super) fn end(links: &Links, why: Option<&str>, within: Deadline) {
    match why {
        Some(why) => links.core.close_because(why, within),
        // In a simulated world of one thread nobody would take what was sent.
        None if rt::has_background() => links.core.close_through(within),
        None => links.core.close(within),
    }
}

impl fmt::Debug for NodeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeState { id, size, pool, .. } = &*self.inner;
        f.debug_struct("Node").field("id", id).field("size", size).field("pool", pool).finish()
    }
}
