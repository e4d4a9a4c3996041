//! What a test or a fuzzer posts to an end without a nic, and what comes back.

use super::inbox::InboxOwner;
use super::{Completion, Descriptor, Op, Posted, Ticket, ViId};

/// The posts of one who has no nic.
#[derive(Debug)]
pub(crate) struct Below(InboxOwner);

impl Below {
    pub(crate) fn new() -> Self {
        Self(InboxOwner::alone())
    }

    /// A descriptor for an end, whose completion will name `vi`. What has landed in it
    /// before goes.
    pub(crate) fn post(&self, vi: ViId, op: Op, mut descriptor: Descriptor) -> Posted {
        descriptor.unland();
        let inbox = self.0.inbox();
        let number = inbox.reserve().expect("there are places for all");
        let ticket = Ticket::new(vi, number, op == Op::Recv);
        Posted::new(ticket, op, descriptor, inbox)
    }

    /// The next that came back.
    #[inline]
    pub(crate) fn take(&self) -> Option<Completion> {
        self.0.inbox().take()
    }
}
