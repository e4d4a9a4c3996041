//! The handle of a nic.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{Hub, Work};
use crate::fabric::{Arming, ConnectRequest, ListenerOps, NicOps, Seen};
use crate::rt::Instant;
use crate::vi::{DrainId, Keys, Limits, ListenError, Reliability, Sink};

/// What a program has of a hub. Dropping it has the nic go down.
#[derive(Debug)]
pub(in crate::fabric) struct HubNic<W: Work>(pub Arc<Hub<W>>);

impl<W: Work> NicOps for HubNic<W> {
    fn host(&self) -> &str {
        W::host(&self.0.fixed)
    }

    fn limits(&self) -> Limits {
        W::limits()
    }

    fn keys(&self) -> &Arc<Keys> {
        W::keys(&self.0.fixed)
    }

    fn listen(
        &self,
        service: &str,
        tag: u64,
        reliability: Reliability,
    ) -> Result<Box<dyn ListenerOps>, ListenError> {
        self.0.listen(service, tag, reliability)
    }

    fn connect(&self, request: ConnectRequest) {
        self.0.connect(request);
    }

    fn progress(&self) -> Seen {
        self.0.progress()
    }

    fn wait(&self, seen: Seen, until: Option<Instant>) -> Seen {
        self.0.wait(seen, until)
    }

    fn wake(&self) {
        self.0.happen();
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd()
    }

    fn arm(&self, seen: Seen) -> Arming {
        self.0.arm(seen)
    }

    fn disarm(&self) {
        self.0.disarm();
    }

    fn has_eager(&self) -> bool {
        W::HAS_EAGER
    }

    #[inline]
    fn drain(&self, drain: DrainId, budget: usize, sink: &mut Sink<'_>) -> usize {
        self.0.drain(drain, budget, sink)
    }
}

impl<W: Work> Drop for HubNic<W> {
    fn drop(&mut self) {
        self.0.shut();
    }
}
