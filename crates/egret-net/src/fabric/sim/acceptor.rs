//! Inbound connections being made: listeners, and those who wait to be accepted.

use std::collections::VecDeque;
use std::task::Waker;

use super::connection::Connection;
use super::datapath::DataPath;
use super::node::SimNode;
use super::wire::{EndId, FrameBody, SimFrame, SimNodeId};
use super::world::SimWorld;
use crate::fabric::common::{BACKLOG, ConnectRefusal};
use crate::fabric::{ConnId, ListenerName, NewConnection, ViSpec};
use crate::vi::{Hello, Reliability};

#[derive(Debug)]
pub(super) struct SimListener {
    pub reliability: Reliability,
    pub wakers: Vec<Waker>,
    backlog: VecDeque<SimCaller>,
}

/// An end that asked for a connection: node, its life, and the end there.
pub(super) type SimCaller = (SimNodeId, u32, EndId);

impl SimListener {
    pub(super) const fn new(reliability: Reliability) -> Self {
        Self { reliability, wakers: Vec::new(), backlog: VecDeque::new() }
    }
}

impl SimWorld {
    /// A connection request has arrived.
    pub(super) fn connect_arrives(&mut self, frame: &SimFrame) {
        let FrameBody::Connect(bytes) = &frame.body else { return };
        let caller = (frame.from, frame.from_life, frame.from_end);
        let node = &mut self.nodes[frame.to];
        if let Some(&end) = node.accepted.get(&caller) {
            let farewell = match node.ends.get(&end) {
                Some(Connection::Gone { farewell, .. }) => Some(farewell.clone()),
                _ => None,
            };
            // It was accepted even if it is over: the caller hears both.
            self.send(frame.to, end, frame.from, Some(frame.from_end), FrameBody::Accept);
            if let Some(farewell) = farewell {
                let farewell = FrameBody::Gone(farewell);
                self.send(frame.to, end, frame.from, Some(frame.from_end), farewell);
            }
            return;
        }
        let answer = match Hello::decode(bytes) {
            Err(why) => Some(ConnectRefusal::Hello(why)),
            Ok(hello) => node.listening(hello, caller, &mut self.after.told.wakers),
        };
        let answer = answer.map_or(FrameBody::Queued, FrameBody::Refuse);
        self.send(frame.to, 0, frame.from, Some(frame.from_end), answer);
    }

    /// The oldest caller of a listener is accepted.
    pub(super) fn accept(
        &mut self,
        node: SimNodeId,
        key: &ListenerName,
        spec: ViSpec,
    ) -> Option<NewConnection> {
        let listening = self.nodes[node].listeners.get_mut(key)?;
        let caller @ (peer, _, peer_end) = listening.backlog.pop_front()?;
        let conn = Box::new(DataPath::new(spec));
        let end = self.nodes[node].add_end(Connection::Open { conn, peer, peer_end });
        self.nodes[node].accepted.insert(caller, end);
        self.send(node, end, peer, Some(peer_end), FrameBody::Accept);
        Some(self.made(end, peer))
    }

    pub(super) fn made(&self, end: EndId, peer: SimNodeId) -> NewConnection {
        let mut made = NewConnection::new(ConnId(end), &self.nodes[peer].name);
        made.key = Some(self.nodes[peer].key());
        made
    }
}

impl SimNode {
    /// Queues a caller, or says why not.
    fn listening(
        &mut self,
        hello: Hello,
        caller: SimCaller,
        wakers: &mut Vec<Waker>,
    ) -> Option<ConnectRefusal> {
        let key = (hello.service, hello.tag);
        let has_service = self.listeners.keys().any(|(service, _)| *service == key.0);
        let Some(listening) = self.listeners.get_mut(&key) else {
            return Some(if has_service {
                ConnectRefusal::OtherTag
            } else {
                ConnectRefusal::NotListening
            });
        };
        if listening.reliability != hello.reliability {
            return Some(ConnectRefusal::Reliability(listening.reliability));
        }
        let is_queued = listening.backlog.contains(&caller);
        if !is_queued && listening.backlog.len() < BACKLOG {
            listening.backlog.push_back(caller);
            wakers.append(&mut listening.wakers);
        }
        None
    }
}
