//! The raw figures that egret's own are held against.
//!
//! Each limit is the least a message or a buffer can cost on this machine: the
//! bare mechanism without headers, credits, connections or checks. A benchmark
//! measures its limit in the same run, so that what it reports is a ratio that
//! survives a change of machine. Nothing in egret is built on this module.
//!
//! # Two processes
//!
//! A limit between two processes has a leader, which takes the time, and a
//! follower. The leader [prepares](MachineLimit::prepare) the link and hands the
//! descriptors that come with it to the follower, which [joins](MachineLimit::join).
//! Then both run the same number of rounds, as often as they like.
//!
//! # Why the shared memory is sound
//!
//! Both ends are this module, started from one executable, and both follow the
//! sequence protocol of their link: payload bytes belong to the sender until it
//! stores their sequence number with release, then to the receiver, which has
//! loaded that number with acquire, until it gives them back by an answer or by
//! the consumed counter. So no byte is ever written while the other side looks
//! at it. In one process no two ends can be the same side of a link, and an end
//! that has failed runs no more: it no longer knows whose the bytes are. The words that both sides touch at any time are atomics. A link to a
//! process that might do otherwise needs more than this, and gets it in the
//! fabrics.
//!
//! # Waiting
//!
//! Every run takes a timeout, spinning or not: a follower that died or never
//! came is [`LimitError::Stalled`], not a spinning leader.

mod aead;
mod connect;
mod echo;
mod end;
mod event;
mod line;
mod memory;
pub mod payload;
mod ring;
mod shared;
mod slot;
mod switch;
mod tcp;
mod ticks;
mod udp;
mod wait;

use std::io;
use std::time::Duration;

pub use end::{LimitEnd, LimitTime, MachineLimit};
pub use memory::{Copying, HeapBlocks, clone_of};
pub use ticks::Stopwatch;

/// Why a limit could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The other process did not do its part in time.
    #[error("the other process did not answer within {0:?}")]
    Stalled(Duration),
    /// The other process closed its end.
    #[error("the other process is gone")]
    Gone,
    /// What arrived is not what was sent.
    #[error("message {0} arrived changed")]
    Corrupt(u64),
    /// The descriptors do not belong to this limit.
    #[error("{given} descriptors for {limit}, which has {needed}")]
    Descriptors {
        /// The limit to be joined.
        limit: MachineLimit,
        /// How many came.
        given: usize,
        /// How many it has.
        needed: usize,
    },
    /// This side of the link is somebody else's in this process.
    #[error("this side of the link is taken")]
    Taken,
    /// An earlier run failed, and left it open whose the shared bytes are.
    #[error("an earlier run over this link failed")]
    Broken,
    /// The shared memory is sealed against nothing, so it might shrink.
    #[error("shared memory that is not sealed against shrinking")]
    Unsealed,
    /// The shared memory is not of the limit's layout.
    #[error("shared memory of {given} bytes where {needed} are needed")]
    OtherSize {
        /// Bytes there are.
        given: u64,
        /// Bytes the layout takes.
        needed: usize,
    },
    /// More than its mechanism sends at once.
    #[error("a payload of {bytes} bytes, and {max} at most")]
    TooLong {
        /// Bytes that were asked for.
        bytes: usize,
        /// Bytes it can send.
        max: usize,
    },
    /// There is no limit of this name.
    #[error("no limit is called {0:?}")]
    Unknown(String),
    /// The operating system said no.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
}

/// For `map_err`: what was tried when the operating system said no.
fn system<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> LimitError {
    move |source| LimitError::System { doing, source: source.into() }
}

#[cfg(test)]
mod tests;
