//! Another nic that runs handshakes, as honest as its datagrams are left.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::super::wire::{self, ConnectionNumber, UdpDatagram, UdpHead};
use crate::fabric::handshake::{Callee, Caller, CallerRequest, Credentials, HandshakeEvent};
use crate::vi::{Hello, PublicKey, Reliability};

pub(super) struct Peer {
    credentials: Credentials,
    /// The key of the nic that it starts a handshake.
    key: PublicKey,
    /// Whom it is for a nic that it starts a handshake, and the token that is right for it.
    caller: Option<(ConnectionNumber, Caller, u64)>,
    scripted: u64,
    /// And for one that starts a handshake it.
    callee: Option<(ConnectionNumber, Callee)>,
}

/// What it gives to its callers.
const TOKEN: u64 = 5;
/// Where it listens as a callee.
const OWN: ConnectionNumber = ConnectionNumber(0x0303_0303_0303_0303);

impl Peer {
    pub(super) const AT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7);

    pub(super) const fn new(credentials: Credentials, key: PublicKey) -> Self {
        Self { credentials, key, caller: None, scripted: 0, callee: None }
    }

    /// The key that it proves.
    pub(super) const fn own_key(&self) -> PublicKey {
        self.credentials.key()
    }

    /// Makes an attempt, with the token that is right for a number, or goes on with a handshake.
    pub(super) fn start_handshake(
        &mut self,
        token: impl FnOnce(ConnectionNumber) -> u64,
        how: u8,
    ) -> Vec<u8> {
        if self.caller.is_none() || how >= 224 {
            self.scripted += 1;
            let theirs = ConnectionNumber(self.scripted);
            let (service, tag) = (if how % 8 == 7 { "none" } else { "fuzz" }.to_owned(), 0);
            let hello = Hello { reliability: Reliability::Unreliable, service, tag };
            let (terms, key) = (theirs.0.to_le_bytes().to_vec(), Some(self.key));
            let wanted = CallerRequest { hello, terms, key, is_plain: true };
            let caller = Caller::new(self.credentials.clone(), wanted);
            self.caller = Some((theirs, caller, token(theirs)));
        }
        let (theirs, caller, right) = self.caller.as_mut().expect("made just now");
        if caller.outgoing().is_empty() {
            caller.repeat();
        }
        let token = if how % 8 == 6 { 0 } else { *right };
        let step = caller.outgoing();
        let (bytes, len) = (wire::start_handshake(token, *theirs, step), step.len());
        caller.sent(len);
        bytes
    }

    /// Hears what the nic answers.
    pub(super) fn answered(&mut self, datagram: &[u8]) {
        if let (Ok(UdpDatagram::Answer { to, stream, .. }), Some((theirs, caller, _))) =
            (UdpDatagram::decode(datagram), &mut self.caller)
            && to == *theirs
            && !stream.is_empty()
            && !caller.has_heard(stream)
            && !matches!(caller.feed(stream).map(|fed| fed.news), Ok(HandshakeEvent::Nothing))
        {
            self.caller = None;
        }
    }

    /// Answers a handshake of the nic, if it is one.
    pub(super) fn answer(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        let Ok(UdpDatagram::Handshake { token, from, stream }) = UdpDatagram::decode(datagram)
        else {
            return None;
        };
        if token != TOKEN {
            return Some(UdpHead::token(from, TOKEN).bytes().to_vec());
        }
        if self.callee.as_ref().is_none_or(|(known, _)| *known != from) {
            self.callee = Some((from, Callee::new(self.credentials.clone(), true)));
        }
        let (_, callee) = self.callee.as_mut()?;
        if callee.has_heard(stream) {
            callee.repeat();
        } else {
            let news = callee.feed(stream).map(|fed| fed.news);
            if let Ok(HandshakeEvent::Hello { .. }) = news {
                callee.welcome(&OWN.0.to_le_bytes());
            }
        }
        let bytes = wire::answer(from, OWN, false, callee.outgoing());
        let len = callee.outgoing().len();
        callee.sent(len);
        Some(bytes)
    }
}
