//! What a nic's set says is ready: the kinds of its [tokens](crate::fabric::hub::set::token).

/// Somebody connects.
pub(super) const ACCEPTOR: u8 = 1;
/// A connection.
pub(super) const LINK: u8 = 2;
/// A connection that this nic is making.
pub(super) const KNOCK: u8 = 3;
/// Somebody who has not greeted yet.
pub(super) const VISITOR: u8 = 4;
/// A connection that this nic has left.
pub(super) const LEAVING: u8 = 5;
