//! What the two ends of channels tell each other beside the bytes, as it travels: the body of a
//! frame of the kind [`Control`](crate::link::Kind::Control).
//!
//! Little-endian; the first byte says what it is, and then its fields follow without gaps.
//!
//! | | first | then |
//! |---|---|---|
//! | to the reader | 32 open | number 8, name (its length is what is left) |
//! | | 36 want | number 8, up to 8, length 8 |
//! | | 40 unused | number 8, bytes 8 |
//! | | 41 withdraw | number 8 |
//! | to the writer | 33 opened | number 8, slot 4, credit 8 |
//! | | 34 refused | number 8, why 1 |
//! | | 35 credit | number 8, bytes 8 |
//! | | 37 too large | number 8, up to 8, most 8 |
//! | | 38 stop | number 8 |
//! | | 39 recall | number 8, keep 8 |
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
    /// More may be sent.
    Credit { number: u64, bytes: u64 },
    /// A part of `len` bytes cannot be sent without credit `upto` there, counted from the
    /// beginning of the channel.
    Want { number: u64, upto: u64, len: u64 },
    /// That part will never be granted: no part may cost more than this.
    TooLarge { number: u64, upto: u64, most: u64 },
    /// Nobody reads any more.
    Stop { number: u64 },
    /// Credit beyond this is needed elsewhere, if it is not needed here.
    Recall { number: u64, keep: u64 },
    /// Credit that will not be used.
    Unused { number: u64, bytes: u64 },
    /// What was wanted is not any more.
    Withdraw { number: u64 },
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

/// What is wrong with the bytes of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// It is none of those of channels.
    #[error("no control frame of a channel begins with {0}")]
    Unknown(u8),
    /// It has more or fewer bytes than such a frame.
    #[error("a control frame of {0} bytes")]
    Length(usize),
    /// A name that is no text, or longer than names are.
    #[error("a name that is no text of at most 255 bytes")]
    Name,
    /// A reason that there is not.
    #[error("no refusal is {0}")]
    Refusal(u8),
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
            Self::Credit { number, bytes } => put(35, number, &[&bytes.to_le_bytes()]),
            Self::Want { number, upto, len } => {
                put(36, number, &[&upto.to_le_bytes(), &len.to_le_bytes()]);
            }
            Self::TooLarge { number, upto, most } => {
                put(37, number, &[&upto.to_le_bytes(), &most.to_le_bytes()]);
            }
            Self::Stop { number } => put(38, number, &[]),
            Self::Recall { number, keep } => put(39, number, &[&keep.to_le_bytes()]),
            Self::Unused { number, bytes } => put(40, number, &[&bytes.to_le_bytes()]),
            Self::Withdraw { number } => put(41, number, &[]),
        }
    }

    /// Reads it back.
    ///
    /// # Errors
    ///
    /// If it is not exactly one.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, ControlError> {
        let mut fields = Fields { rest: bytes, len: bytes.len() };
        let what = fields.byte()?;
        if !(32..=41).contains(&what) {
            return Err(ControlError::Unknown(what));
        }
        let number = fields.long()?;
        let control = match what {
            32 => Self::Open { number, name: fields.name()? },
            33 => Self::Opened { number, slot: fields.word()?, credit: fields.long()? },
            34 => Self::Refused { number, why: Refusal::of(fields.byte()?)? },
            35 => Self::Credit { number, bytes: fields.long()? },
            36 => Self::Want { number, upto: fields.long()?, len: fields.long()? },
            37 => Self::TooLarge { number, upto: fields.long()?, most: fields.long()? },
            38 => Self::Stop { number },
            39 => Self::Recall { number, keep: fields.long()? },
            40 => Self::Unused { number, bytes: fields.long()? },
            _ => Self::Withdraw { number },
        };
        if fields.rest.is_empty() { Ok(control) } else { Err(ControlError::Length(bytes.len())) }
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

    const fn of(code: u8) -> Result<Self, ControlError> {
        match code {
            1 => Ok(Self::NoListener),
            2 => Ok(Self::Backlog),
            3 => Ok(Self::NoRoom),
            _ => Err(ControlError::Refusal(code)),
        }
    }
}

struct Fields<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ControlError> {
        let (now, rest) = self.rest.split_first_chunk().ok_or(ControlError::Length(self.len))?;
        self.rest = rest;
        Ok(*now)
    }

    fn byte(&mut self) -> Result<u8, ControlError> {
        Ok(self.array::<1>()?[0])
    }

    fn word(&mut self) -> Result<u32, ControlError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn long(&mut self) -> Result<u64, ControlError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn name(&mut self) -> Result<&'a str, ControlError> {
        let name = std::mem::take(&mut self.rest);
        let short = name.len() <= NAME_MAX;
        std::str::from_utf8(name).ok().filter(|_| short).ok_or(ControlError::Name)
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
        assert_eq!(Control::decode(&bytes), Ok(*control));
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
        check(Control::Credit { number, bytes: 1 }, 35, &[1, 0, 0, 0, 0, 0, 0, 0]);
        let two = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        check(Control::Want { number, upto: 1, len: 2 }, 36, &two);
        check(Control::TooLarge { number, upto: 1, most: 2 }, 37, &two);
        check(Control::Stop { number }, 38, &[]);
        check(Control::Recall { number, keep: 1 }, 39, &two[..8]);
        check(Control::Unused { number, bytes: 1 }, 40, &two[..8]);
        check(Control::Withdraw { number }, 41, &[]);
    }

    #[test]
    fn what_is_none_is_refused_with_the_reason() {
        let decode = |bytes: &[u8]| Control::decode(bytes).unwrap_err();
        assert_eq!(decode(&[]), ControlError::Length(0));
        assert_eq!(decode(&[31, 0, 0, 0, 0, 0, 0, 0, 0]), ControlError::Unknown(31));
        assert_eq!(decode(&[42, 0, 0, 0, 0, 0, 0, 0, 0]), ControlError::Unknown(42));
        assert_eq!(decode(&[38, 0, 0, 0, 0, 0, 0, 0, 0, 0]), ControlError::Length(10));
        assert_eq!(decode(&[34, 0, 0, 0, 0, 0, 0, 0, 0, 9]), ControlError::Refusal(9));
        assert_eq!(decode(&[32, 0, 0, 0, 0, 0, 0, 0, 0, 0xff]), ControlError::Name);
        let long = [&[32, 0, 0, 0, 0, 0, 0, 0, 0][..], &[b'x'; 256]].concat();
        assert_eq!(decode(&long), ControlError::Name);
    }

    proptest! {
        #[test]
        fn any_bytes_are_one_frame_or_an_error(
            what in 30..44_u8,
            rest in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let bytes = [&[what], &rest[..]].concat();
            if let Ok(control) = Control::decode(&bytes) {
                prop_assert_eq!(bytes_of(&control), bytes);
            }
        }
    }
}
