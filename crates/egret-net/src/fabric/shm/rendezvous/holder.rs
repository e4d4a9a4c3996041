//! Who has a name that cannot be had.

use rustix::net::connect;

use super::knock::seqpacket;
use super::name::address;
use super::peer::{OtherUser, Peer};
use super::socket::Socket;

/// Says of a name that is taken whether another user has it. `None` if it is this user's, or if
/// nobody listens there.
///
/// Whoever has the name sees somebody connect and leave.
pub(crate) fn other_holder(host: &str) -> Option<OtherUser> {
    let socket = seqpacket().ok()?;
    connect(&socket, &address(host).ok()?).ok()?;
    Peer::of(&Socket::new(socket)).ok()?.check_user().err()
}
