//! One end of a connection: whether there is anything to do.
//!
//! A poll that finds nothing asks a dozen queues whether they are empty. So an end remembers that
//! they were, and until something begins on this side a look at the heads of the peer's rings is
//! enough.

use super::commons::Commons;
use super::datapath::Conn;
use super::fault::{Fault, planted};
use super::foreign::Foreign;
use super::memory::{Peek, Readable};
use super::records::is_like;

/// Where a quiet connection will have its next record, of each of its three rings: one line of
/// this process for a look at a connection among many, instead of a dozen of its [`Conn`].
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Heads {
    peer: Foreign,
    /// The lines of the heads, and what they are if their records are empty.
    lines: [u32; 3],
    empty: [u64; 3],
    /// Whether all that is so still. Else the connection itself is to be looked at.
    is_quiet: bool,
}

const _: () = assert!(size_of::<Heads>() == 64, "one line");

impl Heads {
    /// Something may have changed at this side.
    #[inline]
    pub(super) fn disturb(&mut self) {
        self.is_quiet = planted(Fault::Undisturbed) && self.is_quiet;
    }

    /// Whether the connection may have something to do.
    #[inline(always)]
    pub(super) fn may_have_work(&self) -> bool {
        let peer = self.peer.lines();
        let is_there = |ring: usize| {
            let line = peer.get(self.lines[ring] as usize);
            line.is_none_or(|line| is_like(line[0].peek(), self.empty[ring]))
        };
        // All three are asked for at once.
        !self.is_quiet | is_there(0) | is_there(1) | is_there(2)
    }
}

impl Conn {
    /// Whether a poll could find something to do.
    #[inline(always)]
    pub(super) fn may_have_work(&self) -> bool {
        !self.is_quiet || self.ring.is_ready() || self.lanes.has_untold()
    }

    /// What a look among many looks at, from the next [renewal](Self::renew) on.
    pub(super) fn heads(&self) -> Heads {
        let peer = self.parts.foreign.clone();
        Heads { peer, lines: [0; 3], empty: [0; 3], is_quiet: false }
    }

    /// Has looks go to the heads alone, if that is enough now.
    pub(super) fn renew(&self, heads: &mut Heads) {
        let [talk, bulk] = self.lanes.awaited_heads();
        let rings = [self.ring.awaited(), talk, bulk];
        heads.lines = rings.map(|(line, _)| u32::try_from(line).unwrap_or(u32::MAX));
        heads.empty = rings.map(|(_, empty)| empty);
        heads.is_quiet = self.is_quiet;
    }

    /// Whether a poll that has found nothing will find nothing until the peer writes something, or
    /// this side begins something.
    pub(super) fn can_be_quiet(&self) -> bool {
        let is_held_up =
            || self.is_held_up() || self.receiver.is_copying() || self.leaving.is_some();
        let has_lent = || self.commons.as_ref().is_some_and(Commons::has_lent);
        // First what is so while a posted message is under way.
        !self.sender.outbox.is_waiting()
            && !self.lanes.is_awaited()
            && !is_held_up()
            && !has_lent()
            && self.notices.is_empty()
    }

    /// Whether the last poll left bytes that it could have copied to the next.
    pub(super) const fn is_unfinished(&self) -> bool {
        self.bytes_left == 0
    }
}
