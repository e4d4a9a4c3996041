//! The window itself: what makes four lanes, each once and in order, of datagrams that are lost,
//! doubled, overtaken and damaged. Without I/O and without a clock.
//!
//! ```text
//!   send ─► Outgoing ─────────────────► datagram ──► Incoming ─► Arrivals
//!            messages                     pieces      early pieces: begin, place, end
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
//! they are fewer. If a lane does not get on within what the round trip allows, and two delays of
//! acknowledgements, its first piece is sent again: what is acknowledged then says what else is
//! lost. If it still does not get on for ten milliseconds, all it has under way is lost; the first piece is sent again, and the others follow as
//! acknowledgements come in (`congestion.rs`). Each further silence is waited for twice
//! as long, up to a bound, until the round trip is again as measured (`rtt.rs`), and
//! after so many the peer [is silent](Window::is_silent).
//!
//! Every datagram has a number of 64 bits that no other of its sender has, a repeat neither: what
//! is sent again are pieces, in a datagram of their own.
//!
//! # What is acknowledged
//!
//! Pieces, never acknowledgements: a connection where nothing is sent is quiet. A piece that
//! comes twice or too early is acknowledged at once, as is a quarter of the window, as
//! is what comes with a question because the sender can go on only then; all else within
//! a millisecond, if nothing goes that way before. If the last acknowledgement is lost
//! the piece comes again, and so does the acknowledgement.
//!
//! # What a peer can do
//!
//! The receiver has the window: its bytes of pieces that wait for one before them, and the memory
//! that the [landing](crate::vi::DirectPlacement) gives to one message in each lane. Whatever
//! no honest peer sends is a [`WindowViolation`].
//!
//! | file | what it does |
//! |---|---|
//! | `terms.rs` | what both ends go by |
//! | `window.rs` | datagrams in and out |
//! | `outgoing.rs`, `in_flight.rs`, `rtt.rs`, `congestion.rs` | what is sent, again if need be |
//! | `incoming.rs`, `acks.rs` | what arrives, and when to say so |
//! | `wire.rs` | the bytes (`docs/wire/window.md`) |
//! | `fuzzing` | what a fuzzer does, and where messages arrive in tests |

mod acks;
mod congestion;
mod counters;
pub(super) mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../../../../../fuzz/models/egret-net/fabric/window/lanes/fuzzing/mod.rs"]
pub(super) mod fuzzing;
mod in_flight;
mod incoming;
mod lane;
mod outgoing;
mod rtt;
mod terms;
#[cfg(test)]
mod tests;
mod violation;
mod window;
mod wire;

use std::fmt;

#[cfg(test)]
use counters::WindowCounters;
pub(super) use lane::WindowLane;
pub(super) use terms::{WindowTerms, WindowTiming};
pub(super) use violation::WindowViolation;
pub(super) use window::Window;
pub(super) use wire::MessageStart;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use wire::seal;

use crate::vi::ViError;

/// A message that is sent: it stays as it is until the peer has it.
pub(super) trait MessageSource: fmt::Debug {
    /// Its bytes.
    fn len(&self) -> u64;
    /// Its tag.
    fn tag(&self) -> u64;
    /// Copies some of its bytes to the end of `out`.
    fn append(&self, offset: u64, len: usize, out: &mut Vec<u8>);
}

/// Where messages arrive: one of each lane at a time.
pub(super) trait MessageSink {
    /// The next message of a lane begins, with its `first` bytes. `false` if it has to wait: then
    /// it begins another time.
    fn begin(
        &mut self,
        lane: WindowLane,
        begins: MessageStart,
        first: &[u8],
    ) -> Result<bool, Box<ViError>>;
    /// Bytes behind the first ones that belong at this place. They come in any order, and once.
    fn place(&mut self, lane: WindowLane, at: u64, bytes: &[u8]) -> Result<(), Box<ViError>>;
    /// The message is whole.
    fn end(&mut self, lane: WindowLane) -> Result<(), Box<ViError>>;
}

/// Why a window ends.
#[derive(Debug)]
pub(super) enum WindowError {
    /// By a violation of the protocol.
    Violation(WindowViolation),
    /// A message was refused.
    Refused(Box<ViError>),
}

impl From<WindowViolation> for WindowError {
    fn from(violation: WindowViolation) -> Self {
        Self::Violation(violation)
    }
}

impl From<Box<ViError>> for WindowError {
    fn from(why: Box<ViError>) -> Self {
        Self::Refused(why)
    }
}
