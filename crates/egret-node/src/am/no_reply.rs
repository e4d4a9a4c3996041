//! Answers that say that there is no answer, and why.

use egret_net::vi::AccessError;

use super::CallError;
use crate::link::Head;
use crate::link::arrived::Arrived;

/// Why a request has no answer. It travels as the handler and the words of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// The handler gave none.
    Missing,
    /// The handler panicked.
    Panicked,
    /// The data of the answer needs so many bytes, more than who asked takes.
    TooLarge { bytes: u64 },
    /// The segment was taken back.
    Revoked,
    /// The segment may not be read.
    NotReadable,
    /// The segment may not be written.
    NotWritable,
    /// What was asked for is outside of the segment.
    Outside { offset: u64, len: u64, size: u64 },
}

impl NoReply {
    /// As it travels.
    pub(crate) fn to_parts(self) -> (u8, Vec<u64>) {
        match self {
            Self::Missing => (0, Vec::new()),
            Self::Panicked => (1, Vec::new()),
            Self::TooLarge { bytes } => (2, vec![bytes]),
            Self::Revoked => (3, Vec::new()),
            Self::NotReadable => (4, Vec::new()),
            Self::NotWritable => (5, Vec::new()),
            Self::Outside { offset, len, size } => (6, vec![offset, len, size]),
        }
    }

    /// What has arrived. What nobody knows is no answer.
    pub(crate) fn of(arrived: &Arrived) -> Self {
        let mut words = [0; Head::WORDS_MAX];
        let count = arrived.read_words(&mut words);
        match (arrived.head.handler, &words[..count]) {
            (1, _) => Self::Panicked,
            (2, &[bytes]) => Self::TooLarge { bytes },
            (3, _) => Self::Revoked,
            (4, _) => Self::NotReadable,
            (5, _) => Self::NotWritable,
            (6, &[offset, len, size]) => Self::Outside { offset, len, size },
            _ => Self::Missing,
        }
    }

    /// As the error of who asked, which takes at most `most` bytes of an answer.
    pub(crate) fn to_error(self, most: u64) -> CallError {
        match self {
            Self::Missing => CallError::NoReply,
            Self::Panicked => CallError::Panicked,
            Self::TooLarge { bytes } => CallError::ReplyTooLarge { bytes, most },
            Self::Revoked => AccessError::Revoked.into(),
            Self::NotReadable => AccessError::Forbidden { asked: "read" }.into(),
            Self::NotWritable => AccessError::Forbidden { asked: "write" }.into(),
            Self::Outside { offset, len, size } => {
                AccessError::OutOfBounds { offset, len, size }.into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Kind;

    #[test]
    fn what_travels_is_what_was_said() {
        let outside = NoReply::Outside { offset: 1, len: 2, size: 3 };
        let all = [
            NoReply::Missing,
            NoReply::Panicked,
            NoReply::TooLarge { bytes: 9 },
            NoReply::Revoked,
            NoReply::NotReadable,
            NoReply::NotWritable,
            outside,
        ];
        for (at, why) in all.into_iter().enumerate() {
            let (handler, words) = why.to_parts();
            assert_eq!(usize::from(handler), at, "for ever");
            let count = words.len().try_into().unwrap();
            let head = Head { handler, words: count, ..Head::of(Kind::NoReply, 0) };
            let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(NoReply::of(&Arrived::from_parts(head, None, bytes)), why);
        }
        let unknown = Head { handler: 200, ..Head::of(Kind::NoReply, 0) };
        assert_eq!(NoReply::of(&Arrived::from_parts(unknown, None, vec![])), NoReply::Missing);
        let short = Head { handler: 6, ..Head::of(Kind::NoReply, 0) };
        assert_eq!(NoReply::of(&Arrived::from_parts(short, None, vec![])), NoReply::Missing);
    }
}
