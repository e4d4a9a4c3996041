//! What a nic's epoll sets say is ready.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;
use rustix::io::Errno;

use crate::fabric::hub::set;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// Somebody knocks.
    Door,
    /// The control socket of this link.
    Control(u64),
    /// The cord of this link.
    Cord(u64),
    /// The end of the process at the other end of this link.
    Ended(u64),
    /// The answer to this knock.
    Knock(u64),
    /// Something of the set of the sockets.
    Sockets,
}

impl Token {
    /// Has `epoll` say this when `fd` is readable, whatever it said before: the
    /// socket of a knock becomes that of a connection.
    pub(super) fn watch(self, epoll: &OwnedFd, fd: impl AsFd) -> Result<(), Errno> {
        set::watch(epoll, fd, self.encode(), self.flags())
    }

    /// A pull is said once, though the cord is not drained.
    fn flags(self) -> epoll::EventFlags {
        let is_cord = matches!(self, Self::Cord(_));
        let edge = if is_cord { epoll::EventFlags::ET } else { epoll::EventFlags::empty() };
        epoll::EventFlags::IN | edge
    }

    const fn encode(self) -> u64 {
        match self {
            Self::Door => DOOR,
            Self::Control(id) => id << KIND_BITS | CONTROL,
            Self::Cord(id) => id << KIND_BITS | CORD,
            Self::Ended(id) => id << KIND_BITS | ENDED,
            Self::Knock(id) => id << KIND_BITS | KNOCK,
            Self::Sockets => SOCKETS,
        }
    }

    pub(super) const fn decode(data: u64) -> Self {
        let id = data >> KIND_BITS;
        match data & ((1 << KIND_BITS) - 1) {
            DOOR => Self::Door,
            CONTROL => Self::Control(id),
            CORD => Self::Cord(id),
            ENDED => Self::Ended(id),
            KNOCK => Self::Knock(id),
            _ => Self::Sockets,
        }
    }
}

const KIND_BITS: u32 = 3;
const DOOR: u64 = 1;
const CONTROL: u64 = 2;
const CORD: u64 = 3;
const ENDED: u64 = 4;
const KNOCK: u64 = 5;
const SOCKETS: u64 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_what_it_was() {
        let few = [Token::Door, Token::Sockets];
        let many = [Token::Control(1), Token::Cord(7), Token::Ended(8), Token::Knock(9)];
        for token in few.into_iter().chain(many) {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
