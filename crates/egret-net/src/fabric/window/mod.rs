//! Where loss ends: a nic that delivers everything once and in order, above one that does not.
//!
//! [`over`] makes of any [machine](Machine) that has [datagrams](Machine::has_datagrams) one that has
//! the level [Delivery](crate::vi::Reliability::Delivery), too, with eager messages, remote reads and
//! writes. [`UdpFabric`](super::udp::UdpFabric), which has an example, opens such nics; a fabric of another crate that loses does the same:
//!
//! ```text
//! Ok(Nic::new(window::over(Box::new(machine)), options.wait))
//! ```
//!
//! # A message's way
//!
//! ```text
//!   program     Vi::post_send                                   Completion of the receive
//!                   │                                                  ▲
//!   driver.rs   post │ flush                               receive     │ hear
//!   datapath.rs     ▼                                                  │
//!   send.rs     Outbox ─ feed ─► Parcel                  recv.rs  begin, place, end
//!                                  │                                   ▲
//!   lanes       Window::send       ▼  append_datagram          hear    │
//!               ─────────────  datagrams of pieces  ───────────────────┘
//!   below       Machine::send_datagrams        ──►        next_datagram
//! ```
//!
//! 1. A posted send waits in the outbox (`fabric/outbox.rs`) until the peer has told of a
//!    receive. Then it is a message of the lane of posted ones, and the window has it until the peer
//!    has acknowledged its last piece: pieces are copied into datagrams from where it was posted.
//! 2. Pieces that arrive are placed where the peer's receive has its memory, in any order. If one is
//!    lost, three later ones or some time tell, and it goes again with the next datagram.
//! 3. When all is there the receive completes, and what this side has taken is told: with whatever
//!    it sends next, or by itself. The send completes then.
//!
//! An eager message goes on a lane of its own: it is copied when it is sent, needs no word about
//! receives, and is repeated without waiting for what is lost of posted ones.
//!
//! # The end
//!
//! A connection that is closed, or that has failed, says so behind its eager messages. What is said
//! last is repeated until the peer has it, or is silent; the connection below stays open so long. Then
//! it is closed as well.
//!
//! | file | what it does |
//! |---|---|
//! | `machine.rs` | the state machine behind the handles |
//! | `driver.rs` | progress: receiving datagrams and sending them, timers |
//! | `connection.rs` | an end of a connection as its nic owns it: open, closing, or ended |
//! | `datapath.rs`, `send.rs`, `recv.rs` | post and arrive, without I/O or clock |
//! | `closing.rs` | the goodbye of a connection that has ended on this side |
//! | `train.rs` | datagrams that leave together |
//! | `wire.rs` | the heads of messages (`docs/wire/window.md`) |
//! | `lanes` | the window: repeats and acknowledgements, without I/O or clock |

mod closing;
mod connection;
mod datapath;
mod driver;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[path = "../../../../../fuzz/models/egret-net/fabric/window/fuzzing.rs"]
pub mod fuzzing;
mod lanes;
mod machine;
mod recv;
mod send;
#[cfg(test)]
mod tests;
mod train;
mod wire;

use super::Machine;

/// Descriptors that may be outstanding on each queue.
const DEPTH: u32 = 256;
/// Bytes of the longest message.
const TRANSFER_MAX: u64 = 1 << 40;

/// A machine that has the level Delivery, too, above one that has the unreliable level.
///
/// [`Fabric`](super::Fabric) has an example of a fabric above another one, and
/// [`UdpFabric`](super::udp::UdpFabric) opens nics with this.
///
/// # Panics
///
/// If the machine has no [datagrams](Machine::has_datagrams).
#[must_use]
pub fn over(machine: Box<dyn Machine>) -> Box<dyn Machine> {
    Box::new(driver::Driver::new(machine))
}
