//! What the parts of a nic know of it: its name, its sets of descriptors, and what these sets say
//! is ready (the kinds of their [tokens](crate::fabric::common::epoll::token)).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;

use super::doorbell::SleepPolicy;
use super::rendezvous::ShmRequirements;
use crate::vi::{Keys, PublicKey};

/// The part of a nic that stays as it is.
#[derive(Debug)]
pub(super) struct ShmNicContext {
    pub host: String,
    pub keys: Arc<Keys>,
    /// The set of all that is looked at now and then.
    pub sockets: OwnedFd,
    /// The set of all that ends a sleep: the doorbells, and the other set. A sleeping thread waits on it;
    /// an awake one that polls it in its place wakes the sleeper.
    pub set: Arc<OwnedFd>,
    pub sleep_policy: SleepPolicy,
    pub stance: ShmRequirements,
}

impl ShmNicContext {
    /// The key that this nic proves in handshakes.
    pub(super) const fn key(&self) -> PublicKey {
        self.stance.key()
    }
}

/// A peer has connected to the acceptor.
pub(super) const ACCEPTOR: u8 = 1;
/// The control socket of a connection.
pub(super) const CONTROL: u8 = 2;
/// The doorbell of a connection.
pub(super) const DOORBELL: u8 = 3;
/// The end of the peer process of a connection.
pub(super) const ENDED: u8 = 4;
/// The answer to a handshake attempt.
pub(super) const HANDSHAKE: u8 = 5;
/// The set of the sockets, inside the set that ends a sleep.
pub(super) const SOCKETS: u8 = 6;

/// A signal is reported once, though the socket is not drained (edge-triggered).
pub(super) const DOORBELL_FLAGS: EventFlags = EventFlags::IN.union(EventFlags::ET);
