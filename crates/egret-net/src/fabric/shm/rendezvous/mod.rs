//! How two processes of one machine meet: what both sides of a handshake say and check. The sides
//! themselves are [`acceptor`](super::acceptor) and [`connector`](super::connector).
//!
//! A nic opens an acceptor, a socket whose name is its user and its host. A connecting nic begins a
//! [handshake](crate::fabric::handshake) attempt there, and sends a [`ConnectOffer`] with the
//! descriptors of the memory to meet in. The acceptor makes a proven peer of it, which is accepted
//! with descriptors of the acceptor's own, or refused. From then on both have a [`ControlSocket`],
//! the same socket, kept for the life of the connection: regions and names travel over it, a close
//! reason if there is time for one, and if there is none the kernel closes it, which the other end
//! sees at once.
//!
//! ```text
//!   connecting nic                                            listening nic
//!   HandshakeAttempt::start ── Opening ─────────────────────────▶ Acceptor::poll_proven_peer
//!   HandshakeAttempt::poll  ◀── Opening ───────────────────────── Acceptor::poll_proven_peer
//!                           ── Asking, offer, memory, doorbell ─▶ Acceptor::poll_proven_peer
//!   HandshakeAttempt::poll  ◀── Welcome, offer, memory, doorbell  ShmProvenPeer::accept
//!                           ◀── Refusal, why ──────────────────── ShmProvenPeer::refuse
//!   ControlSocket           ◀── Region + memfd · Kind · Close ──▶ ControlSocket
//! ```
//!
//! What always holds here:
//!
//! * Nothing blocks, and nothing raises a signal.
//! * Both ends belong to one user of one user namespace, as the kernel says. The names
//!   have no permissions, so any user can take one. A name alone earns no trust; a nic that
//!   cannot have a name is told that another user has it.
//! * Two ends cooperate only if both have said so, each after its own checks; see
//!   [`trust`].
//! * Whatever arrives costs at most a packet of memory, and every descriptor in
//!   it is used or closed. The acceptor waits for a [bounded](super::acceptor::CROWD) number of
//!   unproven peers, of all processes and of one, each until a moment that the caller names.
//! * Nothing stays in a file system; a name is gone with its process.

mod control;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../../../../../fuzz/models/egret-net/fabric/shm/rendezvous/fuzz.rs"]
mod fuzz;
mod message;
mod name;
mod offer;
mod peer;
mod pidfd;
#[cfg(test)]
mod tests;
mod trust;

#[cfg(any(test, feature = "fuzzing"))]
pub(super) use self::fuzz::fuzz_packet;
pub(super) use self::{
    control::{ControlSocket, ControlSocketError},
    message::ControlMessage,
    name::{NameTooLong, address},
    offer::{AcceptOffer, ConnectOffer, OfferedDescriptors, SegmentTerms, hear},
    peer::{OtherUser, PeerProcess, own_user},
    trust::{CooperationReply, CooperationRequest, ShmRequirements},
};
