//! What a program imports: egret's layers under one name.
//!
//! ```
//! use egret::net::rt::Deadline;
//! assert!(matches!(Deadline::DEFAULT, Deadline::In(_)));
//! ```
#![forbid(unsafe_code)]

pub use egret_net as net;
pub use egret_node as node;
pub use egret_node::stream;

/// Runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
