//! Groups: what one member sends is for all others.
//!
//! Members of a group run no handshake. With a secret each datagram is signed, and others are dropped. Which
//! messages have arrived is known for the members that sent last; a message of another member, or one from
//! before this end has joined, can be replayed by an attacker that has recorded it.

use std::io::IoSlice;

use sha2::{Digest, Sha256};

use super::fault::{Fault, planted};
use super::recv::{PieceOutcome, UdpAssembly};
use super::wire::{SIGNATURE, UdpHead, UdpPiece};
use crate::fabric::receives::ReceiveSizes;
use crate::rt;
use crate::vi::{Address, Notices, Posted, Secret, Ticket};

/// How a member marks and signs its datagrams.
#[derive(Debug, Clone)]
pub(super) struct GroupSeal {
    /// Which group: other services may share its address.
    pub group: u64,
    /// Which member, chosen at random.
    pub from: u64,
    secret: Option<Secret>,
}

impl GroupSeal {
    pub(super) fn new(group: &Address, secret: &Secret) -> Self {
        let secret = Some(secret.clone()).filter(|secret| !secret.is_empty());
        Self { group: number_of(group), from: rt::random(), secret }
    }

    pub(super) const fn is_signed(&self) -> bool {
        self.secret.is_some()
    }

    pub(super) fn head(&self, piece: &UdpPiece<'_>) -> UdpHead {
        UdpHead::of_group(self.group, self.from, self.is_signed(), piece)
    }

    /// The signature of a datagram, if there is a secret.
    pub(super) fn sign(&self, slices: &[IoSlice<'_>]) -> Option<[u8; SIGNATURE]> {
        let secret = self.secret.as_ref()?;
        Some(secret.sign(slices.iter().map(|slice| &**slice)))
    }

    /// Whether a datagram of `signed` bytes is of a member.
    pub(super) fn admits(&self, signed: &[u8], signature: Option<&[u8; SIGNATURE]>) -> bool {
        let is_right = match (&self.secret, signature) {
            (None, None) => true,
            (Some(secret), Some(signature)) => secret.has_signed(signed, signature),
            _ => false,
        };
        is_right || planted(Fault::SignatureIgnored)
    }
}

/// The number of a service's group.
fn number_of(group: &Address) -> u64 {
    let mut hash = Sha256::new();
    hash.update(group.tag.to_le_bytes());
    hash.update(&group.service);
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(hash.finalize());
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// The members that have sent lately, the last one last.
#[derive(Debug, Default)]
pub(super) struct GroupMembers(Vec<(u64, UdpAssembly)>);

/// Members whose messages are told apart.
pub(super) const MEMBERS_MAX: usize = 64;

impl GroupMembers {
    pub(super) fn begun(&self) -> usize {
        self.0.iter().map(|(_, assembly)| assembly.begun()).sum()
    }

    pub(super) fn take(
        &mut self,
        from: u64,
        piece: &UdpPiece<'_>,
        receives: &mut ReceiveSizes,
        notices: &mut Notices,
    ) -> PieceOutcome {
        let assembly = match self.0.iter().rposition(|(known, _)| *known == from) {
            Some(at) => self.0.remove(at).1,
            None => {
                if self.0.len() >= MEMBERS_MAX {
                    self.0.remove(0).1.abandon(receives);
                }
                UdpAssembly::default()
            }
        };
        self.0.push((from, assembly));
        let (_, assembly) = self.0.last_mut().expect("just pushed");
        assembly.take(piece, receives, notices)
    }

    pub(super) fn keep_alive_tick(&mut self, receives: &mut ReceiveSizes) -> u64 {
        self.0.iter_mut().map(|(_, assembly)| assembly.keep_alive_tick(receives)).sum()
    }

    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        self.0.iter_mut().find_map(|(_, assembly)| assembly.cancel(ticket))
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Posted> + '_ {
        self.0.iter_mut().flat_map(|(_, assembly)| assembly.drain())
    }
}
