//! The handle of one end of a connection.

use std::sync::Arc;

use super::driver::Driver;
use super::link::Link;
use crate::fabric::hub::Hub;
use crate::fabric::{Unposted, ViOps};
use crate::vi::{Counters, Notices, Posted, Reliability, Ticket, ViError};

#[derive(Debug)]
pub(super) struct UdpVi {
    hub: Arc<Hub<Driver>>,
    link: Arc<Link>,
}

impl UdpVi {
    pub(super) const fn new(hub: Arc<Hub<Driver>>, link: Arc<Link>) -> Self {
        Self { hub, link }
    }
}

impl ViOps for UdpVi {
    fn peer(&self) -> &str {
        &self.link.peer
    }

    fn reliability(&self) -> Reliability {
        Reliability::Unreliable
    }

    fn post(&self, posted: Posted) -> Result<(), Unposted> {
        self.hub.stride.posted(&posted);
        let mut notices = Notices::default();
        if self.link.post(posted, &mut notices)? {
            // A thread that sleeps is to wait for room as well.
            self.hub.happen();
        }
        self.hub.tell(notices);
        Ok(())
    }

    fn cancel(&self, ticket: Ticket) -> bool {
        let mut notices = Notices::default();
        let cancelled = self.link.cancel(ticket, &mut notices);
        self.hub.tell(notices);
        cancelled
    }

    fn disconnect(&self) {
        let mut notices = Notices::default();
        self.link.close(&ViError::Closed, &mut notices);
        self.hub.happen();
        notices.give();
    }

    fn error(&self) -> Option<ViError> {
        self.link.error()
    }

    fn counters(&self) -> Counters {
        self.link.counters()
    }
}

impl Drop for UdpVi {
    fn drop(&mut self) {
        self.disconnect();
    }
}
