//! An end of a connection, as its nic owns it.
//!
//! Repeated names: `Connection`, one in each fabric.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;

use rustix::net::SocketAddrAny;

use super::datapath::DataPath;
use super::fault::{Fault, planted};
use super::recv::PieceOutcome;
use super::sealed::{DatagramSeal, EDGES, SealingPort};
use super::send::{DatagramPort, SendBlocked};
use super::socket::{DatagramSocket, SegmentedSend};
use super::wire::{ConnectionNumber, GoodbyeReason, UdpHead, UdpPiece};
use crate::fabric::common::connection_end::ConnectionEnd;
use crate::fabric::seal::{SealError, SealKeys};
use crate::fabric::{DATAGRAM_HEAD, Unposted};
use crate::vi::{Notices, Posted, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Connection {
    /// What the peer writes to; of a group, nothing.
    pub number: ConnectionNumber,
    /// What this end writes to.
    pub to: ConnectionNumber,
    pub at: SocketAddr,
    path: UdpPath,
    /// What its datagrams are sealed by, if they are.
    seals: Option<Box<DatagramSeal>>,
    /// The datagram that sends a goodbye, once it was sent.
    pub goodbye_sent: Vec<u8>,
    pub end: ConnectionEnd<DataPath>,
}

/// How a datagram has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    Plain,
    Sealed,
}

/// The way to a peer.
#[derive(Debug)]
struct UdpPath {
    socket: Arc<DatagramSocket>,
    to: SocketAddrAny,
}

impl DatagramPort for &UdpPath {
    #[inline]
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Result<(), SendBlocked> {
        self.socket.send(&self.to, slices)
    }

    #[inline]
    fn send_small(&mut self, bytes: &[u8]) -> Result<(), SendBlocked> {
        self.socket.send_small(&self.to, bytes)
    }

    fn send_long(&mut self, bytes: &[u8]) -> Result<(), SendBlocked> {
        self.socket.send_long(&self.to, bytes)
    }

    fn cuts(&self) -> bool {
        self.socket.cuts()
    }

    fn send_cut(
        &mut self,
        slices: &[IoSlice<'_>],
        size: u16,
    ) -> Result<SegmentedSend, SendBlocked> {
        self.socket.send_cut(&self.to, slices, size)
    }
}

impl DatagramSeal {
    /// A port that seals.
    #[inline]
    const fn port<'a>(&'a mut self, path: &'a UdpPath) -> SealingPort<'a, &'a UdpPath> {
        SealingPort { outgoing: &mut self.outgoing, port: path }
    }
}

impl Connection {
    pub(super) fn new(
        numbers: [ConnectionNumber; 2],
        at: SocketAddr,
        socket: &Arc<DatagramSocket>,
        conn: DataPath,
    ) -> Self {
        let [number, to] = numbers;
        let path = UdpPath { socket: Arc::clone(socket), to: at.into() };
        let end = ConnectionEnd::new(conn);
        Self { number, to, at, path, seals: None, goodbye_sent: Vec::new(), end }
    }

    /// The same, whose datagrams are sealed if there are keys.
    pub(super) fn sealed(mut self, keys: Option<SealKeys>) -> Self {
        self.seals = keys.map(|keys| Box::new(DatagramSeal::new(keys)));
        if let (Some(_), Some(conn)) = (&self.seals, self.end.open()) {
            conn.seals();
        }
        self
    }

    /// Whether its datagrams are sealed.
    pub(super) const fn is_sealed(&self) -> bool {
        self.seals.is_some()
    }

    /// Whether what comes from there is its peer's.
    #[inline]
    pub(super) fn is_at(&self, from: SocketAddr) -> bool {
        self.at == from || planted(Fault::SourceIgnored)
    }

    /// Whether it believes what has come so.
    #[inline]
    pub(super) fn accepts(&self, protection: Protection) -> bool {
        !self.is_sealed() || protection == Protection::Sealed || planted(Fault::PlainBelieved)
    }

    /// Opens a datagram in place. `None`: it is not sealed here.
    #[inline]
    pub(super) fn open(&mut self, datagram: &mut [u8]) -> Option<Result<(), SealError>> {
        self.seals.as_mut().map(|seals| seals.open(datagram))
    }

    /// Bytes before and behind those of a window.
    pub(super) const fn edges(&self) -> [usize; 2] {
        if self.is_sealed() { EDGES } else { [DATAGRAM_HEAD, 0] }
    }

    /// Whether it is one of a group.
    pub(super) fn is_member(&self) -> bool {
        self.at.ip().is_multicast()
    }

    pub(super) fn socket(&self) -> &Arc<DatagramSocket> {
        &self.path.socket
    }

    /// Takes a descriptor. Whether it has to wait for room, and nothing did before.
    #[inline]
    pub(super) fn post(&mut self, posted: Posted, notices: &mut Notices) -> Result<bool, Unposted> {
        let (conn, posted) = self.end.admit(posted)?;
        let was_stuck = conn.is_stuck();
        let path = &self.path;
        let is_stuck = match &mut self.seals {
            None => conn.post(posted, &mut &*path, notices)?,
            Some(seals) => conn.post(posted, &mut seals.port(path), notices)?,
        };
        Ok(is_stuck && !was_stuck)
    }

    /// Goes on with what waits for room. Whether something still does.
    pub(super) fn pump(&mut self, notices: &mut Notices) -> bool {
        let Some(conn) = self.end.open() else { return false };
        match &mut self.seals {
            None => conn.pump(&mut &self.path, notices),
            Some(seals) => conn.pump(&mut seals.port(&self.path), notices),
        }
        conn.is_stuck()
    }

    /// A message arrived, or a part of one.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        from: u64,
        piece: &UdpPiece<'_>,
        notices: &mut Notices,
    ) -> Option<PieceOutcome> {
        let conn = self.end.open()?;
        conn.hear();
        Some(conn.arrive(from, piece, notices))
    }

    /// The peer lives.
    pub(super) fn hear(&mut self) {
        if let Some(conn) = self.end.open() {
            conn.hear();
        }
    }

    /// Some time has passed: asks whether the peer lives, or says why it does not.
    pub(super) fn keep_alive_tick(&mut self) -> Option<ViError> {
        match self.end.open()?.keep_alive_tick() {
            Ok(asks) => {
                if asks {
                    self.say(&UdpHead::probe(self.to));
                }
                None
            }
            Err(why) => Some(why),
        }
    }

    /// Says something to the peer, or loses it.
    pub(super) fn say(&mut self, head: &UdpHead) {
        let _ = match &mut self.seals {
            None => (&self.path).send_small(head.bytes()),
            Some(seals) => seals.port(&self.path).send_small(head.bytes()),
        };
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        self.end.open().is_some_and(|conn| conn.cancel(ticket, notices))
    }

    /// Ends it, for this reason, and tells the peer if that is news to it.
    pub(super) fn close(&mut self, why: &ViError, notices: &mut Notices) {
        let reason = match why {
            ViError::Closed => Some(GoodbyeReason::Closed),
            ViError::NicDown => Some(GoodbyeReason::NicDown),
            _ => None,
        };
        let was_open = self.end.end(why, notices).is_some();
        if let Some(why) = reason.filter(|_| was_open && !self.is_member()) {
            let goodbye = UdpHead::goodbye(self.to, why);
            self.goodbye_sent = match &mut self.seals {
                None => goodbye.bytes().to_vec(),
                Some(seals) => seals.outgoing.seal_small(goodbye.bytes()).to_vec(),
            };
            let _ = (&self.path).send_small(&self.goodbye_sent);
        }
        if was_open {
            self.seals = None;
        }
    }

    /// Bytes of a datagram that the path carries.
    pub(super) fn room(&self) -> usize {
        self.end.if_open().map_or(0, DataPath::room)
    }

    /// The path may carry less than is known.
    pub(super) fn doubt(&mut self) {
        if let Some(conn) = self.end.open() {
            conn.doubt();
        }
    }

    /// Whether it is open, and its datagrams are those of a window.
    #[inline]
    pub(super) fn is_windowed(&self) -> bool {
        self.end.if_open().is_some_and(DataPath::is_windowed)
    }

    /// Sends datagrams of a window. How many bytes have left, and whether nothing waited for room
    /// before.
    #[inline]
    pub(super) fn send_train(&mut self, train: &mut [u8], size: usize) -> (usize, bool) {
        let Some(conn) = self.end.open() else { return (train.len(), false) };
        let was_stuck = conn.is_stuck();
        let seal = self.seals.as_mut().map(|seals| &mut seals.outgoing);
        let left = conn.send_train(train, size, seal, &mut &self.path);
        (left, left < train.len() && !was_stuck)
    }
}
