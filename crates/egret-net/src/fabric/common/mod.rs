//! What the fabrics of real processes share.
//!
//! | file | what it does |
//! |---|---|
//! | `machine.rs` | the methods of a machine that are the same on every fabric |
//! | `connection_table.rs` | the connections of a nic, by number |
//! | `listeners.rs` | listeners, and the connection requests that wait to be accepted |
//! | `connectors.rs` | the connections that a nic is making |
//! | `refusal.rs`, `connect_retry.rs` | why a listening side refuses; when a connector tries again, and when it gives up |
//! | `poll_timer.rs` | how often a poll looks at what is slow to look at |
//! | `rejections.rs` | the log of callers that are sent away |
//! | `epoll.rs` | epoll sets |
//! | `connection_end.rs`, `incoming.rs` | an end, open or closed; what arrives at it, piece by piece |
//! | `eager.rs` | eager messages of an end: what may be sent, and what was not drained |
//! | `counts.rs` | how far the receiving half of an end is, in one word |
//! | `fuzz/models/…/fuzzed.rs` | an end that a fuzzer's peer writes to |
//! | `tests.rs` | the conformance suite in the tests of fabrics |
//! | `bytes.rs`, `close_reason.rs` | fields of packets; why an end closes the connection, as its peer is told |

pub(super) mod bytes;
pub(super) mod close_reason;
pub(super) mod connect_retry;
pub(super) mod connection_end;
mod connection_table;
pub(super) mod connectors;
pub(super) mod counts;
pub(super) mod eager;
pub(super) mod epoll;
pub(super) mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../../../../fuzz/models/egret-net/fabric/common/fuzzed.rs"]
pub(super) mod fuzzed;
pub(super) mod incoming;
mod listeners;
pub(super) mod machine;
mod poll_timer;
mod refusal;
mod rejections;
#[cfg(test)]
pub(super) mod tests;

pub(super) use self::connection_table::ConnectionTable;
pub(super) use self::connectors::{ConnectOutcome, PendingConnector};
pub(super) use self::listeners::{BACKLOG, ConnectionRequest, Listeners};
pub(super) use self::poll_timer::PollTimer;
pub(crate) use self::refusal::ConnectRefusal;
pub(super) use self::refusal::ListenState;
pub(super) use self::rejections::RejectionLog;
