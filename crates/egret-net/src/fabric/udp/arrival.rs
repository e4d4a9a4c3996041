//! What becomes of a datagram: whom it is for, and whether it may be.

use std::net::SocketAddr;
use std::ops::Range;

use rustix::net::SocketAddrAny;

use super::driver::{Driver, Fixed, Member};
use super::fault::{Fault, planted};
use super::link::{How, Link};
use super::sealed;
use super::socket::{TROUBLES_AT_ONCE, Trouble};
use super::wire::{Datagram, Farewell, Head, Number, Piece, SIGNATURE};
use crate::fabric::seal::{SealError, TAG};
use crate::fabric::{After, ConnId, DATAGRAM_HEAD};
use crate::vi::ViError;

/// Datagrams of which nothing came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// No datagrams of egret's, or not for this kind of socket.
    pub garbage: u64,
    /// To a number that nobody has here.
    pub unknown: u64,
    /// To somebody's number, from somebody else's address.
    pub strangers: u64,
    /// Greetings without their token.
    pub tokenless: u64,
    /// To a group, and not signed by a member.
    pub unsigned: u64,
    /// To a sealed connection, and not sealed.
    pub unsealed: u64,
    /// Sealed, and not by the peer, or changed on the way.
    pub forged: u64,
    /// Sealed, and heard before, or too old to tell.
    pub repeated: u64,
}

/// Where the bytes for a window lie, and whose they are.
type Given = (ConnId, Range<usize>);

/// A datagram that nobody is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Nobody;

const FORGOTTEN: ViError = ViError::PeerDied { why: "it no longer knows the connection" };
const NOBODY: ViError = ViError::PeerDied { why: "nobody receives at its address" };
const NIC_DOWN: ViError = ViError::PeerDied { why: "its nic went down" };

impl Driver {
    /// A datagram arrived at the nic's socket.
    #[inline]
    pub(super) fn hear(&mut self, bytes: &mut [u8], from: &SocketAddrAny, after: &mut After) {
        match Datagram::decode(bytes) {
            Ok(Datagram::Window { to, .. }) => {
                self.window(to, How::Plain, from);
            }
            Ok(Datagram::Sealed { to }) => {
                let _ = self.sealed(to, bytes, from, after);
            }
            Ok(datagram) => {
                self.said(&datagram, How::Plain, from, after);
            }
            Err(_) => self.tally.garbage += 1,
        }
    }

    /// Hears the first of datagrams that came together, which any of one sender may be: how many bytes
    /// are heard with it, and what a window is given of it. Behind what makes no sense, or
    /// is for nobody, the rest is dropped: many short datagrams in one would be answered one by one.
    #[inline]
    pub(super) fn hear_first(
        &mut self,
        bytes: &mut [u8],
        from: &SocketAddrAny,
        after: &mut After,
    ) -> (usize, Option<Given>) {
        match Datagram::first(bytes) {
            Ok((Datagram::Window { to, .. }, len)) => {
                if let Some(conn) = self.window(to, How::Plain, from) {
                    return (len, Some((conn, DATAGRAM_HEAD..len)));
                }
            }
            Ok((Datagram::Sealed { to }, len)) => {
                if let Ok(given) = self.sealed(to, &mut bytes[..len], from, after) {
                    return (len, given);
                }
            }
            Ok((datagram, len)) => {
                if self.said(&datagram, How::Plain, from, after) {
                    return (len, None);
                }
            }
            Err(_) => self.tally.garbage += 1,
        }
        (bytes.len(), None)
    }

    /// A sealed datagram: opens it where it lies, and hears what it says. What a window is given of
    /// it; behind one that does not open others are heard, as nobody is answered.
    fn sealed(
        &mut self,
        to: Number,
        bytes: &mut [u8],
        from: &SocketAddrAny,
        after: &mut After,
    ) -> Result<Option<Given>, Nobody> {
        if !self.unseal(to, bytes, from)? {
            return Ok(None);
        }
        let end = bytes.len() - TAG;
        match Datagram::decode(&bytes[sealed::BEFORE..end]) {
            Ok(Datagram::Window { to, .. }) => {
                let conn = self.window(to, How::Sealed, from);
                return Ok(conn.map(|conn| (conn, sealed::EDGES[0]..end)));
            }
            Ok(
                datagram @ (Datagram::Piece { .. }
                | Datagram::Probe { .. }
                | Datagram::Alive { .. }
                | Datagram::Goodbye { .. }),
            ) => {
                self.said(&datagram, How::Sealed, from, after);
            }
            // An honest peer seals nothing else.
            _ => self.tally.garbage += 1,
        }
        Ok(None)
    }

    /// Opens a datagram of the connection with this number. Whether it opens.
    fn unseal(
        &mut self,
        to: Number,
        bytes: &mut [u8],
        from: &SocketAddrAny,
    ) -> Result<bool, Nobody> {
        let at = SocketAddr::try_from(from.clone()).map_err(|_| Nobody)?;
        let Some(link) = self.links.open.get_mut(&to) else {
            self.nobody(to, at, bytes.len());
            return Err(Nobody);
        };
        if link.at != at && !planted(Fault::SourceIgnored) {
            self.tally.strangers += 1;
            return Err(Nobody);
        }
        let tally = &mut self.tally;
        match link.open(bytes) {
            Some(Ok(())) => return Ok(true),
            Some(Err(SealError::Repeated | SealError::Old)) => tally.repeated += 1,
            Some(Err(SealError::Forged | SealError::Far | SealError::Worn)) => tally.forged += 1,
            None => tally.garbage += 1,
        }
        Ok(false)
    }

    /// A datagram for the window of a connection.
    #[inline]
    fn window(&mut self, to: Number, how: How, from: &SocketAddrAny) -> Option<ConnId> {
        let is_last = |(number, at): &(Number, SocketAddrAny)| (*number, at) == (to, from);
        if !self.last.as_ref().is_some_and(is_last) {
            self.addressed(to, how, SocketAddr::try_from(from.clone()).ok()?)?;
            self.last = Some((to, from.clone()));
        }
        let link = self.links.open.get_mut(&to)?;
        if !link.believes(how) {
            self.tally.unsealed += 1;
            return None;
        }
        link.hear();
        if !link.is_windowed() {
            self.tally.garbage += 1;
            return None;
        }
        Some(ConnId(to.0))
    }

    /// A piece of a message. Whether it is for somebody.
    #[inline]
    fn piece(
        &mut self,
        to: Number,
        (piece, how): (&Piece<'_>, How),
        from: &SocketAddrAny,
        after: &mut After,
    ) -> bool {
        if let Some((number, at)) = &self.last
            && (*number, at) == (to, from)
            && let Some(link) = self.links.open.get_mut(&to)
            && link.believes(how)
        {
            link.arrive(0, piece, &mut after.notices);
            return true;
        }
        let Ok(at) = SocketAddr::try_from(from.clone()) else { return false };
        let Some(link) = self.addressed(to, how, at) else { return false };
        link.arrive(0, piece, &mut after.notices);
        self.last = Some((to, from.clone()));
        true
    }

    /// The connection with this number, if it is `from`'s.
    fn addressed(&mut self, to: Number, how: How, from: SocketAddr) -> Option<&mut Link> {
        if !self.links.open.contains_key(&to) {
            self.nobody(to, from, DATAGRAM_HEAD);
            return None;
        }
        let Self { links, acceptor, tally, .. } = self;
        match links.open.get_mut(&to) {
            Some(link) if link.at == from && !link.believes(how) => {
                tally.unsealed += 1;
                None
            }
            Some(link) if link.at == from || planted(Fault::SourceIgnored) => {
                acceptor.settled(link.at, link.to);
                Some(link)
            }
            _ => {
                tally.strangers += 1;
                None
            }
        }
    }

    /// Nobody has this number here: says so to who has sent so many bytes to it, in no more.
    fn nobody(&mut self, to: Number, from: SocketAddr, heard: usize) {
        // Its welcome may be on the way.
        if self.connectors.contains_key(&to) {
            return;
        }
        self.tally.unknown += 1;
        match self.leavings.answer(to, from).filter(|said| said.len() <= heard) {
            Some(said) => say(&self.fixed, from, said),
            None => say(&self.fixed, from, Head::unknown(to).bytes()),
        }
    }

    /// What is not for a window. Whether it is for somebody, or nobody is told that it is not.
    #[inline]
    fn said(
        &mut self,
        datagram: &Datagram<'_>,
        how: How,
        from: &SocketAddrAny,
        after: &mut After,
    ) -> bool {
        if let Datagram::Piece { to, piece } = datagram {
            return self.piece(*to, (piece, how), from, after);
        }
        match SocketAddr::try_from(from.clone()) {
            Ok(from) => self.said_otherwise(datagram, how, from, after),
            Err(_) => {
                self.tally.garbage += 1;
                false
            }
        }
    }

    /// What has no bytes of a message.
    fn said_otherwise(
        &mut self,
        datagram: &Datagram<'_>,
        how: How,
        from: SocketAddr,
        after: &mut After,
    ) -> bool {
        match *datagram {
            Datagram::Probe { to } | Datagram::Alive { to } => {
                let Some(link) = self.addressed(to, how, from) else { return false };
                link.hear();
                if matches!(datagram, Datagram::Probe { .. }) {
                    let alive = Head::alive(link.to);
                    link.say(&alive);
                }
            }
            Datagram::Goodbye { to, why } => self.goodbye(to, (why, how), from, after),
            Datagram::Unknown { number } => self.unknown(number, from, after),
            Datagram::Greet { token, from: theirs, stream } => {
                self.greeted((from, theirs), (token, stream), after);
            }
            Datagram::Token { to, token } => {
                if let Some(connector) = self.connectors.get_mut(&to) {
                    connector.given(token, from, &self.fixed.socket);
                }
            }
            Datagram::Answer { to, from: theirs, waits, stream } => {
                let Some(connector) = self.connectors.get_mut(&to) else { return true };
                let said = ((theirs, waits), stream);
                let outcome = connector.answered(from, said, &self.fixed.socket, after.now());
                self.knocked(to, outcome, after);
            }
            // Groups have sockets of their own.
            Datagram::Piece { .. }
            | Datagram::Window { .. }
            | Datagram::Sealed { .. }
            | Datagram::Group { .. } => {
                self.tally.garbage += 1;
                return false;
            }
        }
        true
    }

    fn goodbye(
        &mut self,
        to: Number,
        (why, how): (Farewell, How),
        from: SocketAddr,
        after: &mut After,
    ) {
        match self.links.open.get(&to) {
            Some(link) if link.at == from && !link.believes(how) => self.tally.unsealed += 1,
            Some(link) if link.at == from || planted(Fault::SourceIgnored) => {
                let why = match why {
                    Farewell::Closed => ViError::ClosedByPeer,
                    Farewell::NicDown => NIC_DOWN,
                };
                self.acceptor.settled(link.at, link.to);
                self.end(to, &why, after);
            }
            Some(_) => self.tally.strangers += 1,
            // Nothing is answered: two sides would go on for ever.
            None => self.acceptor.left(from, to),
        }
    }

    fn unknown(&mut self, number: Number, from: SocketAddr, after: &mut After) {
        if let Some(own) = self.by_peer.get(&(from, number)).copied() {
            self.hearsay(own, &FORGOTTEN, after);
        } else if let Some(connector) = self.connectors.get_mut(&number) {
            connector.forgotten(from, &self.fixed.socket);
        } else {
            self.tally.unknown += 1;
        }
    }

    /// Somebody says that the peer does not take part any more, and nobody can prove that. A sealed
    /// connection ends by silence if it is true.
    fn hearsay(&mut self, own: Number, why: &ViError, after: &mut After) {
        match self.links.open.get(&own) {
            Some(link) if !link.believes(How::Plain) => self.tally.unsealed += 1,
            _ => self.end(own, why, after),
        }
    }

    fn greeted(&mut self, who: (SocketAddr, Number), what: (u64, &[u8]), after: &mut After) {
        match self.acceptor.greeted(
            who,
            what,
            (&self.fixed.stance, &self.fixed.socket),
            after.now(),
        ) {
            Ok(Some(visitor)) => self.listeners.arrived(visitor, after),
            Ok(None) => {}
            Err(_) => self.tally.tokenless += 1,
        }
    }

    /// Hears from the system who does not receive any more. What comes back of our
    /// datagram must name the peer's number: nobody else knows it.
    #[cold]
    pub(super) fn hear_troubles(&mut self, after: &mut After) {
        self.groups.iter().for_each(Member::hear_troubles);
        for _ in 0..TROUBLES_AT_ONCE {
            let Some(trouble) = self.fixed.socket.trouble() else { return };
            self.heard_trouble(&trouble, after);
        }
    }

    pub(super) fn heard_trouble(&mut self, trouble: &Trouble, after: &mut After) {
        let Some(number) = number_in(&trouble.bytes) else { return };
        if let Some(own) = self.by_peer.get(&(trouble.to, number)).copied() {
            self.hearsay(own, &NOBODY, after);
        }
    }
}

/// The number that a datagram of ours was for, if all of its beginning is there.
fn number_in(bytes: &[u8]) -> Option<Number> {
    let number = bytes.get(8..16)?;
    Some(Number(u64::from_le_bytes(number.try_into().ok()?)))
}

fn say(fixed: &Fixed, to: SocketAddr, bytes: &[u8]) {
    let _ = fixed.socket.send_small(&to.into(), bytes);
}

impl Member {
    /// What the system says of datagrams to a group is of no use.
    pub(super) fn hear_troubles(&self) {
        while self.socket.trouble().is_some() {}
    }

    /// A datagram arrived at the group's socket: who says what, if it is a member.
    pub(super) fn hear<'a>(&self, bytes: &'a [u8], tally: &mut Tally) -> Option<(u64, Piece<'a>)> {
        let Ok(Datagram::Group { group, from, signature, piece }) = Datagram::decode(bytes) else {
            tally.garbage += 1;
            return None;
        };
        if group != self.seal.group || from == self.seal.from {
            return None;
        }
        let signed = &bytes[..bytes.len() - signature.map_or(0, |_| SIGNATURE)];
        if !self.seal.admits(signed, signature) {
            tally.unsigned += 1;
            return None;
        }
        Some((from, piece))
    }
}
