//! Connections that this side has left.
//!
//! The last word may be lost, and the peer may write meanwhile. So it is remembered, and said
//! again to who writes to a connection that is over.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use super::link::Link;
use super::wire::{Farewell, Number};
use crate::vi::ViError;

/// What was said last on those of a nic, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Leavings {
    by_number: BTreeMap<Number, (SocketAddr, Number, Farewell)>,
    order: VecDeque<Number>,
}

/// How many are remembered.
const LEFT_MAX: usize = 256;

impl Leavings {
    pub(super) fn add(&mut self, link: &Link) {
        let why = match link.end.error() {
            Some(ViError::Closed) => Farewell::Closed,
            Some(ViError::NicDown) => Farewell::NicDown,
            _ => return,
        };
        if self.order.len() >= LEFT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_number.remove(&oldest);
        }
        self.by_number.insert(link.number, (link.at, link.to, why));
        self.order.push_back(link.number);
    }

    /// What to answer to whoever writes there: to which number, and why.
    pub(super) fn answer(&self, number: Number, from: SocketAddr) -> Option<(Number, Farewell)> {
        let (at, to, why) = self.by_number.get(&number)?;
        (*at == from).then_some((*to, *why))
    }
}
