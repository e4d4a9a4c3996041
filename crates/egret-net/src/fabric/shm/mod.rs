//! Shared memory between processes, which need not trust each other.
//!
//! Processes of one user on one machine find each other by name, hand each other
//! the memory they write, and read each other's. An eager message is a record in a
//! ring of its lane. A posted message of up to 1 KiB
//! travels in a record of another ring; a longer one that lies in a
//! [shareable](crate::buf::PoolBuilder::shareable) pool stays there until the
//! receiver copies it to where it is wanted, and so does a large one that lies
//! elsewhere, if the kernel lets the receiver read it there; others pass through a
//! bounce area in pieces. Remote reads and writes are executed by their target.
//! Between processes that [cooperate](crate::vi::Trust::Cooperating) a buffer changes
//! its owner instead ([`hand_over`](crate::vi::Vi::hand_over)), and writes to memory
//! that is for that go straight there.
//!
//! | file | what it does |
//! |---|---|
//! | `nic.rs`, `machine.rs`, `driver.rs`, `nic_context.rs` | the nic, and what it does when it is driven |
//! | `acceptor.rs`, `connector.rs`, `rendezvous/`, `socket.rs` | connections being made: inbound, outbound, and what both sides say |
//! | `rounds.rs` | which connections a nic looks at, and which rest |
//! | `connection.rs`, `parts.rs` | a connection, open or ended, and what it is made of |
//! | `datapath.rs`, `send.rs`, `recv.rs`, `transfer_context.rs` | post and poll |
//! | `eager.rs` | eager messages: the lanes of an end |
//! | `records/` | rings of records, of which eager and posted messages have their own |
//! | `wire.rs`, `layout.rs` | what lies where, and how it is written |
//! | `doorbell.rs`, `doorbell_socket.rs` | waking an end that sleeps |
//! | `memory.rs`, `foreign.rs`, `copy.rs`, `block.rs` | memory of this side and of the other |
//! | `process_memory.rs` | memory of the peer's process that is in no region |
//! | `cooperating/` | between cooperating ends: buffers that change hands, memory under keys that a peer writes by itself |
//!
//! # Who writes what
//!
//! Each memory file but those of cooperating pools, whose buffers have an owner each,
//! has exactly one writing process, and the kernel sees to it:
//! it is sealed against new writers, against another size and against other
//! seals before its descriptor is sent, and the receiver verifies that before it
//! maps the file, read-only.
//!
//! `docs/trust.md` has each kind of memory, and the type through which it is reached.
//!
//! So each direction of a connection has its own file, and flow control runs
//! against the data, in the other one.
//!
//! # Rules
//!
//! * There is no `&[u8]` and no `&T` into memory of a peer: words are loaded,
//!   bytes are copied into private memory, and checked there.
//! * Offsets, lengths and counts of a peer are checked at each use; a bad one is
//!   an error, not a panic. Our own are asserted.
//! * Loads from memory that is mapped read-only are relaxed: no others are
//!   promised to be mere loads. What acquires is a fence behind them.
//! * A place is a byte offset from the start of its file. Rings and bells begin
//!   at a cache line (64 bytes), words at a multiple of 8.
//! * New memory is zero, and zero means nothing: no message, not asleep.
//! * Words are in the order of the machine's bytes: both sides are on it.
//!
//! What a hostile peer can still do is to send nonsense, which the layer above
//! takes as such and ends the connection, to keep this process awake by ringing,
//! and to have a thread that reads in the peer's process wait for a page.
//!
//! # The end of a peer
//!
//! The control socket of a connection closes with its process, whatever ended
//! it; what the peer had put into its rings before still counts. A process that
//! is merely stopped is not dead. An end that leaves says so in a word of its
//! memory before its buffers are used again, and who reads a message out of
//! them looks at it after the copy.

mod acceptor;
mod block;
mod connection;
mod connector;
mod cooperating;
mod copy;
mod datapath;
mod doorbell;
mod doorbell_socket;
mod driver;
mod eager;
mod fault;
mod foreign;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[path = "../../../../../fuzz/models/egret-net/fabric/shm/fuzzing.rs"]
pub mod fuzzing;
mod layout;
mod machine;
mod memory;
mod nic;
mod nic_context;
mod parts;
mod process_memory;
mod records;
mod recv;
mod rendezvous;
mod rounds;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../../../../fuzz/models/egret-net/fabric/shm/scripted_peer.rs"]
mod scripted_peer;
mod send;
mod socket;
#[cfg(test)]
mod tests;
mod transfer_context;
mod wire;

use super::{Fabric, OpenError};
use crate::atomics::{Atomics, StdAtomics};
use crate::vi::{Nic, NicOptions};

/// Opens nics whose peers are processes of the same user on this machine.
///
/// ```
/// use egret_net::fabric::Fabric;
/// use egret_net::fabric::shm::ShmFabric;
///
/// let host = format!("doc-{}", std::process::id());
/// let nic = ShmFabric.open(&host.as_str().into())?;
/// assert!(ShmFabric.open(&host.as_str().into()).is_err(), "the name is taken");
/// # Ok::<(), egret_net::fabric::OpenError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ShmFabric;

impl Fabric for ShmFabric {
    fn name(&self) -> &'static str {
        "shm"
    }

    fn open(&self, options: &NicOptions) -> Result<Nic, OpenError> {
        Ok(Nic::new(Box::new(nic::open(options)?), options.wait))
    }
}

impl ShmFabric {
    /// Whether a nic of this process that goes to sleep passes the memory fence of its doorbell for
    /// all who send to it. Where the kernel denies `membarrier` over processes each sender passes a
    /// fence with each message.
    ///
    /// The answer is found once, by trying, and holds for all nics of the process.
    ///
    /// ```
    /// use egret_net::fabric::shm::ShmFabric;
    ///
    /// if !ShmFabric::sleepers_fence() {
    ///     eprintln!("messages over shm cost a memory fence each: membarrier is denied");
    /// }
    /// ```
    #[must_use]
    pub fn sleepers_fence() -> bool {
        StdAtomics::has_global_fence()
    }
}
