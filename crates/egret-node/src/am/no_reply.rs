//! Answers that say that there is no answer, and why.

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
}

impl NoReply {
    /// As it travels.
    pub(crate) fn to_parts(self) -> (u8, Vec<u64>) {
        match self {
            Self::Missing => (0, Vec::new()),
            Self::Panicked => (1, Vec::new()),
            Self::TooLarge { bytes } => (2, vec![bytes]),
        }
    }

    /// What has arrived. What nobody knows is no answer.
    pub(crate) fn of(arrived: &Arrived) -> Self {
        let mut words = [0; Head::WORDS_MAX];
        let count = arrived.read_words(&mut words);
        match (arrived.head.handler, &words[..count]) {
            (1, _) => Self::Panicked,
            (2, &[bytes]) => Self::TooLarge { bytes },
            _ => Self::Missing,
        }
    }

    /// As the error of who asked, which takes at most `most` bytes of an answer.
    pub(crate) fn to_error(self, most: u64) -> CallError {
        match self {
            Self::Missing => CallError::NoReply,
            Self::Panicked => CallError::Panicked,
            Self::TooLarge { bytes } => CallError::ReplyTooLarge { bytes, most },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Kind;

    #[test]
    fn what_travels_is_what_was_said() {
        let all = [NoReply::Missing, NoReply::Panicked, NoReply::TooLarge { bytes: 9 }];
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
        let short = Head { handler: 2, ..Head::of(Kind::NoReply, 0) };
        assert_eq!(NoReply::of(&Arrived::from_parts(short, None, vec![])), NoReply::Missing);
    }
}
