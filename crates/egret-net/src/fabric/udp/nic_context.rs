//! What the parts of a nic know of it: its name, its keys, its socket and its set of sockets.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::socket::DatagramSocket;
use crate::fabric::handshake::Credentials;
use crate::vi::{Keys, PublicKey};

/// The part of a nic that does not change.
#[derive(Debug)]
pub(super) struct UdpNicContext {
    pub host: String,
    pub keys: Arc<Keys>,
    pub socket: Arc<DatagramSocket>,
    pub set: Arc<OwnedFd>,
    pub credentials: Credentials,
}

impl UdpNicContext {
    /// The key that this nic proves in handshakes.
    pub(super) const fn key(&self) -> PublicKey {
        self.credentials.key()
    }
}
