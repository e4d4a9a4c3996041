//! `egret bench rmi`: remote calls.
//!
//! | file | what it has |
//! |---|---|
//! | `suite.rs` | the cases, and what each is held against |
//! | `object.rs` | the object that is called |
//! | `calls.rs` | the process that calls, and the process that is called |
//! | `crowd.rs` | calls beside others: several callers, both sides at once, a call behind a blocked one |
//! | `limit.rs` | the limits of a call that are more than a message |

pub(crate) mod calls;
mod crowd;
pub(crate) mod limit;
mod object;
mod suite;

pub(crate) use suite::{RmiArgs, suite};
