//! Nodes of a simulated world, and how they connect, crash and restart.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::datapath::Conn;
use super::eager::Eager;
use super::wire::{Body, EndId, Farewell, Frame, NodeId};
use super::world::{Event, World};
use crate::fabric::hub::patience::Patience;
use crate::fabric::hub::{Listens, Refusal};
use crate::fabric::{ConnId, ConnectRequest, ListenerName, Made, ViSpec};
use crate::vi::{ConnectError, Counters, Hello, KeyError, Keys, PublicKey, Reliability, ViError};

#[derive(Debug)]
pub(super) struct Node {
    pub name: Arc<str>,
    pub up: bool,
    /// How often it went down; what an earlier life sent or owned is void.
    pub life: u32,
    /// Handles to its present life.
    pub handles: usize,
    pub keys: Arc<Keys>,
    pub ends: BTreeMap<EndId, End>,
    /// Ends with eager messages that were not drained, in the order in which they are.
    pub ready: VecDeque<EndId>,
    /// What has come for windows.
    pub came: VecDeque<CameFor>,
    pub listeners: BTreeMap<ListenerName, Listening>,
    /// Who was accepted, and as which end: a repeated knock gets the same answer.
    accepted: BTreeMap<Caller, EndId>,
    next_end: EndId,
}

#[derive(Debug)]
pub(super) enum End {
    /// Asked for, not answered yet.
    Knocking(Box<Knock>),
    Open {
        conn: Box<Conn>,
        peer: NodeId,
        peer_end: EndId,
    },
    /// In the error state, for good.
    Gone {
        why: ViError,
        farewell: Farewell,
        counters: Counters,
        /// Its eager messages: those that arrived before are to be drained.
        left: Option<Box<Eager>>,
    },
}

#[derive(Debug)]
pub(super) struct Knock {
    patience: Patience,
    peer: NodeId,
    hello: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Listening {
    pub reliability: Reliability,
    pub wakers: Vec<Waker>,
    backlog: VecDeque<Caller>,
}

/// For a window of this life: a datagram of an end, or that the end is over.
pub(super) type CameFor = (u32, EndId, Option<Arc<[u8]>>);

/// An end that knocked: node, its life, and the end there.
type Caller = (NodeId, u32, EndId);

/// Knocks that a listener keeps; more are ignored, and repeated by their callers.
const BACKLOG: usize = 128;
/// How soon to knock again at first.
const KNOCK_MIN: Duration = Duration::from_millis(1);

impl Node {
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
        }
    }

    fn add_end(&mut self, end: End) -> EndId {
        let id = self.next_end;
        self.next_end += 1;
        self.ends.insert(id, end);
        id
    }
}

impl End {
    /// Its eager messages, also those it had when it ended.
    pub(super) fn eager(&mut self) -> Option<&mut Eager> {
        match self {
            Self::Open { conn, .. } => Some(&mut conn.eager),
            Self::Gone { left, .. } => left.as_deref_mut(),
            Self::Knocking(_) => None,
        }
    }
}

impl Listening {
    pub(super) const fn new(reliability: Reliability) -> Self {
        Self { reliability, wakers: Vec::new(), backlog: VecDeque::new() }
    }
}

impl World {
    /// Begins to connect.
    pub(super) fn connect(&mut self, node: NodeId, request: ConnectRequest) {
        self.seen = self.now;
        let peer = self.node(&request.to.host);
        let patience = Patience::new(request, self.now, KNOCK_MIN);
        let hello = patience.hello().encode();
        let knock = Knock { patience, peer, hello };
        let end = self.nodes[node].add_end(End::Knocking(Box::new(knock)));
        self.knock(node, end);
    }

    /// Knocks, and again later; or gives up.
    pub(super) fn knock(&mut self, node: NodeId, end: EndId) {
        let now = self.now;
        let Some(End::Knocking(knock)) = self.nodes[node].ends.get_mut(&end) else { return };
        let (peer, hopeless) = (knock.peer, knock.patience.request.at_once);
        let over = knock.patience.is_over(now);
        if over || hopeless && !self.nodes[peer].is_known() {
            return self.give_up_knocking(node, end);
        }
        let Some(End::Knocking(knock)) = self.nodes[node].ends.get_mut(&end) else { return };
        knock.patience.knocked(now);
        let next = knock.patience.deadline();
        let (peer, hello) = (knock.peer, knock.hello.clone());
        self.send(node, end, peer, None, Body::Connect(hello));
        self.schedule(next, Event::Knock { node, end });
    }

    /// Nobody was found, or nobody opened.
    fn give_up_knocking(&mut self, node: NodeId, end: EndId) {
        let Some(End::Knocking(knock)) = self.nodes[node].ends.get(&end) else { return };
        let is_known = self.nodes[knock.peer].is_known();
        let Some(End::Knocking(knock)) = self.nodes[node].ends.get_mut(&end) else { return };
        knock.patience.known = is_known;
        let why = knock.patience.too_late(self.now);
        self.stop_knocking(node, end, Err(why));
    }

    /// Settles what was promised to a connector that fails.
    fn stop_knocking(&mut self, node: NodeId, end: EndId, result: Result<Made, ConnectError>) {
        let why = ViError::Closed;
        let gone = End::Gone {
            why,
            farewell: Farewell::Unknown,
            counters: Counters::default(),
            left: None,
        };
        if let Some(End::Knocking(knock)) = self.nodes[node].ends.insert(end, gone) {
            self.after.told.settle(knock.patience.request.promise, result);
        }
    }

    /// Somebody knocks.
    pub(super) fn connect_arrives(&mut self, frame: &Frame) {
        let Body::Connect(bytes) = &frame.body else { return };
        let caller = (frame.from, frame.from_life, frame.from_end);
        let node = &mut self.nodes[frame.to];
        if let Some(&end) = node.accepted.get(&caller) {
            let farewell = match node.ends.get(&end) {
                Some(End::Gone { farewell, .. }) => Some(farewell.clone()),
                _ => None,
            };
            // It was accepted even if it is over: the caller hears both.
            self.send(frame.to, end, frame.from, Some(frame.from_end), Body::Accept);
            if let Some(farewell) = farewell {
                let farewell = Body::Gone(farewell);
                self.send(frame.to, end, frame.from, Some(frame.from_end), farewell);
            }
            return;
        }
        let answer = match Hello::decode(bytes) {
            Err(why) => Some(Refusal::Hello(why)),
            Ok(hello) => node.listening(hello, caller, &mut self.after.told.wakers),
        };
        let answer = answer.map_or(Body::Queued, Body::Refuse);
        self.send(frame.to, 0, frame.from, Some(frame.from_end), answer);
    }

    /// The oldest caller of a listener is accepted.
    pub(super) fn accept(
        &mut self,
        node: NodeId,
        key: &ListenerName,
        spec: ViSpec,
    ) -> Option<Made> {
        let listening = self.nodes[node].listeners.get_mut(key)?;
        let caller @ (peer, _, peer_end) = listening.backlog.pop_front()?;
        let conn = Box::new(Conn::new(spec));
        let end = self.nodes[node].add_end(End::Open { conn, peer, peer_end });
        self.nodes[node].accepted.insert(caller, end);
        self.send(node, end, peer, Some(peer_end), Body::Accept);
        Some(self.made(end, peer))
    }

    fn made(&self, end: EndId, peer: NodeId) -> Made {
        let mut made = Made::new(ConnId(end), &self.nodes[peer].name);
        made.key = Some(self.nodes[peer].key());
        made
    }

    /// A knock was answered.
    pub(super) fn connect_answered(&mut self, end: EndId, frame: &Frame) {
        let (node, now) = (frame.to, self.now);
        let (spec, expected) = match self.nodes[node].ends.get_mut(&end) {
            Some(End::Knocking(knock)) => match &frame.body {
                Body::Refuse(refusal) => {
                    knock.patience.known = true;
                    if let Some(why) = knock.patience.refused(refusal.clone(), now) {
                        self.stop_knocking(node, end, Err(why));
                    }
                    return;
                }
                Body::Queued => {
                    (knock.patience.known, knock.patience.listens) = (true, Some(Listens::Yes));
                    return;
                }
                _ => (knock.patience.request.spec, knock.patience.request.to.key),
            },
            Some(End::Open { .. }) => return,
            Some(End::Gone { farewell, .. }) => {
                let farewell = Body::Gone(farewell.clone());
                return self.send(node, end, frame.from, Some(frame.from_end), farewell);
            }
            None => return,
        };
        let made = self.made(end, frame.from);
        if expected.is_some() && expected != made.key {
            let other = ConnectError::Key(KeyError::Other);
            self.stop_knocking(node, end, Err(other));
            let farewell = Body::Gone(Farewell::Closed);
            return self.send(node, end, frame.from, Some(frame.from_end), farewell);
        }
        self.stop_knocking(node, end, Ok(made));
        let conn = Box::new(Conn::new(spec));
        let open = End::Open { conn, peer: frame.from, peer_end: frame.from_end };
        self.nodes[node].ends.insert(end, open);
    }

    /// The node is gone at once, without a word to anyone.
    pub(super) fn crash(&mut self, node: NodeId) {
        // Dead first: what its ends say to their peers as they fail goes nowhere.
        self.nodes[node].up = false;
        let ends: Vec<EndId> = self.nodes[node].ends.keys().copied().collect();
        for end in ends {
            if let Some(End::Knocking(_)) = self.nodes[node].ends.get(&end) {
                self.stop_knocking(node, end, Err(ConnectError::NicDown));
            }
            self.end_with(node, end, ViError::NicDown, Farewell::Unknown);
        }
        let node = &mut self.nodes[node];
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
    }
}

impl Node {
    /// The key of its nic in this life. Nobody proves it: nobody lies in a simulated world.
    pub(super) fn key(&self) -> PublicKey {
        let mut hash = Sha256::new();
        hash.update(self.life.to_le_bytes());
        hash.update(self.name.as_bytes());
        PublicKey(hash.finalize().into())
    }

    /// Whether a nic of this name was ever open.
    const fn is_known(&self) -> bool {
        self.up || self.life > 0
    }

    /// Queues a caller, or says why not.
    fn listening(
        &mut self,
        hello: Hello,
        caller: Caller,
        wakers: &mut Vec<Waker>,
    ) -> Option<Refusal> {
        let key = (hello.service, hello.tag);
        let has_service = self.listeners.keys().any(|(service, _)| *service == key.0);
        let Some(listening) = self.listeners.get_mut(&key) else {
            return Some(if has_service { Refusal::OtherTag } else { Refusal::NotListening });
        };
        if listening.reliability != hello.reliability {
            return Some(Refusal::Reliability(listening.reliability));
        }
        let is_queued = listening.backlog.contains(&caller);
        if !is_queued && listening.backlog.len() < BACKLOG {
            listening.backlog.push_back(caller);
            wakers.append(&mut listening.wakers);
        }
        None
    }
}
