//! Nodes of a simulated world, and how they crash.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::acceptor::{SimCaller, SimListener};
use super::connection::Connection;
use super::wire::{EndId, SimCloseReason, SimNodeId};
use super::world::SimWorld;
use crate::fabric::ListenerName;
use crate::vi::{ConnectError, Keys, PublicKey, ViError};

#[derive(Debug)]
pub(super) struct SimNode {
    pub name: Arc<str>,
    pub up: bool,
    /// How often it went down; what an earlier life sent or owned is void.
    pub life: u32,
    /// Handles to its present life.
    pub handles: usize,
    pub keys: Arc<Keys>,
    pub ends: BTreeMap<EndId, Connection>,
    /// Ends with eager messages that were not drained, in the order in which they are.
    pub ready: VecDeque<EndId>,
    /// What has come for windows.
    pub came: VecDeque<WindowDelivery>,
    pub listeners: BTreeMap<ListenerName, SimListener>,
    /// Accepted callers and their ends: a repeated request gets the same answer.
    pub accepted: BTreeMap<SimCaller, EndId>,
    next_end: EndId,
    /// How much happened here.
    pub happened: u64,
}

/// For a window of this life: a datagram of an end, or that the end is over.
pub(super) type WindowDelivery = (u32, EndId, Option<Arc<[u8]>>);

impl SimNode {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: Arc::from(name),
            up: false,
            life: 0,
            handles: 0,
            keys: Arc::default(),
            ends: BTreeMap::new(),
            ready: VecDeque::new(),
            came: VecDeque::new(),
            listeners: BTreeMap::new(),
            accepted: BTreeMap::new(),
            next_end: 1,
            happened: 0,
        }
    }

    pub(super) fn add_end(&mut self, end: Connection) -> EndId {
        let id = self.next_end;
        self.next_end += 1;
        self.ends.insert(id, end);
        id
    }
}

impl SimWorld {
    /// The node is gone at once, without a word to anyone.
    pub(super) fn crash(&mut self, node: SimNodeId) {
        // Dead first: what its ends say to their peers as they fail goes nowhere.
        self.nodes[node].up = false;
        let ends: Vec<EndId> = self.nodes[node].ends.keys().copied().collect();
        for end in ends {
            if let Some(Connection::Connecting(_)) = self.nodes[node].ends.get(&end) {
                self.settle_connect(node, end, Err(ConnectError::NicDown));
            }
            self.end_with(node, end, ViError::NicDown, SimCloseReason::Unknown);
        }
        let (id, node) = (node, &mut self.nodes[node]);
        let listeners = std::mem::take(&mut node.listeners);
        self.after
            .told
            .wakers
            .extend(listeners.into_values().flat_map(|listening| listening.wakers));
        node.ends.clear();
        node.ready.clear();
        node.came.retain(|(.., bytes)| bytes.is_none());
        node.accepted.clear();
        node.keys = Arc::default();
        node.life += 1;
        node.handles = 0;
        self.count_left(Some(id));
    }
}

impl SimNode {
    /// The key of its nic in this life. It is not proven: no peer is hostile in a simulated world.
    pub(super) fn key(&self) -> PublicKey {
        let mut hash = Sha256::new();
        hash.update(self.life.to_le_bytes());
        hash.update(self.name.as_bytes());
        PublicKey(hash.finalize().into())
    }

    /// Whether a nic of this name was ever open.
    pub(super) const fn is_known(&self) -> bool {
        self.up || self.life > 0
    }
}
