//! One end of a connection: post and arrive, without clock or socket.
//!
//! Repeated names: `DataPath`, one in each fabric.

use tracing::trace;

use super::group::{GroupMembers, GroupSeal};
use super::keep_alive::{KeepAlive, KeepAliveAction};
use super::recv::{PieceOutcome, UdpAssembly};
use super::sealed::{self, DatagramSealer};
use super::send::{DatagramPort, Destination, Sender};
use super::wire::{ConnectionNumber, UdpPiece};
use crate::fabric::common::connection_end::OpenEnd;
use crate::fabric::receives::{ReceiveSizes, Receives};
use crate::fabric::{Unposted, ViSpec};
use crate::vi::{Counters, Notices, Op, PostError, Posted, Ticket, ViError};

#[derive(Debug)]
pub(super) struct DataPath {
    depth: u32,
    sender: Sender,
    inbound: UdpInbound,
    peers: RemoteSide,
    /// Whether datagrams of a window wait for room.
    is_full: bool,
}

/// The peer of a connection.
#[derive(Debug)]
enum RemoteSide {
    One {
        assembly: Box<UdpAssembly>,
        keep_alive: KeepAlive,
    },
    /// One, whose datagrams are those of a window.
    Window(KeepAlive),
    Group(GroupMembers),
}

/// What is received, by whatever way.
#[derive(Debug, Default)]
struct UdpInbound {
    receives: ReceiveSizes,
    #[cfg(test)]
    ignored: IgnoredPieces,
}

/// Counts of pieces of which nothing came.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct IgnoredPieces {
    pub twice: u64,
    pub contradictions: u64,
    /// Messages that did not become whole.
    pub given_up: u64,
}

const SILENT: ViError = ViError::PeerDied { why: "it has not answered for 10 s" };

impl UdpInbound {
    /// Counts what came of a piece.
    #[inline]
    const fn count(&mut self, came: PieceOutcome) {
        match came {
            PieceOutcome::Whole => self.receives.posted.received += 1,
            PieceOutcome::NoReceive => self.receives.posted.dropped += 1,
            #[cfg(test)]
            PieceOutcome::Twice => self.ignored.twice += 1,
            #[cfg(test)]
            PieceOutcome::Contradiction => self.ignored.contradictions += 1,
            #[cfg(not(test))]
            PieceOutcome::Twice | PieceOutcome::Contradiction => {}
            PieceOutcome::Kept | PieceOutcome::Unfit => {}
        }
    }

    const fn counters(&self, sent: u64) -> Counters {
        let Receives { received, dropped, .. } = self.receives.posted;
        Counters { sent, received, dropped }
    }
}

/// Whether a queue of this depth has room for one more.
fn room(depth: u32, outstanding: usize, posted: Posted) -> Result<Posted, Unposted> {
    if outstanding < depth as usize {
        return Ok(posted);
    }
    Err(Unposted::new(PostError::Full { depth }, posted))
}

impl DataPath {
    /// An end whose peer receives under the number `to`, over a path of this `room`.
    pub(super) fn new(spec: ViSpec, to: ConnectionNumber, room: usize) -> Self {
        Self {
            depth: spec.depth,
            sender: Sender::new(Destination::End(to), room),
            inbound: UdpInbound::default(),
            peers: match spec.carries == spec.reliability {
                true => {
                    RemoteSide::One { assembly: Box::default(), keep_alive: KeepAlive::new(to.0) }
                }
                false => RemoteSide::Window(KeepAlive::new(to.0)),
            },
            is_full: false,
        }
    }

    /// Its datagrams are sealed.
    pub(super) const fn seals(&mut self) {
        self.sender.seals(sealed::MORE);
    }

    /// An end that is a member of a group.
    pub(super) fn member(spec: ViSpec, seal: GroupSeal, room: usize) -> Self {
        Self {
            depth: spec.depth,
            sender: Sender::new(Destination::Group(seal), room),
            inbound: UdpInbound::default(),
            peers: RemoteSide::Group(GroupMembers::default()),
            is_full: false,
        }
    }

    #[cfg(test)]
    pub(super) const fn ignored(&self) -> IgnoredPieces {
        self.inbound.ignored
    }

    /// Takes a descriptor. Whether something waits for room.
    #[inline]
    pub(super) fn post(
        &mut self,
        posted: Posted,
        port: &mut impl DatagramPort,
        notices: &mut Notices,
    ) -> Result<bool, Unposted> {
        if matches!(posted.op(), Op::Recv) && posted.is_eager() {
            self.inbound.receives.of(true).push(posted);
        } else if matches!(posted.op(), Op::Recv) {
            let receives = &mut self.inbound.receives.posted;
            let outstanding = receives.len() + self.peers.begun();
            receives.push(room(self.depth, outstanding, posted)?);
        } else {
            let posted = room(self.depth, self.sender.outstanding(), posted)?;
            self.sender.push(posted, port, notices);
        }
        Ok(self.is_stuck())
    }

    /// Bytes of a datagram that the path carries.
    pub(super) const fn room(&self) -> usize {
        self.sender.room()
    }

    /// Whether its datagrams are those of a window.
    pub(super) const fn is_windowed(&self) -> bool {
        matches!(self.peers, RemoteSide::Window(_))
    }

    /// The path may carry less than is known.
    pub(super) fn doubt(&mut self) {
        self.sender.doubt();
    }

    /// Sends datagrams of a window. How many bytes have left.
    pub(super) fn send_train(
        &mut self,
        train: &mut [u8],
        size: usize,
        seal: Option<&mut DatagramSealer>,
        port: &mut impl DatagramPort,
    ) -> usize {
        let left = self.sender.send_train(train, size, seal, port);
        self.is_full = left < train.len();
        left
    }

    /// Whether a send waits for room.
    #[inline]
    pub(super) fn is_stuck(&self) -> bool {
        self.is_full || self.sender.outstanding() > 0
    }

    /// Goes on with what waits for room.
    pub(super) fn pump(&mut self, port: &mut impl DatagramPort, notices: &mut Notices) {
        self.sender.pump(port, notices);
    }

    /// The peer has said something.
    #[inline]
    pub(super) const fn hear(&mut self) {
        if let RemoteSide::One { keep_alive, .. } | RemoteSide::Window(keep_alive) = &mut self.peers
        {
            keep_alive.hear();
        }
    }

    /// A message arrived, or a part of one: of the peer, or of this member.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        from: u64,
        piece: &UdpPiece<'_>,
        notices: &mut Notices,
    ) -> PieceOutcome {
        let receives = &mut self.inbound.receives;
        let came = match &mut self.peers {
            RemoteSide::One { assembly, .. } => assembly.take(piece, receives, notices),
            RemoteSide::Group(members) => members.take(from, piece, receives, notices),
            // A window sends no messages.
            RemoteSide::Window(_) => PieceOutcome::Contradiction,
        };
        self.inbound.count(came);
        came
    }

    /// Some time has passed. Whether to ask the peer if it lives.
    pub(super) fn keep_alive_tick(&mut self) -> Result<bool, ViError> {
        let receives = &mut self.inbound.receives;
        let (given_up, tick) = match &mut self.peers {
            RemoteSide::One { assembly, keep_alive } => {
                (assembly.keep_alive_tick(receives), keep_alive.keep_alive_tick())
            }
            RemoteSide::Group(members) => {
                (members.keep_alive_tick(receives), KeepAliveAction::Nothing)
            }
            RemoteSide::Window(keep_alive) => (0, keep_alive.keep_alive_tick()),
        };
        if given_up > 0 {
            trace!("udp: {given_up} messages were given up: some of their parts have not arrived");
        }
        #[cfg(test)]
        {
            self.inbound.ignored.given_up += given_up;
        }
        match tick {
            KeepAliveAction::Nothing => Ok(false),
            KeepAliveAction::Ask => Ok(true),
            KeepAliveAction::Dead => Err(SILENT),
        }
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        let Self { sender, inbound, peers, .. } = self;
        let taken = inbound.receives.posted.cancel(ticket).or_else(|| peers.cancel(ticket));
        let Some(posted) = taken.or_else(|| sender.cancel(ticket)) else { return false };
        posted.fail(ViError::Cancelled, notices);
        true
    }
}

impl OpenEnd for DataPath {
    type Remainder = ();

    fn counters(&self) -> Counters {
        self.inbound.counters(self.sender.sent)
    }

    fn fail(mut self, why: &ViError, notices: &mut Notices) {
        let mut all: Vec<Posted> = self.sender.drain().collect();
        match &mut self.peers {
            RemoteSide::One { assembly, .. } => all.extend(assembly.drain()),
            RemoteSide::Group(members) => all.extend(members.drain()),
            RemoteSide::Window(_) => {}
        }
        all.extend(self.inbound.receives.drain());
        all.sort_by_key(Posted::ticket);
        for posted in all {
            posted.fail(why.clone(), notices);
        }
    }
}

impl RemoteSide {
    fn begun(&self) -> usize {
        match self {
            Self::One { assembly, .. } => assembly.begun(),
            Self::Group(members) => members.begun(),
            Self::Window(_) => 0,
        }
    }

    fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        match self {
            Self::One { assembly, .. } => assembly.cancel(ticket),
            Self::Group(members) => members.cancel(ticket),
            Self::Window(_) => None,
        }
    }
}
