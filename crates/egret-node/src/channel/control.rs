//! What the two ends of channels tell each other beside the bytes, as it travels: the body of a
//! frame of the kind [`Control`](crate::link::Kind::Control).
//!
//! Little-endian; the first byte says what it is, and then its fields follow without gaps.
//!
//! | | first | then |
//! |---|---|---|
//! | to the reader | 32 open | number 8, name (its length is what is left) |
//! | to the writer | 33 opened | number 8, slot 4, credit 8 |
//! | | 34 refused | number 8, why 1 |
//! | | 35 stop | number 8 |
//!
//! A channel's number is given by who writes it and never used again on the link, so that a
//! frame that comes late is known to be late. Its slot, in the heads of its parts, is.

use thiserror::Error;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control<'a> {
    /// A channel to whoever accepts them by this name.
    Open { number: u64, name: &'a str },
    /// It is there: its parts go to `slot`, and may cost so much.
    Opened { number: u64, slot: u32, credit: u64 },
    /// It is not.
    Refused { number: u64, why: Refusal },
    /// Nobody reads any more.
    Stop { number: u64 },
}

/// Why a channel is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nobody accepts channels by this name.
    #[error("nobody accepts channels by this name there")]
    NoListener,
    /// As many are waiting to be accepted as may.
    #[error("too many channels wait to be accepted there")]
    Backlog,
    /// The node holds as much for others as it may.
    #[error(
        "the node there has no memory to spare for another channel: its budget \
         (LinksOptions::budget) is held, or kept for other peers"
    )]
    NoRoom,
}

impl<'a> Control<'a> {
    /// As it travels, behind what is in `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut put = |what: u8, number: u64, rest: &[&[u8]]| {
            out.push(what);
            out.extend_from_slice(&number.to_le_bytes());
            rest.iter().for_each(|bytes| out.extend_from_slice(bytes));
        };
        match *self {
            Self::Open { number, name } => put(32, number, &[name.as_bytes()]),
            Self::Opened { number, slot, credit } => {
                put(33, number, &[&slot.to_le_bytes(), &credit.to_le_bytes()]);
            }
            Self::Refused { number, why } => put(34, number, &[&[why.code()]]),
            Self::Stop { number } => put(35, number, &[]),
        }
    }

    /// Reads it back, if it is exactly one.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let what = fields.byte()?;
        let number = fields.long()?;
        let control = match what {
            32 => Self::Open { number, name: fields.name()? },
            33 => Self::Opened { number, slot: fields.word()?, credit: fields.long()? },
            34 => Self::Refused { number, why: Refusal::of(fields.byte()?)? },
            35 => Self::Stop { number },
            _ => return None,
        };
        fields.0.is_empty().then_some(control)
    }
}

impl Refusal {
    const fn code(self) -> u8 {
        match self {
            Self::NoListener => 1,
            Self::Backlog => 2,
            Self::NoRoom => 3,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::NoListener),
            2 => Some(Self::Backlog),
            3 => Some(Self::NoRoom),
            _ => None,
        }
    }
}

/// What is left of the bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (now, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*now)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn name(&mut self) -> Option<&'a str> {
        let name = std::mem::take(&mut self.0);
        std::str::from_utf8(name).ok().filter(|name| name.len() <= NAME_MAX)
    }
}

/// The first bytes of those of channels.
pub(crate) const CONTROLS: std::ops::RangeInclusive<u8> = 32..=63;
/// Bytes of the longest name.
pub(crate) const NAME_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(control: &Control<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        control.encode(&mut bytes);
        assert_eq!(Control::decode(&bytes), Some(*control));
        bytes
    }

    #[test]
    fn the_bytes_are_these_for_ever() {
        let number = 0x0102_0304_0506_0708;
        let n = [8, 7, 6, 5, 4, 3, 2, 1];
        let check = |control: Control<'_>, what: u8, rest: &[u8]| {
            assert_eq!(bytes_of(&control), [&[what], &n[..], rest].concat());
        };
        check(Control::Open { number, name: "x" }, 32, b"x");
        let opened = Control::Opened { number, slot: 3, credit: 0x4000 };
        check(opened, 33, &[3, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0]);
        check(Control::Refused { number, why: Refusal::NoListener }, 34, &[1]);
        check(Control::Refused { number, why: Refusal::Backlog }, 34, &[2]);
        check(Control::Refused { number, why: Refusal::NoRoom }, 34, &[3]);
        check(Control::Stop { number }, 35, &[]);
    }

    #[test]
    fn what_is_none_is_refused() {
        let number = [0; 8];
        let long = [&number[..], &[b'x'; 256]].concat();
        for (what, rest) in [
            (31, &number[..]),
            (36, &number),
            (35, &number[1..]),
            (35, &[0; 9]),
            (34, &[0, 0, 0, 0, 0, 0, 0, 0, 9]),
            (32, &[0, 0, 0, 0, 0, 0, 0, 0, 0xff]),
            (32, &long),
        ] {
            assert_eq!(Control::decode(&[&[what], rest].concat()), None);
        }
        assert_eq!(Control::decode(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_one_frame_or_none(
            what in 30..38_u8,
            rest in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let bytes = [&[what], &rest[..]].concat();
            if let Some(control) = Control::decode(&bytes) {
                prop_assert_eq!(bytes_of(&control), bytes);
            }
        }
    }
}
