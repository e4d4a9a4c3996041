//! The handle of one end of a connection.

use std::sync::Arc;

use super::driver::{After, Driver, Fixed, Made};
use super::link::Link;
use super::nic::Inner;
use crate::fabric::{Unposted, ViOps};
use crate::vi::{
    Counters, Lane, Position, Posted, Reliability, SendError, Ticket, Trust, ViError, WhyIsolated,
};

/// The connection itself is its nic's, which has it as long as there is this handle.
#[derive(Debug)]
pub(super) struct ShmVi {
    inner: Arc<Inner>,
    made: Made,
}

impl ShmVi {
    pub(super) const fn new(inner: Arc<Inner>, made: Made) -> Self {
        Self { inner, made }
    }

    /// Works on the connection, under the lock of its nic.
    #[inline]
    fn with<R>(&self, body: impl FnOnce(&mut Link, &Fixed, &mut After) -> R) -> R {
        let id = self.made.id;
        let body = |driver: &mut Driver, fixed: &Fixed, after: &mut After| {
            body(driver.link(id), fixed, after)
        };
        self.inner.work(body)
    }

    #[cold]
    fn send_or_say(&self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, SendError> {
        self.with(|link, _, after| {
            let sent = link.send(lane, tag, parts, &mut after.notices);
            after.happened |= link.error().is_some();
            sent
        })
    }
}

impl ViOps for ShmVi {
    fn peer(&self) -> &str {
        &self.made.peer
    }

    fn reliability(&self) -> Reliability {
        self.made.level
    }

    fn trust(&self) -> Trust {
        self.made.agreed.trust()
    }

    fn why_isolated(&self) -> Option<WhyIsolated> {
        self.made.agreed.why_isolated()
    }

    fn post(&self, posted: Posted) -> Result<(), Unposted> {
        self.inner.stride.posted(&posted);
        let id = self.made.id;
        self.inner.work(|driver, fixed, after| driver.post(id, posted, &fixed.keys, after))
    }

    fn cancel(&self, ticket: Ticket) -> bool {
        self.with(|link, _, after| link.cancel(ticket, &mut after.notices))
    }

    fn disconnect(&self) {
        self.with(|link, _, after| {
            link.close(ViError::Closed, &mut after.notices);
            after.happened = true;
        });
    }

    fn error(&self) -> Option<ViError> {
        self.inner.quietly(|driver| driver.link(self.made.id).error())
    }

    fn counters(&self) -> Counters {
        self.inner.quietly(|driver| driver.link(self.made.id).counters())
    }

    #[inline]
    fn send(&self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, SendError> {
        self.inner.stride.spoke();
        let id = self.made.id;
        match self.inner.quietly(|driver| driver.link(id).try_send(lane, tag, parts)) {
            Some(behind) => Ok(Position::new(behind.get())),
            None => self.send_or_say(lane, tag, parts),
        }
    }

    fn arrived(&self, lane: Lane, asked: bool) -> Position {
        self.with(|link, _, after| {
            let arrived = link.arrived(lane, asked, &mut after.notices);
            after.happened |= link.error().is_some();
            arrived
        })
    }
}

impl Drop for ShmVi {
    fn drop(&mut self) {
        let id = self.made.id;
        let link = self.inner.work(|driver, _, after| driver.release(id, after));
        // Without the lock: what it had posted is the program's.
        drop(link);
    }
}
