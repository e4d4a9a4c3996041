//! The handle of one end of a connection.

use std::sync::Arc;

use super::link::Link;
use super::nic::Inner;
use super::send::Flushed;
use crate::fabric::{Unposted, ViOps};
use crate::vi::{Counters, Notices, Posted, Reliability, Ticket, ViError};

#[derive(Debug)]
pub(super) struct TcpVi {
    inner: Arc<Inner>,
    link: Arc<Link>,
}

impl TcpVi {
    pub(super) const fn new(inner: Arc<Inner>, link: Arc<Link>) -> Self {
        Self { inner, link }
    }

    /// Nobody comes by while they sleep, so what the nic has to do is done here.
    #[cold]
    fn push(&self, notices: &mut Notices) {
        let fixed = &self.inner.fixed;
        match self.link.push(fixed, notices, false) {
            Some(Flushed::All) => {}
            Some(Flushed::Full) => drop(self.link.watch(fixed)),
            Some(Flushed::More) | None => self.inner.happen(),
        }
    }
}

impl ViOps for TcpVi {
    fn peer(&self) -> &str {
        &self.link.peer
    }

    fn reliability(&self) -> Reliability {
        self.link.level
    }

    fn post(&self, posted: Posted) -> Result<(), Unposted> {
        self.inner.stride.posted(&posted);
        let mut notices = Notices::default();
        let (is_dirty, is_new) = self.link.post(posted, &self.inner.fixed, &mut notices)?;
        if is_new {
            self.inner.fixed.yard.push(Arc::clone(&self.link));
        }
        if is_dirty && self.inner.has_sleepers() {
            self.push(&mut notices);
        }
        self.inner.tell(notices);
        Ok(())
    }

    fn cancel(&self, ticket: Ticket) -> bool {
        let mut notices = Notices::default();
        let cancelled = self.link.cancel(ticket, &mut notices);
        self.inner.tell(notices);
        cancelled
    }

    fn disconnect(&self) {
        let mut notices = Notices::default();
        let fixed = &self.inner.fixed;
        if self.link.close(ViError::Closed, fixed, &mut notices) {
            // For the nic to forget it.
            fixed.yard.push(Arc::clone(&self.link));
            self.inner.happen();
        }
        notices.give();
    }

    fn error(&self) -> Option<ViError> {
        self.link.error()
    }

    fn counters(&self) -> Counters {
        self.link.counters()
    }
}

impl Drop for TcpVi {
    fn drop(&mut self) {
        self.disconnect();
    }
}
