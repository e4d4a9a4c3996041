//! The ports of a node.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use egret_net::rt::Instant;
use egret_net::rt::waits::WaitObject;
use egret_net::sync::Mutex;

use super::receiver::PortReceiver;
use crate::Task;
use crate::node::{NodeHandle, NodePart};

/// The names of the receive ports of this process, by number, for reports of what a thread waits for.
#[derive(Debug)]
pub(super) struct PortNames;

static NAMES: Mutex<BTreeMap<usize, String>> = Mutex::new(BTreeMap::new());

impl PortNames {
    pub(super) fn add(number: usize, name: &str) {
        NAMES.lock().insert(number, name.to_owned());
    }

    pub(super) fn remove(number: usize) {
        NAMES.lock().remove(&number);
    }
}

impl WaitObject for PortNames {
    fn name(&self, number: usize) -> String {
        NAMES.lock().get(&number).cloned().unwrap_or_default()
    }
}

/// The receive ports of a node, by name, and the number of its next send port.
#[derive(Debug, Default)]
pub(super) struct NodePorts {
    receivers: Mutex<BTreeMap<String, Weak<PortReceiver>>>,
    senders: AtomicU64,
    /// Send ports that are gone and have not said so yet, for want of room.
    leaving: Mutex<Vec<(Arc<AtomicBool>, Task)>>,
}

impl NodePorts {
    pub(super) fn of(node: &NodeHandle) -> Arc<Self> {
        node.part(Self::default)
    }

    pub(super) fn next_sender(&self) -> u64 {
        self.senders.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keeps what a send port that is gone has to say until it is said.
    pub(super) fn leave(&self, leaves: impl Future<Output = ()> + Send + 'static) {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let task = Task::new(async move {
            leaves.await;
            over.store(true, Ordering::Relaxed);
        });
        let mut leaving = self.leaving.lock();
        let said: Vec<_> =
            leaving.extract_if(.., |(is_over, _)| is_over.load(Ordering::Relaxed)).collect();
        leaving.push((is_over, task));
        drop(leaving);
        drop(said);
    }

    pub(super) fn add(&self, receiver: &Arc<PortReceiver>) {
        let mut all = self.receivers.lock();
        all.retain(|_, other| other.strong_count() > 0);
        all.insert(receiver.id.name.clone(), Arc::downgrade(receiver));
    }

    /// The receive port of a name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<PortReceiver>> {
        self.receivers.lock().get(name)?.upgrade()
    }
}

impl NodePart for NodePorts {
    fn close(&self, _until: Instant) {
        let leaving = std::mem::take(&mut *self.leaving.lock());
        drop(leaving);
        let all = std::mem::take(&mut *self.receivers.lock());
        all.values().filter_map(Weak::upgrade).for_each(|receiver| receiver.close());
    }
}
