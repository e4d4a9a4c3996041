//! Remote calls: objects of one node, called from others through stubs.
//!
//! ```
//! use egret::prelude::*;
//!
//! #[egret::remote]
//! trait Sums {
//!     fn add(&mut self, numbers: &[f64]) -> f64;
//!     fn check(&self, limit: f64) -> Result<f64, String>;
//! }
//!
//! #[derive(Default)]
//! struct Sum(f64);
//!
//! #[egret::remote]
//! impl Sums for Sum {
//!     fn add(&mut self, numbers: &[f64]) -> f64 {
//!         self.0 += numbers.iter().sum::<f64>();
//!         self.0
//!     }
//!     fn check(&self, limit: f64) -> Result<f64, String> {
//!         if self.0 < limit { Ok(self.0) } else { Err(format!("{} is too much", self.0)) }
//!     }
//! }
//!
//! // Two nodes, here in one process; `egret run` starts each in its own.
//! let pool = egret::local::pool(2)?;
//! let (server, client) = (&pool[0], &pool[1]);
//!
//! let exported = server.export(Sum::default())?;
//! exported.bind("sum")?;
//!
//! let sum: SumsStub = client.lookup("sum", Deadline::DEFAULT)?;
//! assert_eq!(sum.add(&[1.0, 2.0])?, 3.0);
//! let later = sum.begin().add(vec![4.0]); // a future; or:
//! assert_eq!(later.wait()?, 7.0);
//! let more = client.block_on(async { sum.begin().add(vec![0.5]).await })?; // by this thread alone
//! assert_eq!(more, 7.5);
//! assert_eq!(sum.check(5.0), Err(CallError::Failed("7.5 is too much".to_owned())));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/reference/rmi.md` says how a call travels, what blocks what, and what a failed call means.

mod answer;
mod answer_slot;
mod callee;
mod caller;
mod context;
mod error;
pub(crate) mod exchange;
mod export;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[path = "../../../../fuzz/models/egret/rmi/fuzzing.rs"]
pub mod fuzzing;
mod head;
mod interface;
mod interface_table;
mod payload;
mod remoting;
#[cfg(test)]
mod tests;
mod threads;

pub use caller::call_site::CallTo;
pub use caller::pending::Pending;
pub use caller::stub::Stub;
pub use context::{CurrentCall, current};
pub use egret_node::node::NodeId;
pub use error::{CallError, CallStage, Limit};
pub use export::{Export, Exported, ObjectRef};
pub use interface::{Array, Exports, Proxy, RemoteInterface, SharedRemoteInterface};
pub use remoting::Remoting;

/// What the code that [`remote`](macro@crate::remote) writes refers to. Not for use.
#[doc(hidden)]
pub mod __private {
    pub use super::answer::IncomingCall;
    pub use super::interface::{HeldObject, MethodCode, MethodType, RemoteMethod};
    pub use super::remoting::{CallsAccount, calls_account, run_calls};
}
