//! `egret bench port`: messages between ports of two processes.
//!
//! | file | what it has |
//! |---|---|
//! | `suite.rs` | the cases, and what each is held against |
//! | `sender.rs` | the process that measures |
//! | `receiver.rs` | the process that receives, and answers |
//! | `limit.rs` | the limit of a stream of trees |

mod limit;
pub(crate) mod receiver;
mod sender;
mod suite;

pub(crate) use suite::{PortArgs, suite};
