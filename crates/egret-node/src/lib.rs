//! Links, active messages and channels (layer 4); nodes and their registry (layer 5).
#![forbid(unsafe_code)]

pub mod am;
pub mod channel;
mod channel_table;
pub mod cluster;
/// How much a node receives from others; for tests and the crates above, not for use.
#[doc(hidden)]
pub mod flow;
mod frame;
mod in_handler;
pub mod link;
mod links;
pub mod local;
pub mod node;
mod pool;
pub mod port;
pub mod registry;
pub mod settings;
mod slots;
pub mod topology;
mod wakers;

/// What a fuzzer calls. Not for use.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    /// A peer sends any frames over a link.
    pub fn link_frames(input: &[u8]) {
        crate::links::fuzzing::frames(input);
    }
}

pub use egret_stream as stream;
pub use links::{Alarm, Links, LinksOptions, PATH_MAX, Path};
#[doc(hidden)]
pub use links::{Awaited, LinksAccount, Task};
pub use node::{Config, Node, NodeId};
pub use registry::Registry;
