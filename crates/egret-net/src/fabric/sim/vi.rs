//! The handle of one end of a simulated connection.

use std::sync::Arc;

use super::SimFabric;
use super::after::Made;
use super::node::End;
use super::wire::{EndId, Farewell, NodeId};
use super::world::World;
use crate::fabric::{Unposted, ViOps};
use crate::vi::{
    Counters, Lane, Position, Posted, Refused, Reliability, Reply, SendError, Ticket, ViError, ViId,
};

#[derive(Debug)]
pub(super) struct SimVi {
    fabric: SimFabric,
    node: NodeId,
    life: u32,
    end: EndId,
    peer: Arc<str>,
    reliability: Reliability,
}

impl SimVi {
    pub(super) fn new(fabric: &SimFabric, made: Made) -> Self {
        let Made { node, life, end, peer, reliability } = made;
        Self { fabric: fabric.clone(), node, life, end, peer, reliability }
    }

    /// Whether the node still lives the life in which this end was made.
    fn is_current(&self, world: &World) -> bool {
        world.nodes[self.node].up && world.nodes[self.node].life == self.life
    }

    fn state<'a>(&self, world: &'a World) -> Option<&'a End> {
        self.is_current(world).then(|| world.nodes[self.node].ends.get(&self.end)).flatten()
    }

    fn error_in(&self, world: &World) -> Option<ViError> {
        match self.state(world) {
            None => Some(ViError::NicDown),
            Some(End::Gone { why, .. }) => Some(why.clone()),
            Some(End::Open { .. } | End::Knocking(_)) => None,
        }
    }
}

impl ViOps for SimVi {
    fn peer(&self) -> &str {
        &self.peer
    }

    fn reliability(&self) -> Reliability {
        self.reliability
    }

    fn post(&self, posted: Posted) -> Result<(), Unposted> {
        self.fabric.with(|world| {
            if let Some(why) = self.error_in(world) {
                return Err(Unposted::new(Refused::Broken(why), posted));
            }
            world.seen = world.now;
            let (node, end) = (self.node, self.end);
            let result = world.with_end(node, end, |conn, out| Ok(conn.post(posted, out)));
            world.with_end(node, end, |conn, out| conn.resume(out));
            result.unwrap_or(Ok(()))
        })
    }

    fn cancel(&self, ticket: Ticket) -> bool {
        self.fabric.with(|world| {
            let cancel = |world: &mut World| {
                world.with_end(self.node, self.end, |conn, out| Ok(conn.cancel(ticket, out)))
            };
            self.is_current(world) && cancel(world).unwrap_or(false)
        })
    }

    fn disconnect(&self) {
        self.fabric.with(|world| {
            if self.is_current(world) {
                world.end_with(self.node, self.end, ViError::Closed, Farewell::Closed);
            }
        });
    }

    fn error(&self) -> Option<ViError> {
        self.fabric.with(|world| self.error_in(world))
    }

    fn send(&self, _lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, SendError> {
        self.fabric.with(|world| match self.error_in(world) {
            Some(why) => Err(SendError::Closed(why)),
            None => send(world, (self.node, self.end), tag, parts),
        })
    }

    fn arrived(&self, _lane: Lane, asked: bool) -> Position {
        self.fabric.with(|world| {
            if !self.is_current(world) {
                return Position::default();
            }
            let ended = match world.nodes[self.node].ends.get_mut(&self.end) {
                Some(End::Gone { left: Some(left), .. }) => Some(left.arrived(false)),
                _ => None,
            };
            let (node, end) = (self.node, self.end);
            let ask = || world.with_end(node, end, |conn, _| Ok(conn.eager.arrived(asked)));
            ended.or_else(ask).unwrap_or_default()
        })
    }

    fn counters(&self) -> Counters {
        self.fabric.with(|world| match self.state(world) {
            Some(End::Open { conn, .. }) => conn.counters(),
            Some(End::Gone { counters, .. }) => *counters,
            _ => Counters::default(),
        })
    }
}

/// The end that a drained message came by.
pub(super) struct SimReply<'a> {
    pub fabric: &'a SimFabric,
    pub node: NodeId,
    pub end: EndId,
    pub vi: ViId,
}

impl Reply for SimReply<'_> {
    fn vi(&self) -> ViId {
        self.vi
    }

    fn send(&mut self, _lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, SendError> {
        let (node, end) = (self.node, self.end);
        self.fabric.with(|world| send(world, (node, end), tag, parts))
    }
}

/// Sends an eager message on an end of a node that is up.
fn send(
    world: &mut World,
    (node, end): (NodeId, EndId),
    tag: u64,
    parts: &[&[u8]],
) -> Result<Position, SendError> {
    SendError::check(parts)?;
    world.seen = world.now;
    let bytes = Arc::from(parts.concat());
    if let Some(End::Gone { why, .. }) = world.nodes[node].ends.get(&end) {
        return Err(SendError::Closed(why.clone()));
    }
    let sent = world.with_end(node, end, |conn, out| Ok(conn.send(tag, bytes, out)));
    sent.unwrap_or(Err(SendError::Closed(ViError::NicDown)))
}

impl Drop for SimVi {
    fn drop(&mut self) {
        self.disconnect();
    }
}
