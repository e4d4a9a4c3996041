//! An end of a connection, as its nic owns it.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;

use rustix::net::SocketAddrAny;

use super::datapath::Conn;
use super::recv::Came;
use super::send::{Port, Stuck};
use super::socket::{Cut, Socket};
use super::wire::{Farewell, Head, Number, Piece};
use crate::fabric::Unposted;
use crate::fabric::hub::end::End;
use crate::vi::{Notices, Posted, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Link {
    /// What the peer writes to; of a group, nothing.
    pub number: Number,
    /// What this end writes to.
    pub to: Number,
    pub at: SocketAddr,
    gate: Gate,
    pub end: End<Conn>,
}

/// The way to a peer.
#[derive(Debug)]
struct Gate {
    socket: Arc<Socket>,
    to: SocketAddrAny,
}

impl Port for &Gate {
    #[inline]
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Result<(), Stuck> {
        self.socket.send(&self.to, slices)
    }

    #[inline]
    fn send_small(&mut self, bytes: &[u8]) -> Result<(), Stuck> {
        self.socket.send_small(&self.to, bytes)
    }

    fn send_long(&mut self, bytes: &[u8]) -> Result<(), Stuck> {
        self.socket.send_long(&self.to, bytes)
    }

    fn cuts(&self) -> bool {
        self.socket.cuts()
    }

    fn send_cut(&mut self, slices: &[IoSlice<'_>], size: u16) -> Result<Cut, Stuck> {
        self.socket.send_cut(&self.to, slices, size)
    }
}

impl Link {
    pub(super) fn new(
        numbers: [Number; 2],
        at: SocketAddr,
        socket: &Arc<Socket>,
        conn: Conn,
    ) -> Self {
        let [number, to] = numbers;
        let gate = Gate { socket: Arc::clone(socket), to: at.into() };
        Self { number, to, at, gate, end: End::new(conn) }
    }

    /// Whether it is one of a group.
    pub(super) fn is_member(&self) -> bool {
        self.at.ip().is_multicast()
    }

    pub(super) fn socket(&self) -> &Arc<Socket> {
        &self.gate.socket
    }

    /// Takes a descriptor. Whether it has to wait for room, and nothing did before.
    #[inline]
    pub(super) fn post(&mut self, posted: Posted, notices: &mut Notices) -> Result<bool, Unposted> {
        let (conn, posted) = self.end.admit(posted)?;
        let was_stuck = conn.is_stuck();
        let is_stuck = conn.post(posted, &mut &self.gate, notices)?;
        Ok(is_stuck && !was_stuck)
    }

    /// Goes on with what waits for room. Whether something still does.
    pub(super) fn pump(&mut self, notices: &mut Notices) -> bool {
        let Some(conn) = self.end.open() else { return false };
        conn.pump(&mut &self.gate, notices);
        conn.is_stuck()
    }

    /// A message arrived, or a part of one.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        from: u64,
        piece: &Piece<'_>,
        notices: &mut Notices,
    ) -> Option<Came> {
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
    pub(super) fn beat(&mut self) -> Option<ViError> {
        match self.end.open()?.beat() {
            Ok(asks) => {
                if asks {
                    self.say(&Head::probe(self.to));
                }
                None
            }
            Err(why) => Some(why),
        }
    }

    /// Says something to the peer, or loses it.
    pub(super) fn say(&self, head: &Head) {
        let _ = (&self.gate).send(&[IoSlice::new(head.bytes())]);
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        self.end.open().is_some_and(|conn| conn.cancel(ticket, notices))
    }

    /// Ends it, for this reason, and tells the peer if that is news to it.
    pub(super) fn close(&mut self, why: &ViError, notices: &mut Notices) {
        let farewell = match why {
            ViError::Closed => Some(Farewell::Closed),
            ViError::NicDown => Some(Farewell::NicDown),
            _ => None,
        };
        let was_open = self.end.end(why, notices).is_some();
        if let Some(why) = farewell.filter(|_| was_open && !self.is_member()) {
            self.say(&Head::goodbye(self.to, why));
        }
    }

    /// Bytes of a datagram that the path carries.
    pub(super) fn room(&self) -> usize {
        self.end.if_open().map_or(0, Conn::room)
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
        self.end.if_open().is_some_and(Conn::is_windowed)
    }

    /// Sends datagrams of a window. How many bytes have left, and whether nothing waited for room
    /// before.
    #[inline]
    pub(super) fn send_train(&mut self, train: &mut [u8], size: usize) -> (usize, bool) {
        let Some(conn) = self.end.open() else { return (train.len(), false) };
        let was_stuck = conn.is_stuck();
        let left = conn.send_train(train, size, &mut &self.gate);
        (left, left < train.len() && !was_stuck)
    }
}
