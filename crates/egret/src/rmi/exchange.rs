//! The part of a node that remote calls have: its objects, workers, endpoints and pairs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use egret_net::rt::{self, Instant};
use egret_net::sync::Mutex;
use egret_node::Links;
use egret_node::am::{Endpoint, LinkPeer, MessageError};
use egret_node::node::{self, FabricInfo, NodeHandle, NodeId, Requirement, describe_panics};

use crate::rmi::callee::load::{COMMON, CallLoad};
use crate::rmi::callee::object::ExportedObject;
use crate::rmi::callee::objects::{ENDPOINTS, ObjectTable};
use crate::rmi::caller::pair::{NodePair, PairConnection};
use crate::rmi::context::{current, running_method};
use crate::rmi::threads::workers::Workers;

/// The part of a node that all its objects and stubs share.
pub(crate) struct Exchange {
    pub(crate) workers: Arc<Workers>,
    pub(crate) load: Arc<CallLoad>,
    pub(crate) objects: Arc<ObjectTable>,
    /// Where calls come from and go to, by fabric.
    ends: Mutex<BTreeMap<String, Arc<[Endpoint; 2]>>>,
    /// The nodes that are called, with what is required of the fabric.
    pairs: Mutex<BTreeMap<(NodeId, Requirement), Arc<NodePair>>>,
    /// The connections of the pairs, by node and fabric: pairs of one node whose fabric is the same share one.
    connections: Mutex<BTreeMap<(NodeId, String), Weak<PairConnection>>>,
    /// The fabrics of the node; the place of one is its number.
    pub(crate) fabrics: Vec<FabricInfo>,
    /// Number of entries at which unneeded ones are searched for.
    sweeps_at: AtomicUsize,
    /// Objects whose exports were dropped by a panic.
    behind: Mutex<Vec<Arc<ExportedObject>>>,
    /// What tells this life of the node from others.
    tag: u64,
    is_closed: AtomicBool,
}

impl Exchange {
    /// The exchange of a node.
    pub(crate) fn of(handle: &NodeHandle) -> Arc<Self> {
        handle.part(|| {
            // How many nodes of an open pool will call is not known.
            let members = if handle.is_open() { OPEN_CALLERS } else { handle.size() };
            let window = handle.in_flight().unwrap_or_else(|| window(members));
            describe_panics(running_method);
            Self::new(handle, members, window)
        })
    }

    /// Of a node in a pool of so many members.
    fn new(handle: &NodeHandle, members: u32, window: u32) -> Self {
        let node = handle.id();
        // In a simulated world as many as its seed was tried with, wherever that is.
        let cores = if rt::is_simulated() { 4 } else { cores() };
        let workers = if rt::has_background() { (2 * cores).max(WORKERS_LEAST) } else { 0 };
        let workers = Arc::new(Workers::new(workers, cores));
        let load = Arc::new(CallLoad::new(members).with_memory(handle.budget()));
        Self {
            objects: Arc::new(ObjectTable::new(node, &workers, &load, window)),
            workers,
            load,
            ends: Mutex::default(),
            pairs: Mutex::default(),
            connections: Mutex::default(),
            fabrics: handle.fabrics(),
            sweeps_at: AtomicUsize::new(SWEEP_LEAST),
            behind: Mutex::default(),
            tag: node.incarnation,
            is_closed: AtomicBool::new(false),
        }
    }

    /// Where calls by a fabric come from, and those of others go to.
    pub(crate) fn ends(self: &Arc<Self>, fabric: &str, links: &Links) -> Arc<[Endpoint; 2]> {
        let exchange = Arc::downgrade(self);
        let ended = move |peer| {
            exchange.upgrade().into_iter().for_each(|exchange| exchange.ended(peer));
        };
        let number = self.fabrics.iter().position(|known| known.name == fabric);
        let number = number.unwrap_or(usize::MAX);
        let mut ends = self.ends.lock();
        let end = ends.entry(fabric.to_owned());
        let make = || Arc::new(self.objects.endpoints((links, number), self.tag, ended));
        Arc::clone(end.or_insert_with(make))
    }

    /// Registers the endpoints by which other nodes call objects of this one.
    pub(crate) fn register(self: &Arc<Self>, handle: &NodeHandle) -> Result<(), MessageError> {
        handle.links().iter().try_for_each(|(fabric, links)| {
            let ends = self.ends(fabric, links);
            ends.iter().zip(ENDPOINTS).try_for_each(|(end, name)| end.register(name))
        })
    }

    /// The way to a node, which all stubs of its objects share that require the same.
    pub(crate) fn pair(
        self: &Arc<Self>,
        handle: &NodeHandle,
        node: NodeId,
        requirement: Requirement,
    ) -> Arc<NodePair> {
        let mut pairs = self.pairs.lock();
        let key = (node, requirement);
        if let Some(pair) = pairs.get(&key) {
            return Arc::clone(pair);
        }
        let pair = Arc::new(NodePair::new(handle, self, node, key.1.clone()));
        // A node that is closed keeps nothing.
        if !self.is_closed.load(Ordering::SeqCst) {
            pairs.insert(key, Arc::clone(&pair));
        }
        let is_time = pairs.len() >= self.sweeps_at.load(Ordering::Relaxed);
        drop(pairs);
        if is_time {
            self.sweep();
        }
        pair
    }

    /// The connection with a node over a fabric, if a pair has one.
    pub(crate) fn connection(&self, node: NodeId, fabric: &str) -> Option<Arc<PairConnection>> {
        self.connections.lock().get(&(node, fabric.to_owned()))?.upgrade()
    }

    /// Shares a connection that was made, and says which one to use: another pair may have made one over the same
    /// link meanwhile.
    pub(crate) fn share(
        &self,
        node: NodeId,
        fabric: &str,
        made: &Arc<PairConnection>,
    ) -> Arc<PairConnection> {
        let mut connections = self.connections.lock();
        let known = connections.entry((node, fabric.to_owned())).or_default();
        let before = known.upgrade();
        let is_same = before.as_ref().is_some_and(|before| before.peer() == made.peer());
        if !is_same {
            *known = Arc::downgrade(made);
        }
        // What may be the last of it is dropped without the lock.
        drop(connections);
        before.filter(|_| is_same).unwrap_or_else(|| Arc::clone(made))
    }

    /// A connection is of no use any more.
    pub(crate) fn unshare(&self, broken: &Arc<PairConnection>) {
        self.connections.lock().retain(|_, known| known.as_ptr() != Arc::as_ptr(broken));
    }

    /// A link is no more: what was connected by it is of no use, and nodes of which no stub is left
    /// are forgotten.
    fn ended(&self, peer: LinkPeer) {
        let pairs: Vec<_> = self.pairs.lock().values().cloned().collect();
        pairs.iter().for_each(|pair| pair.ended(peer));
        drop(pairs);
        self.sweep();
    }

    /// Forgets nodes of which no stub is left, and that are not connected.
    fn sweep(&self) {
        let mut unused = Vec::new();
        let mut pairs = self.pairs.lock();
        pairs.retain(|_, pair| {
            let is_used = Arc::strong_count(pair) > 1 || pair.there().is_some();
            unused.extend((!is_used).then(|| Arc::clone(pair)));
            is_used
        });
        self.sweeps_at.store((2 * pairs.len()).max(SWEEP_LEAST), Ordering::Relaxed);
        drop(pairs);
        drop(unused);
        self.connections.lock().retain(|_, known| known.strong_count() > 0);
    }

    /// Keeps an object until the node closes, or exports another.
    pub(crate) fn leave_behind(&self, object: Arc<ExportedObject>) {
        self.behind.lock().push(object);
        if self.is_closed.load(Ordering::SeqCst) {
            self.clear_behind();
        }
    }

    pub(crate) fn clear_behind(&self) {
        let behind = std::mem::take(&mut *self.behind.lock());
        for object in behind {
            self.objects.remove(&object);
            object.close();
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Callers of a node of an open pool that have a share each of half of what the node takes; each one more has a
/// share beyond that.
const OPEN_CALLERS: u32 = 256;

/// Calls that each other node of a pool of so many members may have under way: as many as this node
/// takes on without refusing one, if all have them, and at most [`WINDOW_MAX`].
fn window(members: u32) -> u32 {
    let all = u32::try_from(2 * COMMON.calls).unwrap_or(u32::MAX);
    (all / members.max(1)).clamp(WINDOW_LEAST, WINDOW_MAX)
}

impl node::NodePart for Exchange {
    fn close(&self, until: Instant) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.objects.close();
        self.clear_behind();
        self.workers.close(until);
        // Methods run on receiving threads as well; one of them may be what closes the node.
        let own = usize::from(current().is_some());
        while self.objects.calls.len() > own && rt::now() < until {
            rt::sleep(Duration::from_micros(200));
        }
        let (ends, pairs) =
            (std::mem::take(&mut *self.ends.lock()), std::mem::take(&mut *self.pairs.lock()));
        drop((ends, pairs));
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // What is used behind the close ends here.
        node::NodePart::close(self, rt::now());
    }
}

/// Nodes that are kept though they are not needed.
const SWEEP_LEAST: usize = 64;
/// Fewest and most calls of another node that may be under way.
const WINDOW_LEAST: u32 = 64;
const WINDOW_MAX: u32 = 1024;
/// Threads that may be busy, however few cores there are: most calls that are not short wait.
const WORKERS_LEAST: usize = 8;
