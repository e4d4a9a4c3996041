//! Links, active messages and channels (layer 4); nodes and their registry (layer 5).
#![forbid(unsafe_code)]

pub mod am;
pub mod channel;
/// How much a node receives from others; for tests and the crates above, not for use.
#[doc(hidden)]
pub mod flow;
mod frame;
mod in_handler;
mod links;
pub mod local;
pub mod node;
mod pool;
pub mod registry;
pub mod settings;
mod slots;
mod wakers;

/// Links between nodes: errors, what is known of undelivered messages, counters. [`Links`] has an
/// example.
pub mod link {
    pub use crate::links::{Fate, LinkCounters, LinkError};

    /// Bytes that become frames of a link, for a fuzzer. Not for use.
    #[cfg(feature = "fuzzing")]
    #[doc(hidden)]
    pub mod fuzzing {
        /// A peer sends any frames.
        pub fn frames(input: &[u8]) {
            crate::links::fuzzing::frames(input);
        }
    }
}

pub use egret_stream as stream;
pub use links::{Alarm, Links, LinksOptions, PATH_MAX, Path};
#[doc(hidden)]
pub use links::{Awaited, LinksAccount, Task};
pub use node::{Config, Node, NodeId};
pub use registry::Registry;
