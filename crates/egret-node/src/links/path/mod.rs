//! Paths: small messages beside a link that may be lost.
//!
//! A path is a connection of the unreliable level from one node to another that it has a link to.
//! The link says who the peer is and whether it lives; the path ends with it. Messages go one way:
//! each side makes its own path.

pub(super) mod fault;
mod handle;
mod head;
mod table;

pub use handle::{PATH_MAX, Path};
pub(crate) use table::PathTable;
