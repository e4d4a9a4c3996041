//! How much a lane may have under way for the network's sake.

use super::fault;

/// As TCP has it, in pieces: it begins with a few, doubles each round until something
/// is lost, goes down to half of that (but no less than four), and then grows by one each
/// round. After silence it begins again with one.
#[derive(Debug)]
pub(super) struct Congestion {
    window: u32,
    max: u32,
    /// Up to here it doubles.
    threshold: u32,
    /// Acknowledged since it last grew by one.
    acked: u32,
    /// A loss of a piece before this one has been answered.
    answered: u64,
}

impl Congestion {
    const FIRST: u32 = 8;
    /// With fewer under way a loss is not seen by what overtakes it.
    const LEAST: u32 = 4;

    pub(super) fn new(max: u32) -> Self {
        Self { window: Self::FIRST.min(max), max, threshold: max, acked: 0, answered: 0 }
    }

    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// So many pieces were acknowledged.
    pub(super) fn acknowledged(&mut self, pieces: u32) {
        if self.window < self.threshold {
            self.window = (self.window + pieces).min(self.threshold);
            return;
        }
        self.acked += pieces;
        if self.acked >= self.window {
            self.acked = 0;
            self.window = (self.window + 1).min(self.max);
        }
    }

    /// A piece was lost, when those before `next` had been sent.
    pub(super) fn lost(&mut self, number: u64, next: u64) {
        if number >= self.answered {
            self.answered = next;
            self.halve();
            self.window = self.threshold;
        }
    }

    /// From now on the network is not spared.
    pub(super) const fn burst(&mut self) {
        self.window = self.max;
    }

    /// Nothing was acknowledged for too long.
    pub(super) fn silent(&mut self, next: u64) {
        if self.window > 1 {
            self.halve();
        }
        self.answered = next;
        self.window = fault::window_after_silence(1, self.max);
    }

    fn halve(&mut self) {
        self.threshold = (self.window / 2).max(Self::LEAST).min(self.max);
        self.acked = 0;
    }
}
