//! What a program imports: egret's layers under one name.
//!
//! | | |
//! |---|---|
//! | [`graphs`] | graphs of objects, sent from rank to rank as memory |
//! | [`rmi`] | remote calls: a trait with [`#[remote]`](remote), objects, stubs |
//! | [`node`] | members of a pool, their registry and settings; links, active messages, channels |
//! | [`stream`] | objects as streams of bytes, `#[derive(Wire)]` |
//! | [`net`] | the virtual interface, its fabrics, buffers, time |
//!
//! A program that makes remote calls imports the [`prelude`]; [`rmi`] has an example. Under
//! `egret run` it begins like this, and finds the others by their ranks and names:
//!
//! ```no_run
//! use egret::prelude::*;
//!
//! let node = Node::join(Config::from_env()?)?;
//! println!("{} of {}", node.rank(), node.size());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

// The code that the attribute writes names the crate.
#[cfg(any(test, feature = "fuzzing"))]
extern crate self as egret;

pub mod graphs;
pub mod rmi;

pub use egret_derive::remote;
pub use egret_net as net;
pub use egret_node as node;
pub use egret_node::am::blocking;
pub use egret_node::stream;

/// What programs that make remote calls or send graphs import.
pub mod prelude {
    pub use egret_net::rt::Deadline;
    pub use egret_node::node::{Config, Node};
    pub use egret_stream::Wire;
    pub use egret_stream::graph::{Graph, Object, Ref, Slice, Text};

    pub use crate::graphs::{ANY, Graphs};
    pub use crate::remote;
    pub use crate::rmi::{CallError, Export, Exported, Pending, Remoting};
}

/// Runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
