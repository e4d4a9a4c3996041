//! The kinds of epoll [tokens](crate::fabric::common::epoll::token) of a nic.

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
