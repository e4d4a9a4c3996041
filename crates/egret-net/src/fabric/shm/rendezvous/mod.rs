//! How two processes of one machine meet: they find each other by name, prove
//! who they are, exchange descriptors, and learn of each other's death.
//!
//! A nic opens an [`Acceptor`], a socket whose name is its user and its host. A
//! connecting nic [knocks](Knock): the two [greet](crate::fabric::greet) each other, and it sends a
//! [`Greeting`] with the descriptors of the memory to meet in. The acceptor makes a [`Visitor`] of it, to be accepted
//! with descriptors of its own, or refused. From then on both have a
//! [`Control`], the same socket, kept for the life of the connection: regions
//! and names travel over it, a farewell if there is time for one, and if there
//! is none the kernel closes it, which the other end sees at once.
//!
//! ```text
//!   connecting nic                                     listening nic
//!   Knock::start ── Opening ─────────────────────────────▶ Acceptor::poll_visitor
//!   Knock::poll  ◀── Opening ───────────────────────────── Acceptor::poll_visitor
//!                ── Asking, Greeting, control, bell ──────▶ Acceptor::poll_visitor
//!   Knock::poll  ◀── Welcome, terms, control, bell ─────── Visitor::accept
//!                ◀── Refusal, why ──────────────────────── Visitor::refuse
//!   Control      ◀── Region + memfd · Kind · Goodbye ────▶ Control
//! ```
//!
//! What always holds here:
//!
//! * Nothing blocks, and nothing raises a signal.
//! * Both ends belong to one user of one user namespace, as the kernel says. The names
//!   have no permissions, so anyone can take one; nobody is talked to because of it, and who
//!   cannot have a name is told that another user has it.
//! * They cooperate only if both have said so, each after its own checks; see
//!   [`trust`].
//! * Whatever arrives costs at most a packet of memory, and every descriptor in
//!   it is used or closed. So [many](acceptor::CROWD) visitors are waited for, of all
//!   processes and of one, each until a moment that the caller names.
//! * Nothing stays in a file system; a name is gone with its process.

mod acceptor;
mod control;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod greeting;
mod holder;
mod knock;
mod message;
mod name;
mod peer;
mod pidfd;
mod socket;
#[cfg(test)]
mod tests;
mod trust;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::fuzz::fuzz_packet;
pub(crate) use self::{
    acceptor::{Acceptor, AcceptorError, Visitor},
    control::{Control, ControlError},
    greeting::{Handles, Terms},
    holder::other_holder,
    knock::{Accepted, Answered, Call, Knock, KnockError, Started},
    message::Message,
    peer::Peer,
    socket::Sent,
    trust::Stance,
};
#[cfg(test)]
use crate::fabric::hub::{Refusal, bytes::Malformed, farewell::Farewell};

#[cfg(test)]
use self::{
    acceptor::{CROWD, HANDSHAKES_AT_ONCE, Turned, TurnedAway},
    name::NameTooLong,
    peer::OtherUser,
};
