//! Active messages between two processes.
//!
//! | file | what it has |
//! |---|---|
//! | `suite.rs` | `egret bench am-latency`, `am-rate` and `am-bandwidth` |
//! | `requester.rs` | the process that sends requests |
//! | `served.rs` | the process that serves them |

pub(crate) mod requester;
pub(crate) mod served;
mod suite;

pub(crate) use suite::{BandwidthArgs, LatencyArgs, RateArgs, bandwidth, latency, rate};
