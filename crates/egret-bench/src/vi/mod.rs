//! Messages over the virtual interface between two processes.
//!
//! | file | what it has |
//! |---|---|
//! | `suite.rs` | `egret bench latency`, `bandwidth` and `message-rate` |
//! | `duo.rs` | messages that all arrive: one process leads, the other follows |
//! | `datagrams.rs` | messages that may be lost: those that arrive are counted |
//! | `pull.rs` | remote reads: the leader reads memory of the follower |

pub(crate) mod datagrams;
pub(crate) mod duo;
mod pull;
mod suite;

pub(crate) use suite::{MessageArgs, MessageMeasure, ring, suite};
