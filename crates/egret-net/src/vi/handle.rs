//! What the handles of a connection share.

use std::sync::Arc;

use super::hub::Hub;
use super::machine::{NewConnection, Unposted};
use super::{Counters, Posted, Ticket, ViError};
use crate::rt::Instant;

/// A connection of a machine. Dropping this releases it.
#[derive(Debug)]
pub(super) struct ViHandle {
    hub: Arc<Hub>,
    pub made: NewConnection,
}

impl ViHandle {
    pub(super) const fn new(hub: Arc<Hub>, made: NewConnection) -> Self {
        Self { hub, made }
    }

    #[inline]
    pub(super) fn post(&self, posted: Posted) -> Result<(), Unposted> {
        self.hub.post(self.made.conn, posted)
    }

    pub(super) fn cancel(&self, ticket: Ticket) -> bool {
        self.hub.work(|machine, after| machine.cancel(self.made.conn, ticket, after))
    }

    pub(super) fn now(&self) -> Instant {
        self.hub.now()
    }

    pub(super) fn close(&self) {
        self.hub.work(|machine, after| {
            machine.close(self.made.conn, after);
            after.happened = true;
        });
    }

    pub(super) fn error(&self) -> Option<ViError> {
        self.hub.quietly(|machine| machine.error(self.made.conn))
    }

    pub(super) fn counters(&self) -> Counters {
        self.hub.quietly(|machine| machine.counters(self.made.conn))
    }
}

impl Drop for ViHandle {
    fn drop(&mut self) {
        self.hub.work(|machine, after| {
            machine.release(self.made.conn, after);
            after.happened = true;
        });
    }
}
