//! Datagrams over IP, where loss and disorder are real.
//!
//! [`UdpFabric`] opens nics with a [window], which deliver everything once and in order on connections
//! of the level Delivery. Those of the unreliable level, and groups, have no window. [`UdpDatagrams`]
//! opens nics without one. The rest of this page is about the unreliable level.
//!
//! A nic has one socket. A message that fits what the path carries is one datagram, a
//! larger one several, put together in the memory that was posted for it. What is lost,
//! or finds no receive, is dropped; nothing arrives twice or in part. Ends run the handshake of
//! [`tcp`](super::tcp), and probe each other after some silence.
//!
//! | file | what it does |
//! |---|---|
//! | `nic.rs`, `machine.rs`, `driver.rs`, `nic_context.rs` | the nic, and its progress |
//! | `arrival.rs` | which connection a datagram is for |
//! | `acceptor.rs`, `connector.rs` | inbound and outbound connections that are being made |
//! | `connection.rs` | a connection, open or closed |
//! | `datapath.rs`, `send.rs`, `recv.rs`, `message_history.rs` | post and arrive, without socket or clock |
//! | `keep_alive.rs` | whether the peer is alive |
//! | `closing.rs` | goodbyes that are repeated after a connection is closed |
//! | `group.rs` | messages to all members of a group |
//! | `wire.rs` | the bytes (`docs/wire/udp.md`) |
//! | `sealed.rs` | the same of connections that are sealed |
//! | `socket.rs` | the socket, and what the system says of the path |
//! | `fuzz/models/…/scripted_peer.rs` | a network in memory, for tests and fuzzers |
//!
//! # Groups
//!
//! Connecting to a multicast address joins the group: what is sent goes to all members,
//! what any other member sends is received. Service and tag tell groups of one address
//! apart. There is no handshake, and no end but one's own; with a
//! [secret](crate::vi::Secret) each datagram is signed. None is encrypted.
//!
//! # What a stranger can do
//!
//! Numbers of connections are random, and a datagram counts only from the address of the
//! peer: an attacker that does not see the traffic can neither write to a connection nor close it. One
//! that sees the traffic can, unless the connection is sealed: then it can drop datagrams, and no more.
//! No answer is longer than the datagram that it answers, and no state is kept for a caller before it has
//! shown that it receives at its address. All else is dropped, and the log says why at the level `trace`.

mod acceptor;
mod arrival;
mod closing;
mod connection;
mod connector;
mod datapath;
mod driver;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[path = "../../../../../fuzz/models/egret-net/fabric/udp/fuzzing/mod.rs"]
pub mod fuzzing;
mod group;
mod keep_alive;
mod machine;
mod message_history;
mod nic;
mod nic_context;
mod recv;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../../../../fuzz/models/egret-net/fabric/udp/scripted_peer.rs"]
mod scripted_peer;
mod sealed;
mod send;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

use super::{Fabric, OpenError, window};
use crate::vi::{Nic, NicOptions};

/// Opens nics whose peers are anywhere on an IP network. A window repeats what is lost.
///
/// ```
/// use egret_net::fabric::Fabric;
/// use egret_net::fabric::udp::UdpFabric;
/// use egret_net::vi::Reliability;
///
/// let nic = UdpFabric.open(&"any word means loopback".into())?;
/// assert!(nic.host().starts_with("127.0.0.1:"));
/// assert!(nic.limits().offers(Reliability::Delivery));
/// # Ok::<(), egret_net::fabric::OpenError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct UdpFabric;

impl Fabric for UdpFabric {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn open(&self, options: &NicOptions) -> Result<Nic, OpenError> {
        Ok(Nic::new(window::over(Box::new(nic::open(options, true)?)), options.wait))
    }
}

/// Opens nics that send datagrams and nothing else: what is lost is lost.
///
/// ```
/// use egret_net::fabric::Fabric;
/// use egret_net::fabric::udp::UdpDatagrams;
/// use egret_net::vi::Reliability;
///
/// let nic = UdpDatagrams.open(&"".into())?;
/// assert!(!nic.limits().offers(Reliability::Delivery), "unreliable only");
/// # Ok::<(), egret_net::fabric::OpenError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct UdpDatagrams;

impl Fabric for UdpDatagrams {
    fn name(&self) -> &'static str {
        "udp-datagrams"
    }

    fn open(&self, options: &NicOptions) -> Result<Nic, OpenError> {
        Ok(Nic::new(Box::new(nic::open(options, false)?), options.wait))
    }
}
