//! One end of a connection: post and arrive, without clock or socket.

use super::group::{Members, Seal};
use super::pulse::{Beat, Pulse};
use super::recv::{Assembly, Came};
use super::sealed::{self, Outgoing};
use super::send::{Port, Sender, To};
use super::wire::{Number, Piece};
use crate::fabric::hub::end::Open;
use crate::fabric::receives::{Classes, Receives};
use crate::fabric::{Unposted, ViSpec};
use crate::vi::{Counters, Notices, Op, Posted, Refused, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Conn {
    depth: u32,
    sender: Sender,
    inward: Inward,
    peers: Peers,
    /// Whether datagrams of a window wait for room.
    is_full: bool,
}

/// Who is at the other end.
#[derive(Debug)]
enum Peers {
    One {
        assembly: Box<Assembly>,
        pulse: Pulse,
    },
    /// One, whose datagrams are those of a window.
    Window(Pulse),
    Group(Members),
}

/// What is received, by whatever way.
#[derive(Debug, Default)]
struct Inward {
    receives: Classes,
    ignored: Ignored,
}

/// Pieces of which nothing came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ignored {
    pub twice: u64,
    pub lies: u64,
    /// Messages that did not become whole.
    pub given_up: u64,
}

const SILENT: ViError = ViError::PeerDied { why: "it has not answered for 10 s" };

impl Inward {
    /// Counts what came of a piece.
    #[inline]
    const fn count(&mut self, came: Came) {
        match came {
            Came::Whole => self.receives.posted.received += 1,
            Came::NoReceive => self.receives.posted.dropped += 1,
            Came::Twice => self.ignored.twice += 1,
            Came::Lie => self.ignored.lies += 1,
            Came::Kept | Came::Unfit => {}
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
    Err(Unposted::new(Refused::Full { depth }, posted))
}

impl Conn {
    /// An end whose peer receives under the number `to`, over a path of this `room`.
    pub(super) fn new(spec: ViSpec, to: Number, room: usize) -> Self {
        Self {
            depth: spec.depth,
            sender: Sender::new(To::End(to), room),
            inward: Inward::default(),
            peers: match spec.carries == spec.reliability {
                true => Peers::One { assembly: Box::default(), pulse: Pulse::new(to.0) },
                false => Peers::Window(Pulse::new(to.0)),
            },
            is_full: false,
        }
    }

    /// Its datagrams are sealed.
    pub(super) const fn seals(&mut self) {
        self.sender.seals(sealed::MORE);
    }

    /// An end that is a member of a group.
    pub(super) fn member(spec: ViSpec, seal: Seal, room: usize) -> Self {
        Self {
            depth: spec.depth,
            sender: Sender::new(To::Group(seal), room),
            inward: Inward::default(),
            peers: Peers::Group(Members::default()),
            is_full: false,
        }
    }

    #[cfg(test)]
    pub(super) const fn ignored(&self) -> Ignored {
        self.inward.ignored
    }

    /// Takes a descriptor. Whether something waits for room.
    #[inline]
    pub(super) fn post(
        &mut self,
        posted: Posted,
        port: &mut impl Port,
        notices: &mut Notices,
    ) -> Result<bool, Unposted> {
        if matches!(posted.op(), Op::Recv) && posted.is_eager() {
            self.inward.receives.of(true).push(posted);
        } else if matches!(posted.op(), Op::Recv) {
            let receives = &mut self.inward.receives.posted;
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
        matches!(self.peers, Peers::Window(_))
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
        seal: Option<&mut Outgoing>,
        port: &mut impl Port,
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
    pub(super) fn pump(&mut self, port: &mut impl Port, notices: &mut Notices) {
        self.sender.pump(port, notices);
    }

    /// The peer has said something.
    #[inline]
    pub(super) const fn hear(&mut self) {
        if let Peers::One { pulse, .. } | Peers::Window(pulse) = &mut self.peers {
            pulse.hear();
        }
    }

    /// A message arrived, or a part of one: of the peer, or of this member.
    #[inline]
    pub(super) fn arrive(&mut self, from: u64, piece: &Piece<'_>, notices: &mut Notices) -> Came {
        let receives = &mut self.inward.receives;
        let came = match &mut self.peers {
            Peers::One { assembly, .. } => assembly.take(piece, receives, notices),
            Peers::Group(members) => members.take(from, piece, receives, notices),
            // A window sends no messages.
            Peers::Window(_) => Came::Lie,
        };
        self.inward.count(came);
        came
    }

    /// Some time has passed. Whether to ask the peer if it lives.
    pub(super) fn beat(&mut self) -> Result<bool, ViError> {
        let receives = &mut self.inward.receives;
        let (given_up, beat) = match &mut self.peers {
            Peers::One { assembly, pulse } => (assembly.beat(receives), pulse.beat()),
            Peers::Group(members) => (members.beat(receives), Beat::Nothing),
            Peers::Window(pulse) => (0, pulse.beat()),
        };
        self.inward.ignored.given_up += given_up;
        match beat {
            Beat::Nothing => Ok(false),
            Beat::Ask => Ok(true),
            Beat::Dead => Err(SILENT),
        }
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        let Self { sender, inward, peers, .. } = self;
        let taken = inward.receives.posted.cancel(ticket).or_else(|| peers.cancel(ticket));
        let Some(posted) = taken.or_else(|| sender.cancel(ticket)) else { return false };
        posted.fail(ViError::Cancelled, notices);
        true
    }
}

impl Open for Conn {
    type Left = ();

    fn counters(&self) -> Counters {
        self.inward.counters(self.sender.sent)
    }

    fn fail(mut self, why: &ViError, notices: &mut Notices) {
        let mut all: Vec<Posted> = self.sender.drain().collect();
        match &mut self.peers {
            Peers::One { assembly, .. } => all.extend(assembly.drain()),
            Peers::Group(members) => all.extend(members.drain()),
            Peers::Window(_) => {}
        }
        all.extend(self.inward.receives.drain());
        all.sort_by_key(Posted::ticket);
        for posted in all {
            posted.fail(why.clone(), notices);
        }
    }
}

impl Peers {
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
