//! What a nic's sets say is ready: the kinds of their [tokens](crate::fabric::hub::set::token).

use rustix::event::epoll::EventFlags;

/// Somebody knocks.
pub(super) const ACCEPTOR: u8 = 1;
/// The control socket of a link.
pub(super) const CONTROL: u8 = 2;
/// The cord of a link.
pub(super) const CORD: u8 = 3;
/// The end of the process at the other end of a link.
pub(super) const ENDED: u8 = 4;
/// The answer to a knock.
pub(super) const KNOCK: u8 = 5;
/// Something of the set of the sockets.
pub(super) const SOCKETS: u8 = 6;

/// A pull is said once, though the cord is not drained.
pub(super) const CORD_FLAGS: EventFlags = EventFlags::IN.union(EventFlags::ET);
