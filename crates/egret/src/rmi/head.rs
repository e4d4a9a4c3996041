//! The words of requests and answers.
//!
//! The first word of a request has how long its caller waits, in microseconds (40 bits; 0: as long
//! as the peers live), the method (8 bits), and the number that the object's node has given to the
//! interface (14 bits). The second word is the number of the chain of calls that the call is a part
//! of, the third the object. If the highest bit of the first word is set, the fourth word is the
//! number by which the caller can cancel the call. No two calls of a node have the same number,
//! ever: a word to cancel one may be late, and must not meet another. The other words are the
//! numbers of the calls that it is a part of and that are inside of a [gate](crate::rmi::callee::gate). If the
//! second highest bit is set, a word in front of them says which version of the method's types the caller has.
//!
//! With up to 24 bytes of arguments a call that has three words is one line of a ring.
//!
//! An answer without words has its value in the payload. Else the first word says what it is:
//! 0 that the value is in the words behind it, anything else why there is none.

use std::sync::Arc;
use std::time::Duration;

use egret_net::rt::Deadline;

use egret_node::am::Message;

use crate::rmi::callee::objects::{CALL, CALL_IN_ORDER};
use crate::rmi::interface_table::{MethodVersion, NOT_SAME};

/// What a request says besides its arguments.
#[derive(Debug, Clone)]
pub(crate) struct CallHead {
    pub(crate) to: CallAddress,
    /// How long its caller waits.
    pub(crate) deadline: Deadline,
    /// What all calls have in common that one call makes, directly or not.
    pub(crate) chain: u64,
    /// By which it can be cancelled; 0 if it cannot.
    pub(crate) number: u64,
    /// The calls that it is a part of.
    pub(crate) within: EnclosingCalls,
    /// How its arguments are read, where its object is, if its method has other types there.
    pub(crate) version: Option<Arc<MethodVersion>>,
}

/// What is called, as the object's node numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallAddress {
    pub(crate) object: u64,
    /// The interface that the caller takes the object for.
    pub(crate) interface: u16,
    pub(crate) method: u8,
    /// The handler there, which the words do not say.
    pub(crate) handler: u8,
    /// Which version of the method's types the caller has; 0 if they are the same.
    pub(crate) version: u64,
}

impl CallAddress {
    /// A message for the handler there, which keeps the order if the object has a gate.
    #[inline]
    pub(crate) const fn message<'a>(&self, words: &'a [u64]) -> Message<'a> {
        let message = Message::to(self.handler).words(words);
        if self.handler == CALL_IN_ORDER { message.in_order() } else { message }
    }

    /// Whether it is none: of a method that the object does not have as its stub does.
    #[inline]
    pub(crate) const fn is_refused(&self) -> bool {
        self.method == NOT_SAME
    }

    /// Of a call that was not sent.
    pub(crate) const UNKNOWN: Self =
        Self { object: 0, interface: 0, method: 0, handler: CALL, version: 0 };
}

/// Numbers of calls inside of gates, the outermost first. Most calls have none or few, and
/// it is handed around a lot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EnclosingCalls {
    Few([u64; FEW], u8),
    Many(Vec<u64>),
}

impl EnclosingCalls {
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

impl Default for EnclosingCalls {
    fn default() -> Self {
        Self::Few([0; FEW], 0)
    }
}

impl CallHead {
    /// Writes it to words, and says how many.
    #[inline]
    pub(crate) fn write(&self, words: &mut [u64; WORDS_MAX]) -> usize {
        let micros = match self.deadline {
            Deadline::UntilDead => 0,
            Deadline::In(left) => u64::try_from(left.as_micros())
                .map_or(MICROS_MAX, |micros| micros.clamp(1, MICROS_MAX)),
        };
        let CallAddress { object, interface, method, .. } = self.to;
        words[0] = micros | u64::from(method) << METHOD_AT | u64::from(interface) << INTERFACE_AT;
        words[1] = self.chain;
        words[2] = object;
        let mut count = 3;
        if self.number > 0 {
            words[0] |= NUMBERED;
            words[3] = self.number;
            count = 4;
        }
        let mut within = self.within.numbers();
        if self.to.version != 0 {
            words[0] |= VERSIONED;
            words[count] = self.to.version;
            count += 1;
            // The outermost may have no room.
            within = &within[within.len().saturating_sub(WORDS_MAX - count)..];
        }
        words[count..count + within.len()].copy_from_slice(within);
        count + within.len()
    }

    /// Reads what a peer sent.
    #[inline]
    pub(crate) fn read(words: &[u64]) -> Option<Self> {
        let ([first, chain, object], rest) = words.split_first_chunk()?;
        let (number, rest) = match first & NUMBERED {
            0 => (0, rest),
            _ => rest.split_first().map(|(number, rest)| (*number, rest))?,
        };
        let (version, within) = match first & VERSIONED {
            0 => (0, rest),
            _ => rest.split_first().map(|(version, within)| (*version, within))?,
        };
        let deadline = match first & MICROS_MAX {
            0 => Deadline::UntilDead,
            micros => Deadline::In(Duration::from_micros(micros)),
        };
        // Their bits alone, which fit.
        let interface = (first >> INTERFACE_AT & u64::from(INTERFACES_MAX)) as u16;
        let method = (first >> METHOD_AT & 0xFF) as u8;
        let to = CallAddress { object: *object, interface, method, handler: CALL, version };
        let within = EnclosingCalls::of(within)?;
        Some(Self { to, deadline, chain: *chain, number, within, version: None })
    }
}

/// Why there is no value, as the first word of an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum AnswerCode {
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
    /// The interface of the object is in the payload.
    OtherInterface = 10,
    /// The object has no method of this number.
    UnknownMethod = 11,
    /// What the method returns is in the payload, as a whole and as it is at the object: the caller has said that
    /// the type is another there.
    OtherVersion = 12,
    /// The fabric does not give what the object requires. Why is in the payload.
    Unsuitable = 13,
}

impl AnswerCode {
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
            Self::OtherInterface,
            Self::UnknownMethod,
            Self::OtherVersion,
            Self::Unsuitable,
        ];
        all.into_iter().find(|code| *code as u64 == word)
    }
}

/// Words of a message.
pub(crate) const WORDS_MAX: usize = 16;
/// Calls that a call says it is a part of.
pub(crate) const WITHIN_MAX: usize = WORDS_MAX - 4;
/// As many are remembered without memory of their own.
const FEW: usize = 2;
const MICROS_MAX: u64 = (1 << 40) - 1;
const METHOD_AT: u32 = 40;
const INTERFACE_AT: u32 = 48;
/// The highest number of an interface.
pub(crate) const INTERFACES_MAX: u16 = (1 << 14) - 1;
/// Set in the first word if a word says which version of the method's types the caller has.
const VERSIONED: u64 = 1 << 62;
/// Set in the first word if the fourth is the call's number.
const NUMBERED: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::*;

    const TO: CallAddress =
        CallAddress { object: 9, interface: INTERFACES_MAX, method: 7, handler: CALL, version: 0 };

    /// Fails unless the words are read as what wrote them.
    fn is_read(words: &[u64]) {
        let mut again = [0; WORDS_MAX];
        let count = CallHead::read(words).expect("a head").write(&mut again);
        assert_eq!(&again[..count], words);
    }

    #[test]
    fn the_words_are_these_for_ever() {
        let mut within = EnclosingCalls::default();
        within.push(7);
        within.push(9);
        let deadline = Deadline::In(Duration::from_millis(5));
        let (object, interface) = (0x1234_5678_9ABC_DEF0, 0x3AB);
        let to = CallAddress { object, interface, method: 0xCD, handler: CALL, version: 0 };
        let head = CallHead { to, deadline, chain: 5, number: 3, within, version: None };
        let mut words = [0; WORDS_MAX];
        let count = head.write(&mut words);
        assert_eq!(&words[..count], [0x83AB_CD00_0000_1388, 5, 0x1234_5678_9ABC_DEF0, 3, 7, 9]);
        is_read(&words[..count]);
        let head = CallHead { number: 0, ..head };
        let count = head.write(&mut words);
        assert_eq!(&words[..count], [0x03AB_CD00_0000_1388, 5, 0x1234_5678_9ABC_DEF0, 7, 9]);
        is_read(&words[..count]);
        // Of a method whose types are another version.
        let to = CallAddress { version: 0xFEDC_BA98_7654_3210, ..to };
        let head = CallHead { to, ..head };
        let count = head.write(&mut words);
        let version = 0xFEDC_BA98_7654_3210;
        let first = 0x43AB_CD00_0000_1388;
        assert_eq!(&words[..count], [first, 5, 0x1234_5678_9ABC_DEF0, version, 7, 9]);
        is_read(&words[..count]);
        let count = CallHead { number: 3, ..head }.write(&mut words);
        let first = 0xC3AB_CD00_0000_1388;
        assert_eq!(&words[..count], [first, 5, 0x1234_5678_9ABC_DEF0, 3, version, 7, 9]);
        is_read(&words[..count]);
    }

    #[test]
    fn of_a_call_with_all_words_the_outermost_enclosing_call_has_no_room() {
        let mut within = EnclosingCalls::default();
        (1..=12).for_each(|number| within.push(number));
        let to = CallAddress { version: 8, ..TO };
        let (deadline, number) = (Deadline::NOW, 3);
        let head = CallHead { to, deadline, chain: 0, number, within, version: None };
        let mut words = [0; WORDS_MAX];
        assert_eq!(head.write(&mut words), WORDS_MAX);
        assert_eq!(&words[3..], [3, 8, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        is_read(&words);
    }

    #[test]
    fn a_number_is_read_as_it_was_written() {
        let mut words = [0; WORDS_MAX];
        for number in [1, (1 << 24) - 1, 1 << 24, (1 << 24) + 3] {
            let within = EnclosingCalls::default();
            let deadline = Deadline::NOW;
            let head = CallHead { to: TO, deadline, chain: 0, number, within, version: None };
            let count = head.write(&mut words);
            let read = CallHead::read(&words[..count]).unwrap();
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
            let within = EnclosingCalls::default();
            let head = CallHead { to: TO, deadline, chain: 0, number: 0, within, version: None };
            head.write(&mut words);
            assert_eq!(words[0] & MICROS_MAX, micros, "{deadline:?}");
        }
    }

    #[test]
    fn the_innermost_calls_are_remembered() {
        let mut within = EnclosingCalls::default();
        (1..=20).for_each(|number| within.push(number));
        assert_eq!(within.numbers(), (9..=20).collect::<Vec<_>>());
    }

    #[test]
    fn words_that_no_caller_sends_are_no_head() {
        let is_none = |words: &[u64]| CallHead::read(words).is_none();
        assert!(is_none(&[]) && is_none(&[0; WORDS_MAX + 1]));
        assert!(is_none(&[1, 2]), "the object is missing");
        assert!(is_none(&[NUMBERED, 1, 2]), "the number is missing");
        assert!(is_none(&[VERSIONED, 1, 2]), "the version is missing");
        assert!(is_none(&[NUMBERED | VERSIONED, 1, 2, 3]), "the version is missing");
        assert!(is_none(&[1; WORDS_MAX]), "one call more than a head has");
        is_read(&[u64::MAX; WORDS_MAX]);
        assert_eq!(AnswerCode::of(0), None);
        assert_eq!(AnswerCode::of(u64::MAX), None);
        assert_eq!(AnswerCode::of(8), Some(AnswerCode::Unreadable));
    }
}
