//! Connections that this side has left.
//!
//! A socket that is closed while the peer still sends becomes a reset, and a reset
//! may overtake the last words. So the last words are written, then nothing more,
//! and what the peer sends is read until it closes too, or for a while.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::datapath::Leaving;
use super::fault::{Fault, planted};
use super::socket::is_later;
use super::stream::Unread;
use super::token::LEAVING;
use crate::fabric::hub::set::token;
use crate::rt::Instant;

/// Those of a nic, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Leavings(VecDeque<Lingering>);

#[derive(Debug)]
struct Lingering {
    id: u64,
    until: Instant,
    leaving: Leaving,
}

/// How long a peer may take to close.
const LINGER_MAX: Duration = Duration::from_secs(2);
/// How many peers may take so long; of more, the oldest are not waited for.
const LINGERING_MAX: usize = 256;
/// Bytes of a peer that are read at once for nothing.
const IN_VAIN: usize = 64 << 10;

impl Leaving {
    /// Goes on leaving. Whether that is all.
    pub(super) fn push(&mut self) -> bool {
        if planted(Fault::NoLinger) {
            let _ = self.stream.write(&self.bytes);
            return true;
        }
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
        let (mut in_vain, mut scrap) = (0, [0; 16 << 10]);
        while in_vain < IN_VAIN {
            match self.stream.read_in_vain(&mut scrap) {
                Ok(0) => return true,
                Ok(n) => in_vain += n,
                Err(Unread::Kernel(why)) => return !is_later(why),
                Err(_) => return true,
            }
        }
        false
    }

    /// Whether the kernel has the last words.
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
        self.stream.watch(set, token(LEAVING, id), self.flags())
    }

    fn flags(&self) -> EventFlags {
        if self.is_said() { EventFlags::IN } else { EventFlags::IN | EventFlags::OUT }
    }
}

impl Leavings {
    pub(super) fn add(&mut self, id: u64, leaving: Leaving, set: &OwnedFd, now: Instant) {
        // Without a place in the set it goes when its time is up.
        let _ = leaving.watch(id, set);
        if self.0.len() >= LINGERING_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Lingering { id, until: now + LINGER_MAX, leaving });
    }

    /// The set has said something about this one.
    pub(super) fn ready(&mut self, id: u64, set: &OwnedFd) {
        let Ok(at) = self.0.binary_search_by_key(&id, |lingering| lingering.id) else { return };
        let leaving = &mut self.0[at].leaving;
        let before = leaving.flags();
        if leaving.push() {
            self.0.remove(at);
        } else if leaving.flags() != before {
            let _ = leaving.watch(id, set);
        }
    }

    /// Forgets those whose time is up.
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
