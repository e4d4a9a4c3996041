//! How far a lane of eager messages is that travel as posted ones, in both directions: a state
//! machine without clock, lock or I/O.
//!
//! Every message and every request has a position, a count of its sender, which goes along with
//! it. The receiver says the highest position that it has drained. At reliable levels that is how
//! many it has drained, for nothing is lost; at the unreliable level what lies below the highest
//! and was not drained is lost, or was overtaken on the way.
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

use std::time::Duration;

use super::eager::Lane;
use crate::fault::planted;
use crate::rt::Instant;

/// A lane of one end.
#[derive(Debug, Default)]
pub(super) struct LaneCounts {
    /// The position of the last message or request that was sent.
    sent: u64,
    /// That of the last message.
    message: u64,
    /// The highest position that the peer has drained, as far as it has said so.
    heard: u64,
    /// The highest position of the peer that was drained here.
    drained: u64,
    /// What the peer was told of that.
    told: u64,
    /// The position of the last request, and when it may be repeated.
    asked: u64,
    ask_again: Instant,
}

/// Messages and requests of each lane that a peer may have sent and this side not drained. Few of
/// what goes with large data: each has memory that waits for it.
const WINDOWS: [u64; 2] = [32, 4];
/// The same of both lanes.
pub(crate) const UNDRAINED_MAX: u64 = WINDOWS[0] + WINDOWS[1];
/// How long an answer may take before the request is repeated, where either may be lost.
const ASK_AGAIN: Duration = Duration::from_millis(10);

impl LaneCounts {
    pub(super) const fn window(lane: usize) -> u64 {
        WINDOWS[lane]
    }

    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) const fn heard(&self) -> u64 {
        self.heard
    }

    pub(super) const fn drained(&self) -> u64 {
        self.drained
    }

    /// Whether the peer has not drained a whole window.
    pub(super) const fn is_full(&self, lane: Lane) -> bool {
        self.sent - self.heard >= WINDOWS[lane as usize]
    }

    /// A message is sent. Its position.
    pub(super) const fn send(&mut self) -> u64 {
        self.sent += 1;
        self.message = self.sent;
        self.sent
    }

    /// Whether the peer is to be asked how far it is; the request has the next position then. It
    /// is asked once for what was sent, if there is room. Where the request and its answer may be
    /// lost, and the present moment is given, there is no window, and the request is repeated.
    pub(super) fn ask(&mut self, lane: Lane, now: Option<Instant>) -> bool {
        let may_ask = self.may_ask(lane, now);
        if may_ask {
            self.sent += 1;
            self.asked = self.sent;
            self.ask_again = now.unwrap_or_default() + ASK_AGAIN;
        }
        may_ask
    }

    fn may_ask(&self, lane: Lane, now: Option<Instant>) -> bool {
        let is_asked = self.asked >= self.message;
        match now {
            _ if self.heard >= self.message => false,
            Some(now) if !planted(Fault::AsksOnce) => !is_asked || now >= self.ask_again,
            _ => !is_asked && !self.is_full(lane),
        }
    }

    /// The peer says the highest position that it has drained, by the low bits. A position that was
    /// never sent is not believed, and one that the peer had drained before changes nothing.
    pub(super) const fn hear(&mut self, low: u32) {
        let behind = low_bits(self.sent).wrapping_sub(low) as u64;
        if let Some(heard) = self.sent.checked_sub(behind)
            && heard > self.heard
        {
            self.heard = heard;
        }
    }

    /// What the peer sent at this position, by the low bits, is drained. Whether it may have this
    /// position: at reliable levels that is the next.
    pub(super) fn drain(&mut self, low: u32, is_reliable: bool) -> bool {
        let ahead = low.wrapping_sub(low_bits(self.drained)).cast_signed();
        if is_reliable && ahead != 1 {
            return false;
        }
        self.drained = self.drained.saturating_add(positions(ahead));
        true
    }

    /// How much was drained that the peer was not told of.
    pub(super) const fn owed(&self) -> u64 {
        self.drained - self.told
    }

    /// The peer is told how much was drained.
    pub(super) const fn tell(&mut self) {
        self.told = self.drained;
    }

    #[cfg(test)]
    pub(super) fn at(sent: u64, drained: u64) -> Self {
        Self { sent, message: sent, drained, ..Self::default() }
    }
}

/// How many positions that is; none, if the peer had drained before what it drained now.
fn positions(ahead: i32) -> u64 {
    if planted(Fault::CountsDrained) { 1 } else { u64::try_from(ahead).unwrap_or(0) }
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits")]
pub(super) const fn low_bits(count: u64) -> u32 {
    count as u32
}

/// Faults that tests plant; see [`crate::fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The peer is told how many messages were drained, not how far.
    CountsDrained,
    /// The peer is asked once, and not at all while a window is under way, at every level.
    AsksOnce,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_drain_counts_are_ignored() {
        let mut counts = LaneCounts { sent: 5, heard: 2, ..LaneCounts::default() };
        for (low, heard) in [(6, 2), (1, 2), (4, 4), (u32::MAX, 4), (5, 5)] {
            counts.hear(low);
            assert_eq!(counts.heard, heard, "after {low}");
        }
    }

    #[test]
    fn low_bits_say_the_whole_position() {
        let edge = u64::from(u32::MAX);
        let mut sender = LaneCounts { sent: edge + 3, heard: edge - 2, ..LaneCounts::default() };
        sender.hear(u32::MAX);
        assert_eq!(sender.heard, edge);
        sender.hear(1);
        assert_eq!(sender.heard, edge + 2);
        sender.hear(u32::MAX);
        assert_eq!(sender.heard, edge + 2, "an older answer that comes later");
        let mut receiver = LaneCounts::at(0, edge - 1);
        for (low, drained) in [(u32::MAX, edge), (2, edge + 3), (1, edge + 3)] {
            assert!(receiver.drain(low, false));
            assert_eq!(receiver.drained, drained, "after {low}");
        }
    }

    #[test]
    fn where_nothing_is_lost_positions_have_no_gaps() {
        let mut counts = LaneCounts::default();
        assert!(counts.drain(1, true) && counts.drain(2, true));
        for low in [2, 4, 0, 1 << 31] {
            assert!(!counts.drain(low, true), "{low} after 2");
        }
        assert_eq!((counts.drained, counts.owed()), (2, 2));
        assert!(counts.drain(40, false) && counts.drain(39, false));
        assert_eq!(counts.drained, 40, "the highest");
    }

    #[test]
    fn a_request_is_repeated_only_where_it_may_be_lost() {
        let (start, mut counts) = (Instant::from_nanos(0), LaneCounts::default());
        assert!(!counts.ask(Lane::Bulk, None), "there is nothing to ask");
        counts.send();
        assert!(counts.ask(Lane::Bulk, None));
        assert!(!counts.ask(Lane::Bulk, None), "once for a message");
        assert_eq!((counts.send(), counts.send()), (3, 4));
        assert!(counts.is_full(Lane::Bulk) && !counts.ask(Lane::Bulk, None), "without room");
        assert!(counts.ask(Lane::Bulk, Some(start)), "no lane is full where messages are lost");
        assert!(!counts.ask(Lane::Bulk, Some(start)), "too soon");
        assert!(counts.ask(Lane::Bulk, Some(start + ASK_AGAIN)));
        counts.hear(4);
        assert!(!counts.ask(Lane::Bulk, Some(start + 3 * ASK_AGAIN)), "all messages have arrived");
    }
}
