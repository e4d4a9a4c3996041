//! Links, active messages and channels (layer 4); nodes and their registry (layer 5).
#![forbid(unsafe_code)]

pub mod am;
pub mod channel;
pub mod flow;
pub mod link;
mod links;
pub mod node;
pub mod registry;
pub mod settings;

pub use egret_stream as stream;
#[doc(hidden)]
pub use links::Account;
pub use links::{Alarm, Awaited, Links, LinksOptions, PATH_MAX, Path, PathError, Task};
pub use node::{Config, Node, NodeId};
pub use registry::Registry;
