//! What the two ends of a window have agreed on.

use std::time::Duration;

use super::wire;

/// What both ends go by. They must have the same: what one end may send is what the
/// other expects, and an end that sends more violates the protocol.
#[derive(Debug, Clone, Copy)]
pub(in crate::fabric::window) struct WindowTerms {
    /// Pieces under way in each lane, from 1 to [`Self::MESSAGES_MAX`].
    pub(in crate::fabric::window) messages: u32,
    /// Bytes under way in each lane. One piece may always be.
    pub(in crate::fabric::window) bytes: u64,
    /// Bytes of the largest datagram, at least [`Self::DATAGRAM_MIN`]. The ends may differ in
    /// this, and it may change.
    pub(in crate::fabric::window) datagram: usize,
    /// How long to wait. The ends may differ in this.
    pub(in crate::fabric::window) pace: WindowTiming,
}

/// How long an end waits for what.
#[derive(Debug, Clone, Copy)]
pub(in crate::fabric::window) struct WindowTiming {
    /// How long an acknowledgement waits for something to travel with.
    pub(in crate::fabric::window) ack_delay: Duration,
    /// A piece is not repeated sooner for want of an acknowledgement.
    pub(in crate::fabric::window) repeat_min: Duration,
    /// Nor later, however often it was repeated.
    pub(in crate::fabric::window) repeat_max: Duration,
    /// Repeats in a row without an acknowledgement before the peer counts as silent.
    pub(in crate::fabric::window) repeats_max: u32,
}

impl WindowTerms {
    /// One acknowledgement has room for that many pieces behind the first missing one.
    pub(in crate::fabric::window) const MESSAGES_MAX: u32 = 64;
    /// Room for the heads, and for some bytes.
    pub(in crate::fabric::window) const DATAGRAM_MIN: usize = 128;
    /// What the length of a piece has room for.
    pub(in crate::fabric::window) const DATAGRAM_MAX: usize = wire::LEN_MAX;

    /// Bytes of every piece of a message but the last.
    pub(super) const fn unit(&self) -> u64 {
        (self.datagram - wire::HEAD_MAX - wire::PIECE_MAX) as u64
    }

    pub(super) fn check(&self) {
        assert!((1..=Self::MESSAGES_MAX).contains(&self.messages), "a window of 1 to 64 pieces");
        let datagrams = Self::DATAGRAM_MIN..=Self::DATAGRAM_MAX;
        assert!(datagrams.contains(&self.datagram), "a datagram of {} bytes", self.datagram);
    }
}

impl Default for WindowTiming {
    /// For networks within a building: a round trip is far below ten milliseconds, and
    /// what takes longer is a peer that is not scheduled. Silence is then what lasts
    /// about six seconds.
    fn default() -> Self {
        Self {
            ack_delay: Duration::from_millis(1),
            repeat_min: Duration::from_millis(10),
            repeat_max: Duration::from_millis(500),
            repeats_max: 16,
        }
    }
}
