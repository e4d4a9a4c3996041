//! What a nic's set says is ready.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::fabric::hub::set;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// Somebody connects.
    Door,
    /// A connection.
    Link(u64),
    /// A connection that this nic is making.
    Knock(u64),
    /// Somebody who has not greeted yet.
    Visitor(u64),
    /// A connection that this nic has left.
    Leaving(u64),
}

impl Token {
    /// Has the set say this about `fd`, whatever it said before: the socket of a
    /// knock becomes that of a connection.
    pub(super) fn watch(
        self,
        set: &OwnedFd,
        fd: impl AsFd,
        flags: EventFlags,
    ) -> Result<(), Errno> {
        set::watch(set, fd, self.encode(), flags)
    }

    const fn encode(self) -> u64 {
        match self {
            Self::Door => DOOR,
            Self::Link(id) => id << KIND_BITS | LINK,
            Self::Knock(id) => id << KIND_BITS | KNOCK,
            Self::Visitor(id) => id << KIND_BITS | VISITOR,
            Self::Leaving(id) => id << KIND_BITS | LEAVING,
        }
    }

    pub(super) const fn decode(data: u64) -> Self {
        let id = data >> KIND_BITS;
        match data & ((1 << KIND_BITS) - 1) {
            DOOR => Self::Door,
            LINK => Self::Link(id),
            KNOCK => Self::Knock(id),
            VISITOR => Self::Visitor(id),
            _ => Self::Leaving(id),
        }
    }
}

const KIND_BITS: u32 = 3;
const DOOR: u64 = 1;
const LINK: u64 = 2;
const KNOCK: u64 = 3;
const VISITOR: u64 = 4;
const LEAVING: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_what_it_was() {
        let many = [Token::Link(1), Token::Knock(7), Token::Visitor(8), Token::Leaving(9)];
        for token in [Token::Door].into_iter().chain(many) {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
