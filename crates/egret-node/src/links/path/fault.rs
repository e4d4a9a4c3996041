//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

use std::collections::BTreeMap;

use crate::am::TableKey;

egret_net::faults! {
    /// Ways to get it wrong.
    pub(crate) enum Fault {
        /// Received messages are not remembered.
        Doubled,
        /// Damaged messages are not checked for.
        Damaged,
        /// A message goes to the handler of another port.
        OtherPort,
        /// Any number of messages wait for their handlers.
        Boundless,
        /// A path goes on when its link has ended.
        Outlives,
        /// The path that a peer had before is kept.
        Hoarded,
    }
}

/// The handler of the messages to a port.
#[inline]
pub(super) fn handler_of(ports: &BTreeMap<u64, TableKey>, port: u64) -> Option<TableKey> {
    let handler = if planted(Fault::OtherPort) { ports.values().next() } else { ports.get(&port) };
    handler.copied()
}
