//! The window: what makes three lanes, once and in order, of a fabric that loses,
//! doubles, overtakes and damages.
//!
//! ```text
//!   send ─► Outgoing ─────────────────► datagram ──► Incoming ─► poll_arrived
//!            messages                     pieces      early pieces
//!            cut into pieces  ◄────────── acks        message put together where it stays
//!   poll_sent ◄─ acknowledged                         told what has come
//!
//!   the pieces of a lane, by number:
//!
//!     acknowledged   │ arrived · lost · under way │ may be sent │ not yet
//!   ─────────────────┼────────────────────────────┼─────────────┼─────────
//!              first missing                     next    first missing + window
//! ```
//!
//! A message is cut into pieces of one size, of which the last may be shorter; the first
//! says how long the message is, and its tag. So the number of a piece says where its
//! bytes belong, nothing can overlap, and pieces can be placed in any order as soon as
//! the first is there. A datagram has as many pieces as have room, of the most urgent
//! lane first, and tells what has come in all lanes: the first number missing, and a bit
//! for each of the 63 behind it.
//!
//! # What is sent again
//!
//! A piece is lost when three later datagrams of its lane have arrived, or all others if
//! they are fewer. If a lane gets on for no more than the round trip allows, all it has
//! under way is lost; the first piece is sent again, and the others follow as
//! acknowledgements come in (`congestion.rs`). Each further silence is waited for twice
//! as long, up to a bound, until the round trip is again as measured (`rtt.rs`), and
//! after so many the peer [is silent](Window::is_silent). Whether it is dead is for the
//! virtual interface to find out.
//!
//! # What is acknowledged
//!
//! Pieces, never acknowledgements: a link where nothing is sent is quiet. A piece that
//! comes twice or too early is acknowledged at once, as is a quarter of the window, as
//! is what comes with a question because the sender can go on only then; all else within
//! a millisecond, if nothing goes that way before. If the last acknowledgement is lost
//! the piece comes again, and so does the acknowledgement.
//!
//! # What a peer can do
//!
//! It has the window: its bytes of pieces that wait for one before them, and the memory
//! that the [landing](egret_net::vi::Landing) gives to one message in each lane. Whatever
//! no honest peer sends is a [`Lie`].
//!
//! | file | what it does |
//! |---|---|
//! | `terms.rs` | what both ends go by |
//! | `machine.rs` | datagrams in and out |
//! | `outgoing.rs`, `under_way.rs`, `rtt.rs`, `congestion.rs` | what is sent, again if need be |
//! | `incoming.rs`, `memory.rs`, `acks.rs` | what arrives, where, and when to say so |
//! | `wire.rs` | the bytes (`docs/link-wire.md`) |

mod acks;
mod congestion;
mod counters;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod incoming;
mod lie;
mod machine;
mod memory;
mod outgoing;
mod rtt;
mod terms;
#[cfg(test)]
mod tests;
mod under_way;
mod wire;

#[cfg(test)]
use counters::WindowCounters;
#[cfg(test)]
use incoming::Arrived;
pub(crate) use lie::Lie;
pub(crate) use machine::Window;
#[cfg(test)]
use memory::Memory;
pub(crate) use terms::{Pace, Terms};

/// The number of the link that a datagram is of, if it is undamaged.
pub(crate) fn link_of(datagram: &[u8]) -> Option<u64> {
    if wire::is_intact(datagram) { wire::link(datagram) } else { None }
}
