//! The second process of a benchmark.
//!
//! | file | what it has |
//! |---|---|
//! | `process.rs` | the second process as the first one sees it: start, orders, replies, tasks |
//! | `follow.rs` | the second process itself |
//! | `channel.rs` | messages and descriptors between the two |
//! | `space.rs` | network namespaces for the two, with a link between |

mod channel;
pub(crate) mod follow;
mod process;
pub(crate) mod space;

pub(crate) use process::{
    DRIVEN, Follower, FollowerProcess, NamedTask, PATIENCE, PeerFigures, PeerStation, PeerTask,
};
