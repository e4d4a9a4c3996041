//! The words of requests and answers.
//!
//! A request's first word has how long its caller waits, in microseconds (40 bits; 0: as long
//! as the peers live), the second the number of the chain of calls that it is a part of. If the
//! highest bit of the first is set, the next word is the number by which the
//! caller can cancel the call. No two calls of a node have the same number, ever: a word to
//! cancel one may be late, and must not meet another. The other words are the numbers of the
//! calls that it is a part of and that are inside of a [gate](super::gate).
//!
//! An answer without words has its value in the payload. Else the first word says what it is:
//! 0 that the value is in the words behind it, anything else why there is none.

use std::time::Duration;

use egret_net::rt::Deadline;

/// What a request says besides its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// How long its caller waits.
    pub(crate) deadline: Deadline,
    /// What all calls have in common that one call makes, directly or not.
    pub(crate) chain: u64,
    /// By which it can be cancelled; 0 if it cannot.
    pub(crate) number: u64,
    /// The calls that it is a part of.
    pub(crate) within: Within,
}

/// Numbers of calls inside of gates, the outermost first. Most calls have none or few, and
/// it is handed around a lot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Within {
    Few([u64; FEW], u8),
    Many(Vec<u64>),
}

impl Within {
    pub(crate) fn numbers(&self) -> &[u64] {
        match self {
            Self::Few(numbers, count) => &numbers[..usize::from(*count)],
            Self::Many(numbers) => numbers,
        }
    }

    /// One more. Beyond [`WITHIN_MAX`] the outermost is forgotten: a call that comes back to
    /// it is not recognised, and ends at its deadline.
    pub(crate) fn push(&mut self, number: u64) {
        match self {
            Self::Few(numbers, count) if usize::from(*count) < FEW => {
                numbers[usize::from(*count)] = number;
                *count += 1;
            }
            Self::Few(numbers, _) => *self = Self::Many([&numbers[..], &[number]].concat()),
            Self::Many(numbers) => {
                if numbers.len() == WITHIN_MAX {
                    numbers.remove(0);
                }
                numbers.push(number);
            }
        }
    }

    #[inline]
    fn of(numbers: &[u64]) -> Option<Self> {
        let mut within = Self::default();
        if numbers.len() > WITHIN_MAX {
            return None;
        }
        numbers.iter().for_each(|number| within.push(*number));
        Some(within)
    }
}

impl Default for Within {
    fn default() -> Self {
        Self::Few([0; FEW], 0)
    }
}

impl Head {
    /// Writes it to words, and says how many.
    #[inline]
    pub(crate) fn write(&self, words: &mut [u64; WORDS_MAX]) -> usize {
        let micros = match self.deadline {
            Deadline::UntilDead => 0,
            Deadline::In(left) => u64::try_from(left.as_micros())
                .map_or(MICROS_MAX, |micros| micros.clamp(1, MICROS_MAX)),
        };
        words[0] = micros;
        words[1] = self.chain;
        let mut count = 2;
        if self.number > 0 {
            words[0] |= NUMBERED;
            words[2] = self.number;
            count = 3;
        }
        let within = self.within.numbers();
        words[count..count + within.len()].copy_from_slice(within);
        count + within.len()
    }

    /// Reads what a peer sent.
    #[inline]
    pub(crate) fn read(words: &[u64]) -> Option<Self> {
        let ([first, chain], rest) = words.split_first_chunk()?;
        if first & !(MICROS_MAX | NUMBERED) != 0 {
            return None;
        }
        let (number, within) = match first & NUMBERED {
            0 => (0, rest),
            _ => rest.split_first().map(|(number, within)| (*number, within))?,
        };
        let deadline = match first & MICROS_MAX {
            0 => Deadline::UntilDead,
            micros => Deadline::In(Duration::from_micros(micros)),
        };
        Some(Self { deadline, chain: *chain, number, within: Within::of(within)? })
    }
}

/// Why there is no value, as the first word of an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// The method's own error is in the payload.
    Failed = 1,
    /// The words it panicked with are in the payload.
    Panicked = 2,
    /// The deadline passed before it ran.
    Expired = 3,
    Busy = 4,
    Cancelled = 5,
    Reentered = 6,
    /// Behind it are how many bytes there were, and how many there may be.
    TooLarge = 7,
    /// Why is in the payload.
    Unreadable = 8,
    UnknownObject = 9,
}

impl Code {
    pub(crate) fn of(word: u64) -> Option<Self> {
        let all = [
            Self::Failed,
            Self::Panicked,
            Self::Expired,
            Self::Busy,
            Self::Cancelled,
            Self::Reentered,
            Self::TooLarge,
            Self::Unreadable,
            Self::UnknownObject,
        ];
        all.into_iter().find(|code| *code as u64 == word)
    }
}

/// Words of a message.
pub(crate) const WORDS_MAX: usize = 16;
/// Calls that a call says it is a part of.
pub(crate) const WITHIN_MAX: usize = WORDS_MAX - 3;
/// As many are remembered without memory of their own.
const FEW: usize = 2;
const MICROS_MAX: u64 = (1 << 40) - 1;
/// Set in the first word if the next one is the call's number.
const NUMBERED: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_these_for_ever() {
        let mut within = Within::default();
        within.push(7);
        within.push(9);
        let deadline = Deadline::In(Duration::from_millis(5));
        let head = Head { deadline, chain: 5, number: 3, within };
        let mut words = [0; WORDS_MAX];
        let count = head.write(&mut words);
        assert_eq!(&words[..count], [0x8000_0000_0000_1388, 5, 3, 7, 9]);
        assert_eq!(Head::read(&words[..count]), Some(head.clone()));
        let head = Head { number: 0, ..head };
        let count = head.write(&mut words);
        assert_eq!(&words[..count], [0x1388, 5, 7, 9]);
        assert_eq!(Head::read(&words[..count]), Some(head));
    }

    #[test]
    fn a_number_is_read_as_it_was_written() {
        let mut words = [0; WORDS_MAX];
        for number in [1, (1 << 24) - 1, 1 << 24, (1 << 24) + 3] {
            let within = Within::default();
            let head = Head { deadline: Deadline::NOW, chain: 0, number, within };
            let count = head.write(&mut words);
            let read = Head::read(&words[..count]).unwrap();
            assert_eq!(read.number, number);
        }
    }

    #[test]
    fn a_deadline_is_never_taken_for_none() {
        let mut words = [0; WORDS_MAX];
        for (deadline, micros) in [
            (Deadline::NOW, 1),
            (Deadline::In(Duration::MAX), MICROS_MAX),
            (Deadline::UntilDead, 0),
        ] {
            Head { deadline, chain: 0, number: 0, within: Within::default() }.write(&mut words);
            assert_eq!(words[0], micros, "{deadline:?}");
        }
    }

    #[test]
    fn the_innermost_calls_are_remembered() {
        let mut within = Within::default();
        (1..=20).for_each(|number| within.push(number));
        assert_eq!(within.numbers(), (8..=20).collect::<Vec<_>>());
    }

    #[test]
    fn words_that_no_caller_sends_are_no_head() {
        assert_eq!(Head::read(&[]), None);
        assert_eq!(Head::read(&[0; WORDS_MAX + 1]), None);
        assert_eq!(Head::read(&[u64::MAX; WORDS_MAX]), None);
        assert_eq!(Head::read(&[1]), None, "the chain is missing");
        assert_eq!(Head::read(&[NUMBERED, 1]), None, "the number is missing");
        assert_eq!(Head::read(&[1; WORDS_MAX]), None, "one call more than a head has");
        let mut most = [u64::MAX; WORDS_MAX];
        most[0] = NUMBERED | MICROS_MAX;
        assert!(Head::read(&most).is_some());
        assert_eq!(Code::of(0), None);
        assert_eq!(Code::of(u64::MAX), None);
        assert_eq!(Code::of(8), Some(Code::Unreadable));
    }
}
