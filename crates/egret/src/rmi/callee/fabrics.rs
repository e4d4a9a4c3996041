//! The fabrics by which an object may be called.

use egret_node::node::{FabricInfo, Requirement};

use crate::rmi::fault::{Fault, planted};

/// What an object that is exported with a requirement needs of the fabrics by which calls come.
#[derive(Debug)]
pub(crate) struct FabricNeeds {
    /// Of each fabric of the node, by its number, why calls that come over it are refused, if they are.
    refused: Vec<Option<String>>,
}

impl FabricNeeds {
    /// The needs of an object of a node with these fabrics; none if any of them will do.
    pub(crate) fn of(requirement: &Requirement, fabrics: &[FabricInfo]) -> Option<Box<Self>> {
        let refused = fabrics.iter().map(|FabricInfo { name, properties, .. }| {
            let missing = requirement.missing(properties);
            let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
            let why = || format!("{name} does not give {}", missing.join(" and "));
            (!missing.is_empty()).then(why)
        });
        let needs = (!requirement.is_any()).then(|| Self { refused: refused.collect() });
        needs.map(Box::new)
    }

    /// Why a call that came over the fabric of a number is refused, if it is.
    pub(crate) fn refusal(&self, fabric: usize) -> Option<&str> {
        match self.refused.get(fabric) {
            _ if planted(Fault::AnyFabric) => None,
            Some(known) => known.as_deref(),
            None => Some("it is none of the object's node"),
        }
    }
}
