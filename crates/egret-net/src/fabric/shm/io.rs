//! What an end is made of, and what it uses of its surroundings.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use super::bell::{Ringer, Sleeper};
use super::commons::Commons;
use super::cord::Cord;
use super::fault::{Fault, planted};
use super::foreign::Foreign;
use super::layout::LEFT;
use super::memory::Own;
use super::reach::Reach;
use super::rendezvous::{Control, Message, Sent};
use crate::vi::{Descriptor, Keys, Notices, ViError};

/// What an end is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub own: Own,
    pub foreign: Foreign,
    pub control: Control,
    pub sleeper: Sleeper,
    pub cord: Cord,
    pub ringer: Ringer,
}

impl Parts {
    pub(super) fn control_fd(&self) -> BorrowedFd<'_> {
        self.control.fd()
    }

    /// Readable when the peer's process has ended, if the kernel can say.
    pub(super) fn process_fd(&self) -> Option<BorrowedFd<'_>> {
        self.control.peer().pidfd()
    }

    pub(super) fn cord_fd(&self) -> BorrowedFd<'_> {
        self.cord.fd()
    }
}

/// What an end uses of its surroundings during one call.
pub(super) struct Io<'a> {
    pub keys: &'a Keys,
    pub notices: &'a mut Notices,
    pub own: &'a Own,
    pub foreign: &'a Foreign,
    pub control: &'a Control,
    pub reach: Option<&'a Reach>,
    /// The payload of the record that is being taken, in private memory.
    pub record: &'a [u8],
    /// On a connection that cooperates.
    pub commons: Option<&'a mut Commons>,
}

impl Io<'_> {
    /// Sends a control message. `false` if the socket is full or closed: the
    /// caller does without.
    pub(super) fn tell(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> bool {
        tell(self.control, message, fds)
    }

    /// Reads memory of the peer's process.
    pub(super) fn reach(&self, at: u64, to: &mut [u8]) -> Result<(), ViError> {
        let unasked = ViError::Protocol("an address, which this side did not ask for");
        self.reach.ok_or(unasked)?.read(self.control.peer(), at, to)
    }

    /// Whether the peer had taken its buffers back by now: then what was copied
    /// out of them before may be anything.
    pub(super) fn peer_left(&self) -> bool {
        fence(Acquire);
        !planted(Fault::LeftIgnored) && self.foreign.load(LEFT as u64, Relaxed) != Some(0)
    }

    /// Copies `n` bytes of a descriptor from `offset` on to byte `at` of our memory.
    pub(super) fn gather(&self, mut at: usize, descriptor: &Descriptor, offset: u64, n: usize) {
        let (mut skip, mut left) = (offset, n);
        for segment in descriptor.segments() {
            let bytes = segment.bytes();
            let passed = usize::try_from(skip).map_or(bytes.len(), |skip| skip.min(bytes.len()));
            skip -= passed as u64;
            let now = (bytes.len() - passed).min(left);
            self.own.copy_in(at, &bytes[passed..passed + now]);
            (at, left) = (at + now, left - now);
        }
        debug_assert!(left == 0, "the descriptor has these bytes");
    }
}

/// See [`Io::tell`].
pub(super) fn tell(control: &Control, message: &Message, fds: &[BorrowedFd<'_>]) -> bool {
    matches!(control.send(message, fds), Ok(Sent::Sent))
}
