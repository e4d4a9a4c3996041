//! The head of a frame: the tag of one message of a virtual interface.
//!
//! | bits | |
//! |---|---|
//! | 60–63 | what it is |
//! | 55–59 | how many words of arguments are at its end |
//! | 47–54 | the handler |
//! | 24–46 | the slot: a mapping or a channel, numbered by who receives |
//! | 0–23 | the request that it is or answers |

use thiserror::Error;

/// What a frame is, and for whom, in the 64 bits that travel with it.
///
/// ```
/// use egret_node::link::{Head, Kind};
///
/// let head = Head { kind: Kind::Request, words: 3, handler: 7, slot: 5, request: 9 };
/// assert_eq!(head.to_bits(), 0x1183_8000_0500_0009);
/// assert_eq!(Head::from_bits(head.to_bits())?, head);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// Words of arguments at the end of its bytes, at most [`Self::WORDS_MAX`].
    pub words: u8,
    /// The handler it is for.
    pub handler: u8,
    /// The mapping or channel it belongs to, as its receiver numbers them.
    pub slot: u32,
    /// The request it is or answers.
    pub request: u32,
}

/// Of which of a link's three lanes a frame is. None of them waits for those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lane {
    /// What keeps the link itself going.
    Control = 0,
    /// Short and medium messages.
    Talk = 1,
    /// Everything that may be large.
    Bulk = 2,
}

impl Lane {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Control, Self::Talk, Self::Bulk];
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal on $lane:ident,)+) => {
        /// What a frame is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $name = $number,)+
        }

        impl Kind {
            /// Every kind there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The lane it goes by.
            #[must_use]
            #[inline]
            pub const fn lane(self) -> Lane {
                match self {
                    $(Self::$name => Lane::$lane,)+
                }
            }

            #[inline]
            const fn from_bits(bits: u8) -> Option<Self> {
                match bits {
                    $($number => Some(Self::$name),)+
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// Between the two machines: what `handler` says, in bytes.
    Control = 0 on Control,
    /// A message that is answered.
    Request = 1 on Talk,
    /// A message that is not.
    OneWay = 2 on Talk,
    /// The answer to a request.
    Reply = 3 on Talk,
    /// The answer that there will be none, with the reason.
    NoReply = 4 on Talk,
    /// A message that could not be delivered, sent back.
    Returned = 5 on Talk,
    /// A message with data, answered or not.
    Bulk = 6 on Bulk,
    /// The answer to a request, with data.
    BulkReply = 7 on Bulk,
    /// Bytes of a channel, and more of the same message will follow.
    Part = 8 on Bulk,
    /// The last bytes of a channel's message.
    Last = 9 on Bulk,
    /// A channel's message ends here and is not to be used.
    Abort = 10 on Bulk,
    /// A channel ends.
    End = 11 on Bulk,
}

impl Head {
    /// Most words of arguments.
    pub const WORDS_MAX: usize = 16;
    /// Mappings and channels that a link can have in one direction.
    pub const SLOTS: u32 = 1 << 23;
    /// Requests that a link can have under way in one direction.
    pub const REQUESTS: u32 = 1 << 24;

    /// A frame of this kind for a slot.
    #[must_use]
    #[inline]
    pub const fn of(kind: Kind, slot: u32) -> Self {
        Self { kind, words: 0, handler: 0, slot, request: 0 }
    }

    /// As it travels.
    ///
    /// # Panics
    ///
    /// If a number does not fit its bits.
    #[must_use]
    #[inline]
    pub const fn to_bits(self) -> u64 {
        assert!(self.words as usize <= Self::WORDS_MAX && self.slot < Self::SLOTS);
        assert!(self.request < Self::REQUESTS);
        (self.kind as u64) << 60
            | (self.words as u64) << 55
            | (self.handler as u64) << 47
            | (self.slot as u64) << 24
            | self.request as u64
    }

    /// Reads it back.
    ///
    /// # Errors
    ///
    /// If there is no such kind, or it says more words than there can be.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "that many bits are taken")]
    pub const fn from_bits(bits: u64) -> Result<Self, HeadError> {
        let number = (bits >> 60) as u8;
        let Some(kind) = Kind::from_bits(number) else {
            return Err(HeadError::UnknownKind(number));
        };
        let words = (bits >> 55) as u8 & 0x1f;
        if words as usize > Self::WORDS_MAX {
            return Err(HeadError::TooManyWords(words));
        }
        let handler = (bits >> 47) as u8;
        let slot = (bits >> 24) as u32 & (Self::SLOTS - 1);
        Ok(Self { kind, words, handler, slot, request: bits as u32 & (Self::REQUESTS - 1) })
    }
}

/// What is wrong with a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeadError {
    /// No frame is of this kind.
    #[error("there is no frame of kind {0}")]
    UnknownKind(u8),
    /// It says that more words follow than a message has.
    #[error("{0} words of arguments; a message has at most 16")]
    TooManyWords(u8),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(bits: u64) {
            match Head::from_bits(bits) {
                Ok(head) => prop_assert_eq!(head.to_bits(), bits),
                Err(HeadError::UnknownKind(kind)) => prop_assert!(Kind::from_bits(kind).is_none()),
                Err(HeadError::TooManyWords(words)) => prop_assert!(words > 16),
            }
        }
    }

    #[test]
    fn every_kind_has_its_number() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_bits(*kind as u8), Some(*kind));
        }
    }
}
