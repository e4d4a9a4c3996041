//! Links, active messages and channels (layer 4); nodes and ports (layer 5) are to come.
#![forbid(unsafe_code)]

pub mod am;
pub mod channel;
pub mod flow;
pub mod link;
mod links;

pub use egret_stream as stream;
#[doc(hidden)]
pub use links::Account;
pub use links::{Links, LinksOptions};
