//! Connections that this side has closed.
//!
//! Closing a socket while the peer still sends makes the kernel send a reset, and a reset may overtake the
//! goodbye. So the goodbye is written, then the sending direction is shut down, and what the peer sends is
//! read and dropped until the peer closes too, for two seconds at most.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::datapath::TcpClosing;
use super::fault::{Fault, planted};
use super::nic_context::CLOSING;
use super::socket::is_later;
use super::stream::StreamReadError;
use crate::fabric::common::epoll::token;
use crate::rt::Instant;

/// The closing connections of a nic, the oldest first.
#[derive(Debug, Default)]
pub(super) struct TcpClosings(VecDeque<LingeringClose>);

#[derive(Debug)]
struct LingeringClose {
    id: u64,
    until: Instant,
    closing: TcpClosing,
}

/// How long a peer may take to close.
const LINGER_MAX: Duration = Duration::from_secs(2);
/// How many peers may take so long; past that the oldest are not waited for.
const LINGERING_MAX: usize = 256;
/// Bytes of a peer that are read and dropped in one call.
const IN_VAIN: usize = 64 << 10;

impl TcpClosing {
    /// Goes on closing. Whether the connection is closed.
    pub(super) fn push(&mut self) -> bool {
        if !self.is_said() {
            match self.say() {
                Ok(()) => {}
                Err(why) if is_later(why) => {}
                Err(_) => return true,
            }
            if self.is_said() {
                self.stream.shut();
            }
        }
        self.read_in_vain()
    }

    /// Reads what the peer still sends, for no one. Whether it will send nothing more.
    fn read_in_vain(&mut self) -> bool {
        let (mut in_vain, mut scrap) = (0, [0; 16 << 10]);
        if planted(Fault::NoLinger) {
            return true;
        }
        while in_vain < IN_VAIN {
            match self.stream.read_in_vain(&mut scrap) {
                Ok(0) => return true,
                Ok(n) => in_vain += n,
                Err(StreamReadError::Kernel(why)) => return !is_later(why),
                Err(_) => return true,
            }
        }
        false
    }

    /// Whether the kernel has taken the goodbye.
    fn is_said(&self) -> bool {
        let has_unsent = self.stream.has_unsent() && !planted(Fault::UnsentShut);
        self.bytes.is_empty() && !has_unsent
    }

    fn say(&mut self) -> Result<(), Errno> {
        if self.bytes.is_empty() {
            return self.stream.flush().map(drop);
        }
        let n = self.stream.write(&self.bytes)?;
        self.bytes.drain(..n);
        Ok(())
    }

    fn watch(&self, id: u64, set: &OwnedFd) -> Result<(), Errno> {
        self.stream.watch(set, token(CLOSING, id), self.flags())
    }

    fn flags(&self) -> EventFlags {
        if self.is_said() { EventFlags::IN } else { EventFlags::IN | EventFlags::OUT }
    }
}

impl TcpClosings {
    pub(super) fn add(&mut self, id: u64, closing: TcpClosing, set: &OwnedFd, now: Instant) {
        // Without a place in the epoll set, the connection is closed when its time is up.
        let _ = closing.watch(id, set);
        if self.0.len() >= LINGERING_MAX {
            self.0.pop_front();
        }
        self.0.push_back(LingeringClose { id, until: now + LINGER_MAX, closing });
    }

    /// Goes on with a connection that epoll has reported.
    pub(super) fn ready(&mut self, id: u64, set: &OwnedFd) {
        let Ok(at) = self.0.binary_search_by_key(&id, |lingering| lingering.id) else { return };
        let closing = &mut self.0[at].closing;
        let before = closing.flags();
        if closing.push() {
            self.0.remove(at);
        } else if closing.flags() != before {
            let _ = closing.watch(id, set);
        }
    }

    /// Closes the sockets whose time is up.
    pub(super) fn tick(&mut self, now: Instant) {
        while self.0.front().is_some_and(|oldest| oldest.until <= now) {
            self.0.pop_front();
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.front().map(|oldest| oldest.until)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
