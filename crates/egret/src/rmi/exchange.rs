//! What remote calls keep with a node.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use egret_net::rt::{self, Instant};
use egret_net::sync::Mutex;
use egret_node::Links;
use egret_node::am::Endpoint;
use egret_node::node::{self, Handle, Route};

use super::clock::Clock;
use super::context::current;
use super::load::Load;
use super::object::Object;
use super::workers::Workers;

/// What all objects and stubs of a node share: its part of the node.
pub(crate) struct Exchange {
    pub(crate) workers: Arc<Workers>,
    pub(crate) load: Arc<Load>,
    pub(crate) clock: Arc<Clock>,
    objects: Mutex<BTreeMap<u64, Weak<Object>>>,
    /// Where calls come from, by fabric.
    clients: Mutex<BTreeMap<String, Arc<Endpoint>>>,
    /// Objects whose exports were dropped by a panic.
    behind: Mutex<Vec<(Arc<Object>, Vec<Endpoint>)>>,
    next_object: AtomicU64,
    next_call: AtomicU64,
    is_closed: AtomicBool,
}

impl Exchange {
    /// The exchange of a node.
    pub(crate) fn of(handle: &Handle) -> Arc<Self> {
        handle.part(|| Self::new(handle.size(), handle.budget()))
    }

    /// Of a node in a pool of so many members, that takes so many bytes from others.
    fn new(members: u32, budget: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = if rt::in_world() { 0 } else { (2 * cores).max(WORKERS_LEAST) };
        Self {
            workers: Arc::new(Workers::new(workers)),
            load: Arc::new(Load::new(members).with_memory(budget)),
            clock: Arc::default(),
            objects: Mutex::default(),
            clients: Mutex::default(),
            behind: Mutex::default(),
            next_object: AtomicU64::new(1),
            next_call: AtomicU64::new(1),
            is_closed: AtomicBool::new(false),
        }
    }

    /// A number for an object.
    pub(crate) fn next_object(&self) -> u64 {
        self.next_object.fetch_add(1, Ordering::Relaxed)
    }

    /// A number by which a call can be cancelled; none is given twice.
    pub(crate) fn next_call(&self) -> u64 {
        self.next_call.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn add(&self, number: u64, object: &Arc<Object>) {
        self.objects.lock().insert(number, Arc::downgrade(object));
    }

    pub(crate) fn remove(&self, number: u64) {
        self.objects.lock().remove(&number);
    }

    /// An object of this node.
    pub(crate) fn object(&self, number: u64) -> Option<Arc<Object>> {
        self.objects.lock().get(&number).and_then(Weak::upgrade)
    }

    /// Objects that are exported.
    pub(crate) fn objects_len(&self) -> usize {
        self.objects.lock().len()
    }

    /// Where calls by a route come from.
    pub(crate) fn client(&self, route: &Route) -> Arc<Endpoint> {
        let mut clients = self.clients.lock();
        let client = clients.entry(route.fabric.clone());
        Arc::clone(client.or_insert_with(|| Arc::new(client_of(&route.links))))
    }

    /// Keeps an object until the node closes, or exports another.
    pub(crate) fn leave_behind(&self, object: Arc<Object>, endpoints: Vec<Endpoint>) {
        self.behind.lock().push((object, endpoints));
        if self.is_closed.load(Ordering::SeqCst) {
            self.clear_behind();
        }
    }

    pub(crate) fn clear_behind(&self) {
        let behind = std::mem::take(&mut *self.behind.lock());
        for (object, endpoints) in behind {
            drop(endpoints);
            object.close();
        }
    }
}

fn client_of(links: &Links) -> Endpoint {
    links.bundle().endpoint(0)
}

impl node::Part for Exchange {
    fn close(&self, until: Instant) {
        self.is_closed.store(true, Ordering::SeqCst);
        let objects: Vec<_> = self.objects.lock().values().filter_map(Weak::upgrade).collect();
        objects.iter().for_each(|object| object.close());
        self.clear_behind();
        self.workers.close(until);
        // Methods run on receiving threads as well; one of them may be what closes the node.
        let own = usize::from(current().is_some());
        while self.load.calls() > own && rt::now() < until {
            rt::sleep(Duration::from_micros(200));
        }
        self.clock.close();
        let clients = std::mem::take(&mut *self.clients.lock());
        drop(clients);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // A handle that outlives its node makes another part, which nobody closes.
        node::Part::close(self, rt::now());
    }
}

/// Threads that may be busy, however few cores there are: most calls that are not short wait.
const WORKERS_LEAST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_has_the_number_of_another() {
        let exchange = Exchange::new(1, u64::MAX);
        let first = exchange.next_call();
        assert!(first > 0, "0 is no number");
        assert!((0..1_u32 << 24).all(|_| exchange.next_call() > first));
    }
}
