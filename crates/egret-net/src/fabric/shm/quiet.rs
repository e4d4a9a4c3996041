//! One end of a connection: whether there is anything to do.
//!
//! A poll that finds nothing asks a dozen queues whether they are empty. So an end remembers that
//! they were, and until something begins on this side a look at the heads of the peer's rings is
//! enough.

use super::commons::Commons;
use super::datapath::Conn;

impl Conn {
    /// Whether a poll could find something to do.
    #[inline(always)]
    pub(super) fn may_have_work(&self) -> bool {
        !self.is_quiet || self.ring.is_ready() || self.lanes.has_untold()
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
