//! Connections that this side has left.
//!
//! The last word may be lost, and the peer may write meanwhile. So it is remembered, and said
//! again to who writes to a connection that is over.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use super::link::Link;
use super::wire::Number;

/// What was said last on those of a nic, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Leavings {
    by_number: BTreeMap<Number, (SocketAddr, Vec<u8>)>,
    order: VecDeque<Number>,
}

/// How many are remembered.
const LEFT_MAX: usize = 256;

impl Leavings {
    pub(super) fn add(&mut self, link: &Link) {
        if link.last_word.is_empty() {
            return;
        }
        if self.order.len() >= LEFT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_number.remove(&oldest);
        }
        self.by_number.insert(link.number, (link.at, link.last_word.clone()));
        self.order.push_back(link.number);
    }

    /// The datagram that answers whoever writes there. A sealed one is the very same that was sent:
    /// the peer takes it once.
    pub(super) fn answer(&self, number: Number, from: SocketAddr) -> Option<&[u8]> {
        let (at, said) = self.by_number.get(&number)?;
        (*at == from).then_some(said)
    }
}
