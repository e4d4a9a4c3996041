//! Messages over TCP, to anything with an address. [`TcpFabric`] has an example.
//!
//! Each connection is one of the system's, and all of a nic's are in one set; there
//! are no threads. Frames go out by vectored writes straight from the memory that
//! was posted, and once a message has begun its bytes are read straight into the
//! memory that was posted for it. What is large goes in chunks, and what is short
//! passes between them. Remote reads and writes are executed by their target.
//!
//! | file | what it does |
//! |---|---|
//! | `nic.rs`, `machine.rs`, `driver.rs`, `nic_context.rs` | the nic, and its progress |
//! | `rounds.rs` | which connections a nic reads, and which are left to epoll |
//! | `acceptor.rs`, `connector.rs`, `handshake.rs` | inbound and outbound connections that are being made |
//! | `connection.rs` | a connection, open or closed |
//! | `datapath.rs`, `send.rs`, `batch.rs`, `frame_reader.rs`, `recv.rs`, `eager.rs` | post, send and poll |
//! | `wire.rs` | what a frame says |
//! | `stream.rs` | all reads and writes of a connection |
//! | `sealed` | the records of a stream that is sealed |
//! | `socket.rs` | the system's connections |
//! | `closing.rs` | what is still said when one is over |
//!
//! # Rules
//!
//! * Every byte of a peer is untrusted. Lengths and counts are checked before memory is
//!   taken or written; a false value is an error that closes the connection, not a panic.
//! * A message begins only when the peer has a receive posted for it, so what arrives
//!   has a place, and nothing is kept for a peer that sends more.
//! * The kernel may take any part of a write, down to a byte; the rest is remembered. A read may return
//!   any part of what was sent.
//! * The end of the stream without a goodbye means that the peer has died. A connection that is closed
//!   lingers until the peer has closed as well, so that no reset overtakes the goodbye.
//! * A silent peer is found by the kernel: by TCP keep-alive when nothing is under way, and
//!   after 20 s if what is under way is not taken. A peer that does not drive its nic for
//!   so long, while it is sent more than its kernel holds, is taken for dead.
//!
//! The bytes stand in `docs/wire/tcp.md`, those of the handshake in `docs/wire/handshake.md`.

mod acceptor;
mod batch;
mod closing;
mod connection;
mod connector;
mod datapath;
mod driver;
mod eager;
mod fault;
mod frame_reader;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[path = "../../../../../fuzz/models/egret-net/fabric/tcp/fuzzing.rs"]
pub mod fuzzing;
mod handshake;
mod machine;
mod nic;
mod nic_context;
mod recv;
mod rounds;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../../../../fuzz/models/egret-net/fabric/tcp/scripted_peer.rs"]
mod scripted_peer;
mod sealed;
mod send;
mod socket;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

use super::{Fabric, OpenError};
use crate::vi::{Nic, NicOptions};

/// Descriptors that may be outstanding on each queue.
const DEPTH: u32 = 1024;
/// Bytes of the longest message.
const TRANSFER_MAX: u64 = 1 << 40;
/// Segments that a descriptor may have.
const SEGMENTS_MAX: u32 = 4096;

/// Opens nics whose peers are wherever TCP reaches.
///
/// A nic listens on loopback unless its host says otherwise; what it is called is
/// where peers connect to.
///
/// ```
/// use egret_net::fabric::Fabric;
/// use egret_net::fabric::tcp::TcpFabric;
///
/// let nic = TcpFabric.open(&"".into())?;
/// assert!(nic.host().starts_with("127.0.0.1:"), "{}", nic.host());
/// # Ok::<(), egret_net::fabric::OpenError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpFabric;

impl Fabric for TcpFabric {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn open(&self, options: &NicOptions) -> Result<Nic, OpenError> {
        Ok(Nic::new(Box::new(nic::open(options)?), options.wait))
    }
}
