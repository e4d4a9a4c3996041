//! The nic.

use super::SimFabric;
use super::machine::SimMachine;
use crate::fabric::{OpenError, open_nic};
use crate::vi::{Limits, NicOptions};

/// A nic of a node that has none.
pub(super) fn open(fabric: &SimFabric, options: &NicOptions) -> Result<SimMachine, OpenError> {
    options.checked_secret()?;
    let host = &options.host;
    let machine = fabric.with(|world| {
        let node = world.node(host);
        let is_taken = std::mem::replace(&mut world.nodes[node].up, true);
        (!is_taken).then(|| SimMachine::new(fabric, world, node))
    });
    machine.ok_or_else(|| OpenError::Taken { host: host.to_owned() })
}

/// What a nic allows.
pub(super) fn limits() -> Limits {
    // That of least to pin was measured: a copy is 4 % faster at 4 KiB and 3 % slower at 8 KiB.
    open_nic::limits(1024, 1 << 40, 64)
}
