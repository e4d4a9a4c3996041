//! A peer that is only memory and a socket: it does what it is told, also what
//! no fabric would do. For tests and fuzzers.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(test)]
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::bell::{Habit, Sleeper};
use super::connector::terms;
use super::cord::Cord;
use super::foreign::Foreign;
use super::layout::{BELL, BYTES, RING, RING_LINES};
use super::memory::Own;
use super::reach;
use super::records::RingSender;
use super::rendezvous::{Accepted, Answered, Call, Handles, Knock, Stance, Started};
#[cfg(test)]
use super::wire::Item;
use crate::fabric::greet;
#[cfg(test)]
use crate::fabric::hub::counts::Counts;
use crate::rt::{self, Instant};
use crate::vi::{Encrypt, Hello, Identity, Listener, Secret, Trust, Vi};

/// What it gives to a connection.
#[derive(Debug)]
pub(super) struct Strings {
    pub own: Own,
    _cord: Cord,
    pub handle: OwnedFd,
}

/// A greeting under way.
#[derive(Debug)]
pub(super) struct Greeted {
    strings: Strings,
    knock: Knock,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Puppet {
    pub strings: Strings,
    /// Records in their order, each with the position that it must have.
    ring: RingSender,
    /// What the other end gave.
    pub accepted: Accepted,
}

impl Strings {
    pub(super) fn new() -> Self {
        let own = Own::new(BYTES).expect("memory");
        reach::mark(&own);
        drop(Sleeper::new(own.clone(), BELL, Habit::Spins));
        let (cord, handle) = Cord::pair().expect("sockets");
        Self { own, _cord: cord, handle }
    }

    pub(super) fn handles(&self) -> Handles<BorrowedFd<'_>> {
        Handles { control: self.own.fd(), bell: self.handle.as_fd() }
    }
}

impl Greeted {
    /// Greets `host`; `None` if there is nobody, or too many do.
    pub(super) fn new(host: &str, hello: Hello) -> Option<Self> {
        let strings = Strings::new();
        let knock = greet(host, hello)?;
        Some(Self { strings, knock })
    }

    /// Waits for the answer; `None` if it is a refusal, or none comes in time.
    #[cfg(test)]
    pub(super) fn wait(self, until: Instant) -> Option<Puppet> {
        let Self { strings, knock } = self;
        let accepted = wait_answer(knock, strings.handles(), until)?;
        Puppet::new(strings, accepted)
    }

    /// Meets the nic of this thread, whose end of the connection comes from its listener.
    pub(super) fn meet(self, listener: &Listener, until: Instant) -> Option<(Vi, Puppet)> {
        let Self { strings, mut knock } = self;
        let mut vi = None;
        let accepted = loop {
            vi = vi.or(listener.poll_accept().ok()?);
            knock = match knock.poll(strings.handles()).ok()? {
                Answered::Accepted(accepted) => break accepted,
                Answered::NotYet(_) if rt::now() >= until => return None,
                Answered::NotYet(knock) => knock,
            };
        };
        Some((vi?, Puppet::new(strings, accepted)?))
    }
}

/// A nic that asks for nothing, and has no secret.
pub(super) fn stance() -> Stance {
    let (secret, identity) = (Secret::none(), Identity::random());
    let greet = greet::Stance::new("shm", secret, identity, Encrypt::default()).local();
    Stance { trust: Trust::Isolated, greet }
}

/// Begins to greet `host`.
pub(super) fn greet(host: &str, hello: Hello) -> Option<Knock> {
    let call = Call { to: host, key: None, hello, host: "puppet", terms: terms(8) };
    match Knock::start(call, &stance()) {
        Ok(Started::Knocking(knock)) => Some(knock),
        _ => None,
    }
}

/// Goes on greeting, with any descriptors.
#[cfg(test)]
pub(super) fn wait_answer(
    mut knock: Knock,
    handles: Handles<BorrowedFd<'_>>,
    until: Instant,
) -> Option<Accepted> {
    loop {
        knock = match knock.poll(handles).ok()? {
            Answered::Accepted(accepted) => return Some(accepted),
            Answered::NotYet(_) if rt::now() >= until => return None,
            Answered::NotYet(knock) => knock,
        };
        rt::sleep(Duration::from_micros(100));
    }
}

impl Puppet {
    fn new(strings: Strings, accepted: Accepted) -> Option<Self> {
        let own = strings.own.clone();
        let seen = Foreign::map(own.fd().try_clone_to_owned().ok()?, own.len() as u64).ok()?;
        // How far the other end is it does not ask.
        let ring = RingSender::new(own, RING, RING_LINES, seen, 0).ok()?;
        Some(Self { strings, ring, accepted })
    }

    /// Puts an item with its bytes, also where there is no room.
    #[cfg(test)]
    pub(super) fn put(&mut self, item: Item, bytes: &[u8], counts: Counts) {
        let words = item.encode(counts);
        self.put_any(true, words.what, &[words.bytes(), bytes].concat());
    }

    /// Puts any record of at most 4 KiB.
    pub(super) fn put_any(&mut self, is_item: bool, tag: u64, payload: &[u8]) {
        self.ring.hear(self.ring.position()).expect("all that was written");
        let put = match is_item {
            true => self.ring.send_item(tag, &[payload]),
            false => self.ring.send(tag, &[payload]),
        };
        put.expect("there is room");
    }

    /// Lines that were put.
    #[cfg(test)]
    pub(super) fn position(&self) -> u64 {
        self.ring.position()
    }

    /// Sends any packet.
    pub(super) fn say(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "at most 32");
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let socket = self.accepted.control.fd();
        sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
    }
}
