//! What the two halves of a data path use of its connection during one call.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use super::cooperating::CooperatingSegments;
use super::fault::{Fault, planted};
use super::foreign::ForeignMemory;
use super::layout::LEFT;
use super::memory::OwnMemory;
use super::process_memory::PeerMemoryReader;
use super::rendezvous::{ControlMessage, ControlSocket};
use super::socket::PacketSent;
use crate::vi::{Descriptor, Keys, Notices, ViError};

/// What a sender or receiver uses of its connection during one call.
pub(super) struct TransferContext<'a> {
    pub keys: &'a Keys,
    pub notices: &'a mut Notices,
    pub own: &'a OwnMemory,
    pub foreign: &'a ForeignMemory,
    pub control: &'a ControlSocket,
    pub reach: Option<&'a PeerMemoryReader>,
    /// The payload of the record that is being taken, in private memory.
    pub record: &'a [u8],
    /// On a connection that cooperates.
    pub cooperating: Option<&'a mut CooperatingSegments>,
}

impl TransferContext<'_> {
    /// Sends a control message. `false` if the socket is full or closed: the
    /// caller goes on without it.
    pub(super) fn tell(&self, message: &ControlMessage, fds: &[BorrowedFd<'_>]) -> bool {
        tell(self.control, message, fds)
    }

    /// Reads memory of the peer's process.
    pub(super) fn reach(&self, at: u64, to: &mut [u8]) -> Result<(), ViError> {
        let unasked = ViError::Protocol("an address, which this side did not ask for");
        self.reach.ok_or(unasked)?.read(self.control.peer(), at, to)
    }

    /// Whether the peer has taken its buffers back: then bytes that were copied out of them before
    /// may be anything.
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

/// See [`TransferContext::tell`].
pub(super) fn tell(
    control: &ControlSocket,
    message: &ControlMessage,
    fds: &[BorrowedFd<'_>],
) -> bool {
    matches!(control.send(message, fds), Ok(PacketSent::Sent))
}

/// A message that only cooperating peers may send.
pub(super) const ISOLATED: ViError =
    ViError::Protocol("a control message of cooperating peers on an isolated connection");
pub(super) const GONE: ViError = ViError::PeerDied { why: "its process is gone" };
