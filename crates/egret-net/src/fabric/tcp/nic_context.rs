//! What the parts of a nic know of it: its name, its keys, its set of sockets, and what this set says
//! is ready (the kinds of its [tokens](crate::fabric::common::epoll::token)).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::fabric::handshake::Credentials;
use crate::fabric::seal;
use crate::vi::{Keys, PublicKey};

/// The part of a nic that does not change.
#[derive(Debug)]
pub(super) struct TcpNicContext {
    pub host: String,
    pub keys: Arc<Keys>,
    /// The epoll set of all sockets.
    pub set: Arc<OwnedFd>,
    pub credentials: Credentials,
    /// What connections are sealed by.
    pub seal: TestSeal,
}

impl TcpNicContext {
    /// The key that this nic proves in handshakes.
    pub(super) const fn key(&self) -> PublicKey {
        self.credentials.key()
    }
}

/// Keys for the connections of a nic that replace those of their handshakes, in tests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TestSeal {
    /// Whether fixed keys seal them, for tests.
    #[cfg(any(test, feature = "fuzzing"))]
    pub is_fixed: bool,
}

impl TestSeal {
    /// The keys of a connection that this side has asked for.
    pub(super) fn keys_of_caller(self) -> Option<seal::SealKeys> {
        #[cfg(any(test, feature = "fuzzing"))]
        if self.is_fixed {
            return Some(super::scripted_peer::keys_of_caller());
        }
        None
    }

    /// The keys of a connection that the other side has asked for.
    pub(super) fn keys_of_callee(self) -> Option<seal::SealKeys> {
        #[cfg(any(test, feature = "fuzzing"))]
        if self.is_fixed {
            return Some(super::scripted_peer::keys_of_callee());
        }
        None
    }
}

/// The listening socket.
pub(super) const ACCEPTOR: u8 = 1;
/// A connection.
pub(super) const CONNECTION: u8 = 2;
/// A connection that this nic is making.
pub(super) const CONNECTOR: u8 = 3;
/// A handshake of a caller.
pub(super) const HANDSHAKE: u8 = 4;
/// A connection that this nic has closed, and whose peer has not.
pub(super) const CLOSING: u8 = 5;
