//! Which numbers have come, among the latest.

/// The highest number that has come, and which of those below it have.
#[derive(Debug)]
pub(super) struct ReplayWindow {
    /// One more than the highest.
    end: u64,
    /// A bit for each number, where its word is by its higher bits.
    words: [u64; WORDS],
}

const WORDS: usize = 32;
const BITS: u64 = u64::BITS as u64;
/// Numbers below the end that are kept track of: all words but the one that the next number may
/// begin anew.
pub(super) const TRACKED: u64 = (WORDS as u64 - 1) * BITS;

/// What is known of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplayVerdict {
    /// The number is new.
    New,
    /// The number was received before.
    Come,
    /// The number is older than the window.
    Old,
}

impl ReplayWindow {
    pub(super) const fn new() -> Self {
        Self { end: 0, words: [0; WORDS] }
    }

    #[inline]
    pub(super) const fn look(&self, number: u64) -> ReplayVerdict {
        if number >= self.end {
            return ReplayVerdict::New;
        }
        if self.end - number > TRACKED {
            return ReplayVerdict::Old;
        }
        let (word, bit) = place(number);
        if self.words[word] & bit == 0 { ReplayVerdict::New } else { ReplayVerdict::Come }
    }

    /// A number that is new has come.
    #[inline]
    pub(super) fn mark(&mut self, number: u64) {
        if number >= self.end {
            let (from, to) = (self.end.div_ceil(BITS), number / BITS);
            for word in (from..=to).take(WORDS) {
                self.words[index(word)] = 0;
            }
            self.end = number + 1;
        }
        let (word, bit) = place(number);
        self.words[word] |= bit;
    }
}

const fn place(number: u64) -> (usize, u64) {
    (index(number / BITS), 1 << (number % BITS))
}

#[expect(clippy::cast_possible_truncation, reason = "of few words")]
const fn index(word: u64) -> usize {
    (word % WORDS as u64) as usize
}
