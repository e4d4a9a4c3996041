//! Receive ports in the registry: each by its node and name, and the first of a name in the pool by the name alone.

use egret_net::rt::Deadline;

use super::wire::registry_name;
use super::{PortError, ReceiverId};
use crate::node::NodeHandle;
use crate::pool::NodeError;

/// Binds the names of a receive port; its number tells it from one of the same name that comes later.
pub(super) fn bind(node: &NodeHandle, port: &ReceiverId, number: u64) -> Result<(), PortError> {
    let number = number.to_le_bytes();
    match node.bind(&registry_name(&port.name, None), &number) {
        Ok(()) | Err(NodeError::NameTaken { .. }) => {}
        Err(why) => return Err(why.into()),
    }
    Ok(node.bind(&registry_name(&port.name, Some(port.node)), &number)?)
}

/// Gives the names of a receive port up, without waiting.
pub(super) fn unbind(node: &NodeHandle, port: &ReceiverId, number: u64) {
    let number = number.to_le_bytes();
    node.unbind_soon(&registry_name(&port.name, Some(port.node)), &number);
    node.unbind_soon(&registry_name(&port.name, None), &number);
}

/// Waits until there is a receive port of a name.
pub(super) fn find(
    node: &NodeHandle,
    name: &str,
    deadline: Deadline,
) -> Result<ReceiverId, PortError> {
    let bound = node.wait_bound(&registry_name(name, None), deadline)?;
    Ok(ReceiverId { node: bound.owner, name: name.to_owned() })
}

/// Waits until a node has a receive port of a name.
pub(super) fn find_at(
    node: &NodeHandle,
    port: &ReceiverId,
    deadline: Deadline,
) -> Result<(), PortError> {
    node.wait_bound(&registry_name(&port.name, Some(port.node)), deadline)?;
    Ok(())
}
