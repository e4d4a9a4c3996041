//! How an application ends other than well.

use std::io;

use egret::node::node::{AbsentError, JoinError, RouteError};
use egret::node::registry::RegistryError;
use egret::node::settings::SettingsError;
use egret::rmi::{ExportError, LookupError};

/// Why there is no result, or a wrong one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
    /// Not everybody came, or whoever started them is gone.
    #[error(transparent)]
    Absent(#[from] AbsentError),
    /// A setting means nothing.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The process is no node.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// There is no registry for a process alone.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// There is no way to another process.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// An object was not exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// An object was not found.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The report could not be written.
    #[error("the report could not be written: {0}")]
    Output(#[from] io::Error),
}
