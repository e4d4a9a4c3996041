//! Outbound connections being made: requests, their repetition, and their answers.

use std::time::Duration;

use super::connection::Connection;
use super::datapath::DataPath;
use super::wire::{EndId, FrameBody, SimCloseReason, SimFrame, SimNodeId};
use super::world::{SimWorld, WorldEvent};
use crate::fabric::common::ListenState;
use crate::fabric::common::connect_retry::ConnectRetry;
use crate::fabric::{ConnectRequest, NewConnection};
use crate::vi::{ConnectError, Counters, ViError};

#[derive(Debug)]
pub(super) struct ConnectAttempt {
    patience: ConnectRetry,
    peer: SimNodeId,
    hello: Vec<u8>,
}

/// How soon a request is repeated at first.
const RETRY_MIN: Duration = Duration::from_millis(1);

impl SimWorld {
    /// Begins to connect.
    pub(super) fn connect(&mut self, node: SimNodeId, request: ConnectRequest) {
        self.seen = self.now;
        let peer = self.node(&request.to.host);
        let patience = ConnectRetry::new(request, self.now, RETRY_MIN);
        let hello = patience.hello().encode();
        let attempt = ConnectAttempt { patience, peer, hello };
        let end = self.nodes[node].add_end(Connection::Connecting(Box::new(attempt)));
        self.request_connection(node, end);
    }

    /// Sends a connection request, and schedules its repetition; or gives up.
    pub(super) fn request_connection(&mut self, node: SimNodeId, end: EndId) {
        let now = self.now;
        let Some(Connection::Connecting(attempt)) = self.nodes[node].ends.get_mut(&end) else {
            return;
        };
        let (peer, hopeless) = (attempt.peer, attempt.patience.request.at_once);
        let over = attempt.patience.is_over(now);
        if over || hopeless && !self.nodes[peer].is_known() {
            return self.give_up_connecting(node, end);
        }
        let Some(Connection::Connecting(attempt)) = self.nodes[node].ends.get_mut(&end) else {
            return;
        };
        attempt.patience.attempted(now);
        let next = attempt.patience.deadline();
        let (peer, hello) = (attempt.peer, attempt.hello.clone());
        self.send(node, end, peer, None, FrameBody::Connect(hello));
        self.schedule(next, WorldEvent::RetryConnect { node, end });
    }

    /// Gives up an attempt whose host was not found, or did not accept.
    fn give_up_connecting(&mut self, node: SimNodeId, end: EndId) {
        let Some(Connection::Connecting(attempt)) = self.nodes[node].ends.get(&end) else { return };
        let is_known = self.nodes[attempt.peer].is_known();
        let Some(Connection::Connecting(attempt)) = self.nodes[node].ends.get_mut(&end) else {
            return;
        };
        attempt.patience.known = is_known;
        let why = attempt.patience.timed_out(self.now);
        self.settle_connect(node, end, Err(why));
    }

    /// Settles what was promised to a connector that fails.
    pub(super) fn settle_connect(
        &mut self,
        node: SimNodeId,
        end: EndId,
        result: Result<NewConnection, ConnectError>,
    ) {
        let why = ViError::Closed;
        let gone = Connection::Gone {
            why,
            farewell: SimCloseReason::Unknown,
            counters: Counters::default(),
            left: None,
        };
        if let Some(Connection::Connecting(attempt)) = self.nodes[node].ends.insert(end, gone) {
            self.after.told.settle(attempt.patience.request.promise, result);
        }
    }

    /// The answer to a connection request has arrived.
    pub(super) fn connect_answered(&mut self, end: EndId, frame: &SimFrame) {
        let (node, now) = (frame.to, self.now);
        let (spec, expected) = match self.nodes[node].ends.get_mut(&end) {
            Some(Connection::Connecting(attempt)) => match &frame.body {
                FrameBody::Refuse(refusal) => {
                    attempt.patience.known = true;
                    if let Some(why) = attempt.patience.refused(refusal.clone(), now) {
                        self.settle_connect(node, end, Err(why));
                    }
                    return;
                }
                FrameBody::Queued => {
                    (attempt.patience.known, attempt.patience.listens) =
                        (true, Some(ListenState::Yes));
                    return;
                }
                _ => (attempt.patience.request.spec, attempt.patience.request.to.key),
            },
            Some(Connection::Open { .. }) => return,
            Some(Connection::Gone { farewell, .. }) => {
                let farewell = FrameBody::Gone(farewell.clone());
                return self.send(node, end, frame.from, Some(frame.from_end), farewell);
            }
            None => return,
        };
        let made = self.made(end, frame.from);
        if expected.is_some() && expected != made.key {
            let other = ConnectError::OtherKey;
            self.settle_connect(node, end, Err(other));
            let farewell = FrameBody::Gone(SimCloseReason::Closed);
            return self.send(node, end, frame.from, Some(frame.from_end), farewell);
        }
        self.settle_connect(node, end, Ok(made));
        let conn = Box::new(DataPath::new(spec));
        let open = Connection::Open { conn, peer: frame.from, peer_end: frame.from_end };
        self.nodes[node].ends.insert(end, open);
    }
}
