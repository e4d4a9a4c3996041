//! What becomes of a datagram: the connection it is for, and whether it may be.

use std::net::SocketAddr;
use std::ops::Range;

use rustix::net::SocketAddrAny;
use tracing::trace;

use super::connection::{Connection, Protection};
use super::driver::{Driver, GroupMembership};
use super::nic_context::UdpNicContext;
use super::sealed;
use super::socket::{UNDELIVERED_AT_ONCE, UndeliveredDatagram};
use super::wire::{ConnectionNumber, GoodbyeReason, SIGNATURE, UdpDatagram, UdpHead, UdpPiece};
use crate::fabric::seal::{SealError, TAG};
use crate::fabric::{After, ConnId, DATAGRAM_HEAD};
use crate::vi::ViError;

/// Counts of datagrams that were dropped, by [reason](DropReason). The log has them at the level `trace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct DroppedDatagrams {
    pub garbage: u64,
    pub unknown: u64,
    pub strangers: u64,
    pub tokenless: u64,
    pub unsigned: u64,
    pub unsealed: u64,
    pub forged: u64,
    pub repeated: u64,
}

/// Why a datagram was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DropReason {
    /// Not a datagram of egret, or not for this kind of socket.
    Garbage,
    /// To a number that no connection has here.
    Unknown,
    /// To the number of a connection, from an address that is not its peer's.
    Stranger,
    /// A handshake step without its token.
    Tokenless,
    /// To a group, and not signed by a member.
    Unsigned,
    /// To a sealed connection, and not sealed.
    Unsealed,
    /// Sealed, and not by the peer, or changed on the way.
    Forged,
    /// Sealed, and received before, or too old to tell.
    Repeated,
}

impl DroppedDatagrams {
    #[cold]
    fn count(&mut self, why: DropReason) {
        let count = match why {
            DropReason::Garbage => &mut self.garbage,
            DropReason::Unknown => &mut self.unknown,
            DropReason::Stranger => &mut self.strangers,
            DropReason::Tokenless => &mut self.tokenless,
            DropReason::Unsigned => &mut self.unsigned,
            DropReason::Unsealed => &mut self.unsealed,
            DropReason::Forged => &mut self.forged,
            DropReason::Repeated => &mut self.repeated,
        };
        *count += 1;
        trace!("udp: a datagram was dropped: {why:?} ({count} of that reason so far)");
    }
}

/// The range of the bytes for a window, and their connection.
type WindowBytes = (ConnId, Range<usize>);

/// A datagram for no connection of this nic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnknownConnection;

const FORGOTTEN: ViError = ViError::PeerDied { why: "it no longer knows the connection" };
const NOBODY: ViError = ViError::PeerDied { why: "no process receives at its address" };
const NIC_DOWN: ViError = ViError::PeerDied { why: "its nic went down" };

impl Driver {
    /// Processes a datagram that arrived at the nic's socket.
    #[inline]
    pub(super) fn hear(&mut self, bytes: &mut [u8], from: &SocketAddrAny, after: &mut After) {
        match UdpDatagram::decode(bytes) {
            Ok(UdpDatagram::Window { to, .. }) => {
                self.window(to, Protection::Plain, from);
            }
            Ok(UdpDatagram::Sealed { to }) => {
                let _ = self.sealed(to, bytes, from, after);
            }
            Ok(datagram) => {
                self.handle(&datagram, Protection::Plain, from, after);
            }
            Err(_) => self.tally.count(DropReason::Garbage),
        }
    }

    /// Processes the first of several datagrams of one sender that were received together: how many bytes it
    /// has, and what a window gets of it. Behind a datagram that is malformed, or for no connection, the rest
    /// is dropped: many short datagrams in one would be answered one by one.
    #[inline]
    pub(super) fn hear_first(
        &mut self,
        bytes: &mut [u8],
        from: &SocketAddrAny,
        after: &mut After,
    ) -> (usize, Option<WindowBytes>) {
        match UdpDatagram::first(bytes) {
            Ok((UdpDatagram::Window { to, .. }, len)) => {
                if let Some(conn) = self.window(to, Protection::Plain, from) {
                    return (len, Some((conn, DATAGRAM_HEAD..len)));
                }
            }
            Ok((UdpDatagram::Sealed { to }, len)) => {
                if let Ok(given) = self.sealed(to, &mut bytes[..len], from, after) {
                    return (len, given);
                }
            }
            Ok((datagram, len)) => {
                if self.handle(&datagram, Protection::Plain, from, after) {
                    return (len, None);
                }
            }
            Err(_) => self.tally.count(DropReason::Garbage),
        }
        (bytes.len(), None)
    }

    /// Opens a sealed datagram in place, and processes it. What a window gets of it; those behind one that
    /// does not open are processed, as nothing is answered.
    fn sealed(
        &mut self,
        to: ConnectionNumber,
        bytes: &mut [u8],
        from: &SocketAddrAny,
        after: &mut After,
    ) -> Result<Option<WindowBytes>, UnknownConnection> {
        if !self.unseal(to, bytes, from)? {
            return Ok(None);
        }
        let end = bytes.len() - TAG;
        match UdpDatagram::decode(&bytes[sealed::BEFORE..end]) {
            Ok(UdpDatagram::Window { to, .. }) => {
                let conn = self.window(to, Protection::Sealed, from);
                return Ok(conn.map(|conn| (conn, sealed::EDGES[0]..end)));
            }
            Ok(
                datagram @ (UdpDatagram::Piece { .. }
                | UdpDatagram::Probe { .. }
                | UdpDatagram::Alive { .. }
                | UdpDatagram::Goodbye { .. }),
            ) => {
                self.handle(&datagram, Protection::Sealed, from, after);
            }
            // A correct peer seals nothing else.
            _ => self.tally.count(DropReason::Garbage),
        }
        Ok(None)
    }

    /// Opens a datagram of the connection with this number. Whether it opens.
    fn unseal(
        &mut self,
        to: ConnectionNumber,
        bytes: &mut [u8],
        from: &SocketAddrAny,
    ) -> Result<bool, UnknownConnection> {
        let at = SocketAddr::try_from(from.clone()).map_err(|_| UnknownConnection)?;
        let Some(link) = self.links.open.get_mut(&to) else {
            self.answer_unknown(to, at, bytes.len());
            return Err(UnknownConnection);
        };
        if !link.is_at(at) {
            self.tally.count(DropReason::Stranger);
            return Err(UnknownConnection);
        }
        let tally = &mut self.tally;
        match link.open(bytes) {
            Some(Ok(())) => return Ok(true),
            Some(Err(SealError::Repeated | SealError::Old)) => tally.count(DropReason::Repeated),
            Some(Err(SealError::Forged | SealError::Far | SealError::Worn)) => {
                tally.count(DropReason::Forged);
            }
            None => tally.count(DropReason::Garbage),
        }
        Ok(false)
    }

    /// Passes a datagram to the window of a connection.
    #[inline]
    fn window(
        &mut self,
        to: ConnectionNumber,
        protection: Protection,
        from: &SocketAddrAny,
    ) -> Option<ConnId> {
        let is_last =
            |(number, at): &(ConnectionNumber, SocketAddrAny)| (*number, at) == (to, from);
        if !self.last.as_ref().is_some_and(is_last) {
            self.addressed(to, protection, SocketAddr::try_from(from.clone()).ok()?)?;
            self.last = Some((to, from.clone()));
        }
        let link = self.links.open.get_mut(&to)?;
        if !link.accepts(protection) {
            self.tally.count(DropReason::Unsealed);
            return None;
        }
        link.hear();
        if !link.is_windowed() {
            self.tally.count(DropReason::Garbage);
            return None;
        }
        Some(ConnId(to.0))
    }

    /// Passes a piece of a message to its connection. Whether there is one.
    #[inline]
    fn piece(
        &mut self,
        to: ConnectionNumber,
        (piece, protection): (&UdpPiece<'_>, Protection),
        from: &SocketAddrAny,
        after: &mut After,
    ) -> bool {
        if let Some((number, at)) = &self.last
            && (*number, at) == (to, from)
            && let Some(link) = self.links.open.get_mut(&to)
            && link.accepts(protection)
        {
            link.arrive(0, piece, &mut after.notices);
            return true;
        }
        let Ok(at) = SocketAddr::try_from(from.clone()) else { return false };
        let Some(link) = self.addressed(to, protection, at) else { return false };
        link.arrive(0, piece, &mut after.notices);
        self.last = Some((to, from.clone()));
        true
    }

    /// The connection with this number, if its peer is at `from`.
    fn addressed(
        &mut self,
        to: ConnectionNumber,
        protection: Protection,
        from: SocketAddr,
    ) -> Option<&mut Connection> {
        if !self.links.open.contains_key(&to) {
            self.answer_unknown(to, from, DATAGRAM_HEAD);
            return None;
        }
        let Self { links, acceptor, tally, .. } = self;
        match links.open.get_mut(&to) {
            Some(link) if link.is_at(from) && !link.accepts(protection) => {
                tally.count(DropReason::Unsealed);
                None
            }
            Some(link) if link.is_at(from) => {
                acceptor.settled(link.at, link.to);
                Some(link)
            }
            _ => {
                tally.count(DropReason::Stranger);
                None
            }
        }
    }

    /// Answers a datagram of so many bytes for a number that no connection has here, with no more bytes.
    fn answer_unknown(&mut self, to: ConnectionNumber, from: SocketAddr, heard: usize) {
        // The welcome of this connection may be under way.
        if self.connectors.contains_key(&to) {
            return;
        }
        self.tally.count(DropReason::Unknown);
        match self.closings.answer(to, from).filter(|handle| handle.len() <= heard) {
            Some(handle) => say(&self.fixed, from, handle),
            None => say(&self.fixed, from, UdpHead::unknown(to).bytes()),
        }
    }

    /// Processes a datagram that is not for a window. Whether the datagrams behind it may be processed.
    #[inline]
    fn handle(
        &mut self,
        datagram: &UdpDatagram<'_>,
        protection: Protection,
        from: &SocketAddrAny,
        after: &mut After,
    ) -> bool {
        if let UdpDatagram::Piece { to, piece } = datagram {
            return self.piece(*to, (piece, protection), from, after);
        }
        match SocketAddr::try_from(from.clone()) {
            Ok(from) => self.handle_control(datagram, protection, from, after),
            Err(_) => {
                self.tally.count(DropReason::Garbage);
                false
            }
        }
    }

    /// Processes a datagram without bytes of a message.
    fn handle_control(
        &mut self,
        datagram: &UdpDatagram<'_>,
        protection: Protection,
        from: SocketAddr,
        after: &mut After,
    ) -> bool {
        match *datagram {
            UdpDatagram::Probe { to } | UdpDatagram::Alive { to } => {
                let Some(link) = self.addressed(to, protection, from) else { return false };
                link.hear();
                if matches!(datagram, UdpDatagram::Probe { .. }) {
                    let alive = UdpHead::alive(link.to);
                    link.say(&alive);
                }
            }
            UdpDatagram::Goodbye { to, why } => self.goodbye(to, (why, protection), from, after),
            UdpDatagram::Unknown { number } => self.unknown(number, from, after),
            UdpDatagram::Handshake { token, from: theirs, stream } => {
                self.handshake_done((from, theirs), (token, stream), after);
            }
            UdpDatagram::Token { to, token } => {
                if let Some(connector) = self.connectors.get_mut(&to) {
                    connector.given(token, from, &self.fixed.socket);
                }
            }
            UdpDatagram::Answer { to, from: theirs, waits, stream } => {
                let Some(connector) = self.connectors.get_mut(&to) else { return true };
                let handle = ((theirs, waits), stream);
                let outcome = connector.answered(from, handle, &self.fixed.socket, after.now());
                self.settle_attempt(to, outcome, after);
            }
            // Groups have sockets of their own.
            UdpDatagram::Piece { .. }
            | UdpDatagram::Window { .. }
            | UdpDatagram::Sealed { .. }
            | UdpDatagram::Group { .. } => {
                self.tally.count(DropReason::Garbage);
                return false;
            }
        }
        true
    }

    fn goodbye(
        &mut self,
        to: ConnectionNumber,
        (why, protection): (GoodbyeReason, Protection),
        from: SocketAddr,
        after: &mut After,
    ) {
        match self.links.open.get(&to) {
            Some(link) if link.is_at(from) && !link.accepts(protection) => {
                self.tally.count(DropReason::Unsealed);
            }
            Some(link) if link.is_at(from) => {
                let why = match why {
                    GoodbyeReason::Closed => ViError::ClosedByPeer,
                    GoodbyeReason::NicDown => NIC_DOWN,
                };
                self.acceptor.settled(link.at, link.to);
                self.end(to, &why, after);
            }
            Some(_) => self.tally.count(DropReason::Stranger),
            // No answer: two sides would answer each other for ever.
            None => self.acceptor.left(from, to),
        }
    }

    fn unknown(&mut self, number: ConnectionNumber, from: SocketAddr, after: &mut After) {
        if let Some(own) = self.by_peer.get(&(from, number)).copied() {
            self.end_unless_sealed(own, &FORGOTTEN, after);
        } else if let Some(connector) = self.connectors.get_mut(&number) {
            connector.forgotten(from, &self.fixed.socket);
        } else {
            self.tally.count(DropReason::Unknown);
        }
    }

    /// Closes a connection because an unproven datagram says that its peer has gone; not a sealed one, which
    /// ends by silence if that is true.
    fn end_unless_sealed(&mut self, own: ConnectionNumber, why: &ViError, after: &mut After) {
        match self.links.open.get(&own) {
            Some(link) if !link.accepts(Protection::Plain) => {
                self.tally.count(DropReason::Unsealed);
            }
            _ => self.end(own, why, after),
        }
    }

    fn handshake_done(
        &mut self,
        who: (SocketAddr, ConnectionNumber),
        what: (u64, &[u8]),
        after: &mut After,
    ) {
        match self.acceptor.handshake_done(
            who,
            what,
            (&self.fixed.credentials, &self.fixed.socket),
            after.now(),
        ) {
            Ok(Some(visitor)) => self.listeners.arrived(visitor, after),
            Ok(None) => {}
            Err(_) => self.tally.count(DropReason::Tokenless),
        }
    }

    /// Reads from the system which datagrams were not delivered. The quoted part of a datagram must have the
    /// number of the peer, which no other host knows.
    #[cold]
    pub(super) fn handle_undelivered_datagrams(&mut self, after: &mut After) {
        self.groups.iter().for_each(GroupMembership::handle_undelivered_datagrams);
        for _ in 0..UNDELIVERED_AT_ONCE {
            let Some(undelivered) = self.fixed.socket.undelivered() else { return };
            self.handle_undelivered(&undelivered, after);
        }
    }

    pub(super) fn handle_undelivered(
        &mut self,
        undelivered: &UndeliveredDatagram,
        after: &mut After,
    ) {
        let Some(number) = number_in(&undelivered.bytes) else { return };
        if let Some(own) = self.by_peer.get(&(undelivered.to, number)).copied() {
            self.end_unless_sealed(own, &NOBODY, after);
        }
    }
}

/// The number that a datagram of ours was for, if enough of it is quoted.
fn number_in(bytes: &[u8]) -> Option<ConnectionNumber> {
    let number = bytes.get(8..16)?;
    Some(ConnectionNumber(u64::from_le_bytes(number.try_into().ok()?)))
}

fn say(fixed: &UdpNicContext, to: SocketAddr, bytes: &[u8]) {
    let _ = fixed.socket.send_small(&to.into(), bytes);
}

impl GroupMembership {
    /// Drops errors of the system about datagrams to a group.
    pub(super) fn handle_undelivered_datagrams(&self) {
        while self.socket.undelivered().is_some() {}
    }

    /// Decodes a datagram that arrived at the group's socket: its sender and piece, if that is a member.
    pub(super) fn hear<'a>(
        &self,
        bytes: &'a [u8],
        tally: &mut DroppedDatagrams,
    ) -> Option<(u64, UdpPiece<'a>)> {
        let Ok(UdpDatagram::Group { group, from, signature, piece }) = UdpDatagram::decode(bytes)
        else {
            tally.count(DropReason::Garbage);
            return None;
        };
        if group != self.seal.group || from == self.seal.from {
            return None;
        }
        let signed = &bytes[..bytes.len() - signature.map_or(0, |_| SIGNATURE)];
        if !self.seal.admits(signed, signature) {
            tally.count(DropReason::Unsigned);
            return None;
        }
        Some((from, piece))
    }
}
