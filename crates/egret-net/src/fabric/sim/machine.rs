//! A nic of a simulated world as the state machine that its handles share.

use std::sync::Arc;
use std::task::Waker;

use super::SimFabric;
use super::acceptor::SimListener;
use super::clock::SimClock;
use super::connection::Connection;
use super::nic;
use super::wire::{EndId, SimCloseReason, SimNodeId};
use super::world::SimWorld;
use crate::fabric::{
    self, After, ConnId, ConnectRequest, DATAGRAM_HEAD, DatagramEvent, Drained, ListenerName,
    Machine, NewConnection, Unposted, ViSpec,
};
use crate::vi::{
    ConnectError, Counters, DrainId, Keys, Lane, Limits, OpenError, Position, PostError, Posted,
    PublicKey, Reliability, Reply, Sink, Ticket, ViError, ViId,
};

/// The ends are the world's, which has many nics and one lock.
#[derive(Debug)]
pub(super) struct SimMachine {
    fabric: SimFabric,
    node: SimNodeId,
    life: u32,
    name: Arc<str>,
    key: PublicKey,
    keys: Arc<Keys>,
    /// The datagram that was taken last.
    came: Arc<[u8]>,
}

impl SimMachine {
    pub(super) fn new(fabric: &SimFabric, world: &mut SimWorld, node: SimNodeId) -> Self {
        let state = &mut world.nodes[node];
        state.handles += 1;
        Self {
            fabric: fabric.clone(),
            node,
            life: state.life,
            name: Arc::clone(&state.name),
            key: state.key(),
            keys: Arc::clone(&state.keys),
            came: Arc::default(),
        }
    }

    /// Whether the node still lives the life in which this nic was opened.
    fn is_up(&self, world: &SimWorld) -> bool {
        world.nodes[self.node].up && world.nodes[self.node].life == self.life
    }

    fn end<'a>(&self, conn: ConnId, world: &'a SimWorld) -> Option<&'a Connection> {
        self.is_up(world).then(|| world.nodes[self.node].ends.get(&conn.0)).flatten()
    }

    fn error_in(&self, conn: ConnId, world: &SimWorld) -> Option<ViError> {
        match self.end(conn, world) {
            None => Some(ViError::NicDown),
            Some(Connection::Gone { why, .. }) => Some(why.clone()),
            Some(Connection::Open { .. } | Connection::Connecting(_)) => None,
        }
    }
}

impl Machine for SimMachine {
    fn host(&self) -> &str {
        &self.name
    }

    fn key(&self) -> Option<PublicKey> {
        Some(self.key)
    }

    fn limits(&self) -> Limits {
        nic::limits()
    }

    fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    fn listen(&mut self, name: &ListenerName, reliability: Reliability) -> Result<(), OpenError> {
        self.fabric.look_in(|world| {
            if !self.is_up(world) {
                return Err(OpenError::NicDown);
            }
            let listeners = &mut world.nodes[self.node].listeners;
            if listeners.contains_key(name) {
                let (service, tag) = name.clone();
                return Err(OpenError::ServiceTaken { service, tag });
            }
            listeners.insert(name.clone(), SimListener::new(reliability));
            Ok(())
        })
    }

    fn unlisten(&mut self, name: &ListenerName, after: &mut After) {
        self.fabric.work((self.node, after), |world| {
            if self.is_up(world)
                && let Some(listening) = world.nodes[self.node].listeners.remove(name)
            {
                // To go with no lock held: one may be the last to hold a nic.
                world.after.told.wakers.extend(listening.wakers);
            }
        });
    }

    fn wake_on_arrival(&mut self, name: &ListenerName, waker: Waker) -> Option<Waker> {
        self.fabric.look_in(|world| match world.nodes[self.node].listeners.get_mut(name) {
            Some(SimListener { wakers, .. }) if !wakers.iter().any(|it| it.will_wake(&waker)) => {
                wakers.push(waker);
                None
            }
            _ => Some(waker),
        })
    }

    fn accept(
        &mut self,
        name: &ListenerName,
        spec: ViSpec,
        after: &mut After,
    ) -> Result<Option<NewConnection>, OpenError> {
        self.fabric.work((self.node, after), |world| match self.is_up(world) {
            true => Ok(world.accept(self.node, name, spec)),
            false => Err(OpenError::NicDown),
        })
    }

    fn connect(&mut self, request: ConnectRequest, after: &mut After) {
        self.fabric.work((self.node, after), |world| match self.is_up(world) {
            true => world.connect(self.node, request),
            false => world.after.told.settle(request.promise, Err(ConnectError::NicDown)),
        });
    }

    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        self.fabric.work((self.node, after), |world| {
            if let Some(why) = self.error_in(conn, world) {
                return Err(Unposted::new(PostError::Broken(why), posted));
            }
            world.seen = world.now;
            let (node, end) = (self.node, conn.0);
            let result = world.with_end(node, end, |conn, out| Ok(conn.post(posted, out)));
            world.with_end(node, end, |conn, out| conn.resume(out));
            result.unwrap_or(Ok(()))
        })
    }

    fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool {
        self.fabric.work((self.node, after), |world| {
            let cancel = |world: &mut SimWorld| {
                world.with_end(self.node, conn.0, |conn, out| Ok(conn.cancel(ticket, out)))
            };
            self.is_up(world) && cancel(world).unwrap_or(false)
        })
    }

    fn close(&mut self, conn: ConnId, after: &mut After) {
        self.fabric.work((self.node, after), |world| {
            if self.is_up(world) {
                world.end_with(self.node, conn.0, ViError::Closed, SimCloseReason::Closed);
            }
        });
    }

    /// What is left of the end stays: frames that come late are answered with its farewell.
    fn release(&mut self, conn: ConnId, after: &mut After) {
        self.close(conn, after);
    }

    fn error(&self, conn: ConnId) -> Option<ViError> {
        self.fabric.look_in(|world| self.error_in(conn, world))
    }

    fn counters(&self, conn: ConnId) -> Counters {
        self.fabric.look_in(|world| match self.end(conn, world) {
            Some(Connection::Open { conn, .. }) => conn.counters(),
            Some(Connection::Gone { counters, .. }) => *counters,
            _ => Counters::default(),
        })
    }

    fn poll(&mut self, _after: &mut After) {}

    fn shut(&mut self, after: &mut After) {
        self.fabric.work((self.node, after), |world| {
            if self.is_up(world) {
                let state = &mut world.nodes[self.node];
                state.handles -= 1;
                if state.handles == 0 {
                    world.crash(self.node);
                }
            }
        });
    }

    fn has_datagrams(&self) -> bool {
        true
    }

    fn datagram_max(&self, _conn: ConnId) -> usize {
        DATAGRAM_HEAD + 1400
    }

    fn send_datagrams(
        &mut self,
        conn: ConnId,
        train: &mut [u8],
        size: usize,
        after: &mut After,
    ) -> usize {
        self.fabric.work((self.node, after), |world| {
            if self.is_up(world) {
                world.seen = world.now;
                for datagram in train.chunks(size) {
                    let bytes = &datagram[DATAGRAM_HEAD..];
                    world.with_end(self.node, conn.0, |conn, out| {
                        conn.send_datagram(bytes, out);
                        Ok(())
                    });
                }
            }
        });
        train.len()
    }

    fn next_datagram(&mut self, _after: &mut After) -> Option<DatagramEvent<'_>> {
        // A node that went down has left the ends of its connections.
        let (_, end, bytes) = self.fabric.look_in(|world| {
            let came = &mut world.nodes[self.node].came;
            let at = came.iter().position(|(life, ..)| *life == self.life)?;
            came.remove(at)
        })?;
        let Some(bytes) = bytes else { return Some(DatagramEvent::Ended(ConnId(end))) };
        self.came = bytes;
        Some(DatagramEvent::Datagram(ConnId(end), &self.came))
    }

    fn has_eager(&self, _level: Reliability) -> bool {
        true
    }

    fn send(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        after: &mut After,
    ) -> Result<Position, PostError> {
        self.fabric.work((self.node, after), |world| match self.error_in(conn, world) {
            Some(why) => Err(PostError::Broken(why)),
            None => send(world, (self.node, conn.0), (lane, tag), parts),
        })
    }

    fn arrived(&mut self, conn: ConnId, lane: Lane, asked: bool, after: &mut After) -> Position {
        self.fabric.work((self.node, after), |world| {
            if !self.is_up(world) {
                return Position::default();
            }
            let (node, end) = (self.node, conn.0);
            let ended = match world.nodes[node].ends.get_mut(&end) {
                Some(Connection::Gone { left: Some(left), .. }) => Some(left.arrived(lane, false)),
                _ => None,
            };
            let ask = || world.with_end(node, end, |conn, _| Ok(conn.eager.arrived(lane, asked)));
            ended.or_else(ask).unwrap_or_default()
        })
    }

    /// The function runs outside the world's lock, as everything of the program.
    fn drain(
        &mut self,
        drain: DrainId,
        budget: usize,
        sink: &mut Sink<'_>,
        after: &mut After,
    ) -> Drained {
        let (Self { fabric, node, .. }, mut drained) = (&*self, Drained::default());
        while drained.count < budget {
            let next = fabric.work((*node, after), |world| match self.is_up(world) {
                true => world.next_eager(*node, drain),
                false => None,
            });
            let Some((end, vi, record)) = next else { break };
            drained.count += 1;
            let mut reply =
                SimReply { fabric, node: *node, end, vi, after, answers: &mut drained.answers };
            sink(&mut reply, record.tag, &record.bytes);
        }
        drained
    }

    fn world(&self) -> Option<Arc<dyn fabric::VirtualTime>> {
        Some(Arc::new(SimClock { fabric: self.fabric.clone(), node: self.node }))
    }
}

/// The end that a drained message came by.
struct SimReply<'a> {
    fabric: &'a SimFabric,
    node: SimNodeId,
    end: EndId,
    vi: ViId,
    after: &'a mut After,
    answers: &'a mut bool,
}

impl Reply for SimReply<'_> {
    fn vi(&self) -> ViId {
        self.vi
    }

    fn send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, PostError> {
        *self.answers = true;
        let (node, end) = (self.node, self.end);
        self.fabric.work((node, self.after), |world| send(world, (node, end), (lane, tag), parts))
    }
}

/// Sends an eager message on an end of a node that is up.
fn send(
    world: &mut SimWorld,
    (node, end): (SimNodeId, EndId),
    (lane, tag): (Lane, u64),
    parts: &[&[u8]],
) -> Result<Position, PostError> {
    PostError::check_eager(parts)?;
    world.seen = world.now;
    let bytes = Arc::from(parts.concat());
    if let Some(Connection::Gone { why, .. }) = world.nodes[node].ends.get(&end) {
        return Err(PostError::Broken(why.clone()));
    }
    let sent = world.with_end(node, end, |conn, out| Ok(conn.send(lane, tag, bytes, out)));
    sent.unwrap_or(Err(PostError::Broken(ViError::NicDown)))
}
