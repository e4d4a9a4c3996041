//! Objects that refer to each other: made on one node, sent to another, used there where they land.
//!
//! ```
//! use egret::prelude::*;
//!
//! #[derive(Clone, Copy, Object)]
//! #[repr(C)]
//! struct Car {
//!     year: u64,
//!     engine: Option<Ref<Engine>>,
//! }
//!
//! #[derive(Clone, Copy, Object)]
//! #[repr(C)]
//! struct Engine {
//!     power: u64,
//! }
//!
//! // Two nodes, here in one process; `egret run` starts each in its own.
//! let pool = egret::local::pool(2)?;
//! let (here, there) = (&pool[0], &pool[1]);
//! let mut sends = Graphs::<Car>::join(&here)?;
//! let mut takes = Graphs::<Car>::join(&there)?;
//!
//! let car = sends.start(Car { year: 2000, engine: None });
//! let engine = sends.insert(Engine { power: 50 });
//! sends.current_mut()[car].engine = Some(engine);
//! sends.send_graph(there.rank(), here.deadline())?;
//! sends.free_current();
//!
//! let (graph, from) = takes.recv_graph(ANY, there.deadline())?;
//! assert_eq!((graph.root().year, from), (2000, here.rank()));
//! assert_eq!(graph[graph.root().engine.unwrap()].power, 50);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This is the interface of Expresso, in which a program fills the *current* cluster and sends
//! it to a rank. `docs/reference/graphs-by-rank.md` says how a graph travels and what a failure means.

mod address;
mod error;
mod fault;
mod graphs;
mod inbox;
mod named_graphs;
mod options;
mod rank_sender;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

/// `#[derive(Object)]`; the [module](self) has an example.
pub use egret_derive::EgretObject as Object;
pub use egret_stream::graph::*;
pub use egret_stream::{graph_dynamic, graph_register};
pub use error::RankGraphError;
pub use graphs::Graphs;
pub use options::{ANY, GraphsOptions, Source};
pub use receiving::Receiving;
pub use sending::Sending;
