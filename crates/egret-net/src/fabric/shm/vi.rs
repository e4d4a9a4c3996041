//! The handle of one end of a connection.

use std::sync::Arc;

use super::driver::After;
use super::link::Link;
use super::nic::Inner;
use crate::fabric::{Unposted, ViOps};
use crate::vi::{Counters, Posted, Reliability, Ticket, ViError};

#[derive(Debug)]
pub(super) struct ShmVi {
    inner: Arc<Inner>,
    link: Arc<Link>,
}

impl ShmVi {
    pub(super) const fn new(inner: Arc<Inner>, link: Arc<Link>) -> Self {
        Self { inner, link }
    }
}

impl ViOps for ShmVi {
    fn peer(&self) -> &str {
        &self.link.peer
    }

    fn reliability(&self) -> Reliability {
        self.link.level
    }

    fn post(&self, posted: Posted) -> Result<(), Unposted> {
        let mut after = After::default();
        let result = self.link.post(posted, &self.inner.fixed.keys, &mut after.notices);
        self.inner.finish(after);
        result
    }

    fn cancel(&self, ticket: Ticket) -> bool {
        let mut after = After::default();
        let cancelled = self.link.cancel(ticket, &mut after.notices);
        self.inner.finish(after);
        cancelled
    }

    fn disconnect(&self) {
        let mut after = After::default();
        self.link.close(ViError::Closed, &mut after.notices);
        self.inner.finish(after);
    }

    fn error(&self) -> Option<ViError> {
        self.link.error()
    }

    fn counters(&self) -> Counters {
        self.link.counters()
    }
}

impl Drop for ShmVi {
    fn drop(&mut self) {
        self.disconnect();
    }
}
