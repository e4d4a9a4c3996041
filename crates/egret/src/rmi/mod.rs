//! Remote calls: objects of one node, called from others through stubs.
//!
//! ```
//! use egret::node::registry::{Registry, RegistryOptions};
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
//! let registry = Registry::open(RegistryOptions::new("doc", 2).secret("hush".into()))?;
//! let join = || Node::join(registry.config());
//! let (server, client) = (join()?, join()?);
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
//! `docs/rmi.md` says how a call travels, what blocks what, and what a failed call means.

mod args;
mod array;
mod asked;
mod called;
mod callee;
mod calls;
mod context;
mod cores;
mod early;
mod error;
pub(crate) mod exchange;
mod export;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod interface;
mod load;
mod number;
mod object;
mod objects;
mod pace;
mod pair;
mod pending;
mod remoting;
mod served;
mod spot;
mod staff;
mod stub;
mod table;
mod target;
#[cfg(test)]
mod tests;
mod trouble;
mod turns;
mod unsent;
mod words;
mod workers;

pub use array::Array;
pub use asked::CallTo;
pub use context::{Current, current};
pub use egret_node::node::NodeId;
pub use error::{CallError, Limit, Never, Stage};
pub use export::{Export, ExportError, Exported, ObjectRef};
pub use interface::{Exports, Held, Interface, Method, Proxy, Run, SharedInterface, Type};
pub use pending::Pending;
#[doc(hidden)]
pub use remoting::CallsAccount;
pub use remoting::{LookupError, Remoting};
pub use served::Served;
pub use stub::Stub;
