//! Which messages of a sender are finished, so that none is received twice.

use super::fault::{Fault, planted};

/// Remembers the last [`SPAN`] messages; all before them count as finished.
#[derive(Debug, Clone, Default)]
pub(super) struct MessageHistory {
    /// One more than the highest number that is over.
    end: u64,
    /// A bit for each number below `end`, at its remainder.
    over: [u64; WORDS],
}

const WORDS: usize = 16;
/// How many messages are remembered as finished.
pub(super) const SPAN: u64 = 64 * WORDS as u64;

impl MessageHistory {
    /// Whether the message with this number is received, dropped or given up.
    #[inline]
    pub(super) fn is_over(&self, number: u64) -> bool {
        if number >= self.end || planted(Fault::OverForgotten) {
            return false;
        }
        let (word, bit) = place(number);
        self.end - number > SPAN || self.over[word] & bit != 0
    }

    /// From now on it is. No message has the very last number.
    #[inline]
    pub(super) fn end(&mut self, number: u64) {
        if number >= self.end {
            self.advance(number);
        }
        if self.end - number <= SPAN {
            let (word, bit) = place(number);
            self.over[word] |= bit;
        }
    }

    /// Makes room up to this number, of which nothing is known in between.
    fn advance(&mut self, number: u64) {
        if number - self.end >= SPAN {
            self.over = [0; WORDS];
        } else {
            for skipped in self.end..=number {
                let (word, bit) = place(skipped);
                self.over[word] &= !bit;
            }
        }
        self.end = number + 1;
    }
}

/// Where the bit of a number is.
const fn place(number: u64) -> (usize, u64) {
    let at = number % SPAN;
    let word = (at / 64) as usize;
    (word, 1 << (at % 64))
}
