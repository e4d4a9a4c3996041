//! The handle of one end of a connection.

use std::sync::Arc;

use super::link::{Link, Polled};
use super::nic::Inner;
use crate::fabric::{Unposted, ViOps};
use crate::vi::{
    Counters, Lane, Notices, Position, Posted, Reliability, SendError, Ticket, Trust, ViError,
    WhyIsolated,
};

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

impl ShmVi {
    #[cold]
    fn send_or_say(&self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, SendError> {
        let sent = self.link.send(lane, tag, parts);
        if let Err(SendError::Closed(why)) = &sent {
            self.closed(why);
        }
        sent
    }

    /// A message could not be sent: the connection is closed, or must be.
    #[cold]
    fn closed(&self, why: &ViError) {
        if self.link.error().is_none() {
            let mut notices = Notices::default();
            self.link.lied(why.clone(), &mut notices);
            self.inner.happen();
            notices.give();
        }
    }
}

impl ViOps for ShmVi {
    fn peer(&self) -> &str {
        &self.link.peer
    }

    fn reliability(&self) -> Reliability {
        self.link.level
    }

    fn trust(&self) -> Trust {
        self.link.agreed.trust()
    }

    fn why_isolated(&self) -> Option<WhyIsolated> {
        self.link.agreed.why_isolated()
    }

    fn post(&self, posted: Posted) -> Result<(), Unposted> {
        self.inner.stride.posted(&posted);
        let news = self.link.post(posted, &self.inner.fixed.keys)?;
        if news {
            let mut notices = Notices::default();
            // Of slots that waited for it not all were taken, if they are many: a thread that
            // sleeps has more to poll for.
            if self.link.resume(&self.inner.fixed.keys, &mut notices) != Polled::Nothing {
                self.inner.happen();
            }
            self.inner.tell(notices);
        }
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
        self.link.close(ViError::Closed, &mut notices);
        self.inner.happen();
        notices.give();
    }

    fn error(&self) -> Option<ViError> {
        self.link.error()
    }

    fn counters(&self) -> Counters {
        self.link.counters()
    }

    #[inline]
    fn send(&self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, SendError> {
        self.inner.stride.spoke();
        match self.link.try_send(lane, tag, parts) {
            Some(behind) => Ok(Position::new(behind.get())),
            None => self.send_or_say(lane, tag, parts),
        }
    }

    fn arrived(&self, lane: Lane, asked: bool) -> Position {
        match self.link.arrived(lane, asked) {
            Ok(position) => position,
            Err(SendError::Closed(why)) => {
                self.closed(&why);
                Position::default()
            }
            Err(_) => Position::default(),
        }
    }
}

impl Drop for ShmVi {
    fn drop(&mut self) {
        self.disconnect();
    }
}
