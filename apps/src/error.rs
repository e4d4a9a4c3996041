//! How an application ends other than well.

use std::io;

use egret::node::{JoinError, NodeError};
use egret::rmi::CallError;

/// Why there is no result, or a wrong one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// What was asked for cannot be done by so many processes, or at all.
    #[error("{0}")]
    Usage(String),
    /// The change of a grid stayed above what was asked for.
    #[error(
        "after {iterations} iterations a point still changes by {change:e}; --iterations allows more"
    )]
    NotConverged {
        /// How many there were.
        iterations: u32,
        /// The largest change of the last one.
        change: f64,
    },
    /// The result is not that of the sequential program.
    #[error("the result is wrong: {0}")]
    Wrong(String),
    /// Another process is gone before the end.
    #[error("process {rank} is gone: {why}")]
    Gone {
        /// Which.
        rank: u32,
        /// How.
        why: String,
    },
    /// Another process lives, but did not do what it should.
    #[error("process {rank}: {why}")]
    Peer {
        /// Which.
        rank: u32,
        /// What it did.
        why: String,
    },
    /// Not all processes came, another is gone, or there is no way to it.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The process is no node, or, if it is alone, has no registry.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// An object was not exported, bound or found.
    #[error(transparent)]
    Objects(#[from] CallError),
    /// The report could not be written.
    #[error("the report could not be written: {0}")]
    Output(#[from] io::Error),
}
