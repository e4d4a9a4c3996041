//! What the machines of real processes share.
//!
//! | file | what it does |
//! |---|---|
//! | `opening.rs` | opening a nic of an IP network, and what a nic allows |
//! | `machine.rs` | the methods of a machine that are the same on every fabric |
//! | `links.rs` | the connections of a nic |
//! | `listeners.rs` | who listens, and who waits to be accepted |
//! | `connectors.rs` | the connections that a nic is making |
//! | `refusal.rs`, `patience.rs` | why a listening side says no, and how long a connector goes on |
//! | `pace.rs` | how often to look at what is slow to look at |
//! | `complaints.rs` | what the log is told of callers that are sent away |
//! | `set.rs` | sets of descriptors |
//! | `end.rs`, `incoming.rs` | an end, open or gone; what arrives at it, piece by piece |
//! | `eager.rs` | eager messages of an end: what may be sent, and what was not drained |
//! | `counts.rs` | how far an end is, in one word |
//! | `fuzzed.rs` | an end that a fuzzer's peer writes to |
//! | `bytes.rs`, `farewell.rs` | fields of packets, and the last word of a connection |

pub(super) mod bytes;
mod complaints;
pub(super) mod connectors;
pub(super) mod counts;
pub(super) mod eager;
pub(super) mod end;
pub(super) mod farewell;
pub(super) mod fault;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzed;
pub(super) mod incoming;
mod links;
mod listeners;
pub(super) mod machine;
pub(super) mod opening;
mod pace;
pub(super) mod patience;
mod refusal;
pub(super) mod set;

pub(super) use self::complaints::Complaints;
pub(super) use self::connectors::{Connecting, Outcome};
pub(super) use self::links::Links;
pub(super) use self::listeners::{Listeners, Visitor};
pub(super) use self::pace::Pace;
pub(super) use self::refusal::Listens;
pub(crate) use self::refusal::Refusal;
