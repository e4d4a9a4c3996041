//! What is left of a connection that is over here: its goodbye, until the peer has it.

use std::time::Duration;

use super::datapath::why;
use super::fault::{self, Fault, planted};
use super::lanes::{MessageSink, MessageStart, Window, WindowLane};
use super::send::Parcel;
use super::wire::WindowFrame;
use crate::rt::Instant;
use crate::vi::ViError;

/// A connection that this side has left.
///
/// What the peer sends meanwhile is dropped; but it may leave as well, and then each waits for the
/// other to have its goodbye. So this side receives until the peer's goodbye, and with that it is over.
#[derive(Debug)]
pub(super) struct ClosingConnection {
    pub window: Window<Parcel>,
    sink: DiscardedMessages,
}

/// Takes the messages of a closing connection and drops them.
#[derive(Debug)]
struct DiscardedMessages {
    /// Whether the frame that arrives is the goodbye.
    is_last: bool,
    /// Whether the goodbye has arrived.
    is_over: bool,
}

/// How long a living peer may take to acknowledge the goodbye.
pub(super) const LINGER_MAX: Duration = Duration::from_secs(10);
/// How many peers of a nic may take so long; of more, the oldest are not waited for.
pub(super) const LINGERING_MAX: usize = 256;

impl ClosingConnection {
    /// Says what is still in the window. `is_last`: of the peer's last word some is here.
    pub(super) fn new(mut window: Window<Parcel>, is_last: bool) -> Self {
        hasten(&mut window);
        for lane in [WindowLane::Control, WindowLane::Posted, WindowLane::Answers] {
            window.forget_early(lane);
        }
        Self { window, sink: DiscardedMessages { is_last, is_over: false } }
    }

    /// Takes a datagram of the peer. An error if nothing more is to be said to it.
    pub(super) fn hear(&mut self, now: Instant, datagram: &[u8]) -> Result<(), ViError> {
        let Self { window, sink } = self;
        let why = |broken| why(&broken);
        let pieces = window.acknowledged(now, datagram).map_err(why)?;
        while window.poll_sent().is_some() {}
        let Some(pieces) = fault::last_pieces(pieces) else { return Ok(()) };
        window.hear_lane(now, WindowLane::Eager, pieces, sink).map_err(why)?;
        if sink.is_over {
            window.part(now);
        }
        Ok(())
    }
}

/// A peer whose messages would have to wait is not waited for.
fn hasten(window: &mut Window<Parcel>) {
    if !planted(Fault::LingersOn) {
        window.hasten();
    }
}

impl MessageSink for DiscardedMessages {
    fn begin(
        &mut self,
        lane: WindowLane,
        _: MessageStart,
        mut first: &[u8],
    ) -> Result<bool, Box<ViError>> {
        if lane == WindowLane::Eager {
            self.is_last = matches!(WindowFrame::read(lane, &mut first)?, WindowFrame::Goodbye(_));
        }
        Ok(true)
    }

    fn place(&mut self, _: WindowLane, _: u64, _: &[u8]) -> Result<(), Box<ViError>> {
        Ok(())
    }

    fn end(&mut self, lane: WindowLane) -> Result<(), Box<ViError>> {
        self.is_over |= self.is_last && lane == WindowLane::Eager;
        Ok(())
    }
}
