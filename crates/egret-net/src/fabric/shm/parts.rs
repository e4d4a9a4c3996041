//! The parts of a connection: what each side gives to it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::doorbell::{DoorbellRinger, DoorbellSleeper, SleepPolicy};
use super::doorbell_socket::{DoorbellHandle, DoorbellSocket};
use super::foreign::ForeignMemory;
use super::layout::{BELL, BOUNCE, BYTES};
use super::memory::OwnMemory;
use super::process_memory;
use super::rendezvous::{ControlSocket, OfferedDescriptors, SegmentTerms};
use crate::vi::HelloError;

/// The parts of a connection that is made.
#[derive(Debug)]
pub(super) struct ConnectionParts {
    pub own: OwnMemory,
    pub foreign: ForeignMemory,
    pub control: ControlSocket,
    pub sleeper: DoorbellSleeper,
    pub cord: DoorbellSocket,
    pub ringer: DoorbellRinger,
}

impl ConnectionParts {
    pub(super) fn control_fd(&self) -> BorrowedFd<'_> {
        self.control.fd()
    }

    /// Readable when the peer's process has ended, if the kernel can say.
    pub(super) fn process_fd(&self) -> Option<BorrowedFd<'_>> {
        self.control.peer().pidfd()
    }

    pub(super) fn doorbell_fd(&self) -> BorrowedFd<'_> {
        self.cord.fd()
    }
}

/// What this side gives to a connection: memory, and a doorbell to wake this side by.
#[derive(Debug)]
pub(super) struct LocalEnd {
    own: OwnMemory,
    sleeper: DoorbellSleeper,
    cord: DoorbellSocket,
    handle: OwnedFd,
}

/// What the peer gives to a connection, checked.
#[derive(Debug)]
pub(super) struct PeerEnd {
    foreign: ForeignMemory,
    ringer: DoorbellRinger,
}

/// Why what the peer gives cannot be used.
pub(super) const UNFIT: HelloError =
    HelloError::Malformed("memory or a bell that cannot be used safely");
/// More than pages of any size make of a peer's part.
const MEMORY_MAX: u64 = 1 << 20;

impl LocalEnd {
    /// `None` if the system has no memory or no descriptors to give.
    pub(super) fn new(sleep_policy: SleepPolicy) -> Option<Self> {
        let own = OwnMemory::with_first(BYTES, BOUNCE).ok()?;
        process_memory::mark(&own);
        let mut sleeper = DoorbellSleeper::new(own.clone(), BELL, sleep_policy);
        // Until it is polled.
        sleeper.doze();
        let (cord, handle) = DoorbellSocket::pair().ok()?;
        Some(Self { own, sleeper, cord, handle })
    }

    pub(super) fn handles(&self) -> OfferedDescriptors<BorrowedFd<'_>> {
        OfferedDescriptors { control: self.own.fd(), bell: self.handle.as_fd() }
    }

    /// Puts the two sides' parts together.
    pub(super) fn join(self, control: ControlSocket, peer: PeerEnd) -> ConnectionParts {
        let (Self { own, sleeper, cord, .. }, PeerEnd { foreign, ringer }) = (self, peer);
        ConnectionParts { own, foreign, control, sleeper, cord, ringer }
    }
}

impl PeerEnd {
    pub(super) fn new(
        terms: &SegmentTerms,
        handles: OfferedDescriptors<OwnedFd>,
    ) -> Result<Self, HelloError> {
        let foreign = ForeignMemory::map(handles.control, MEMORY_MAX).map_err(|_| UNFIT)?;
        let handle = DoorbellHandle::new(handles.bell).map_err(|_| UNFIT)?;
        let ringer = DoorbellRinger::new(foreign.clone(), BELL as u64, handle).ok_or(UNFIT)?;
        if foreign.len() < BYTES || (foreign.len() as u64) < terms.control_bytes {
            return Err(UNFIT);
        }
        Ok(Self { foreign, ringer })
    }
}

pub(super) fn terms(depth: u32) -> SegmentTerms {
    SegmentTerms { depth, control_bytes: BYTES as u64 }
}
