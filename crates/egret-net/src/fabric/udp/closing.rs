//! Connections that this side has closed.
//!
//! A goodbye may be lost, and the peer may send meanwhile. So the goodbye is remembered, and sent again to a
//! peer that sends to a closed connection.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use super::connection::Connection;
use super::wire::ConnectionNumber;

/// The goodbyes of the closed connections of a nic, the oldest first.
#[derive(Debug, Default)]
pub(super) struct UdpClosings {
    by_number: BTreeMap<ConnectionNumber, (SocketAddr, Vec<u8>)>,
    order: VecDeque<ConnectionNumber>,
}

/// How many are remembered.
const LEFT_MAX: usize = 256;

impl UdpClosings {
    pub(super) fn add(&mut self, link: &Connection) {
        if link.goodbye_sent.is_empty() {
            return;
        }
        if self.order.len() >= LEFT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_number.remove(&oldest);
        }
        self.by_number.insert(link.number, (link.at, link.goodbye_sent.clone()));
        self.order.push_back(link.number);
    }

    /// The goodbye that answers a datagram for this number. A sealed one has the same bytes as before: the
    /// peer takes it once.
    pub(super) fn answer(&self, number: ConnectionNumber, from: SocketAddr) -> Option<&[u8]> {
        let (at, said) = self.by_number.get(&number)?;
        (*at == from).then_some(said)
    }
}
