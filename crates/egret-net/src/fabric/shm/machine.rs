//! A nic of shared memory as the state machine that its handles share.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::Waker;

use super::driver::{Driver, Fixed};
use crate::fabric::{
    After, ConnId, ConnectRequest, Drained, ListenerName, Machine, MachineFd, Made, Unposted,
    ViSpec, Woken,
};
use crate::rt::Instant;
use crate::vi::{
    Counters, DrainId, Keys, Lane, Limits, ListenError, Position, Posted, Reliability, SendError,
    Sink, Ticket, ViError,
};

/// What changes, and what stays as it is.
#[derive(Debug)]
pub(super) struct ShmMachine {
    pub driver: Driver,
    pub fixed: Fixed,
}

impl Machine for ShmMachine {
    fn host(&self) -> &str {
        &self.fixed.host
    }

    fn limits(&self) -> Limits {
        super::nic::limits()
    }

    fn keys(&self) -> &Arc<Keys> {
        &self.fixed.keys
    }

    fn listen(&mut self, name: &ListenerName, reliability: Reliability) -> Result<(), ListenError> {
        self.driver.listeners.open(name, reliability)
    }

    fn unlisten(&mut self, name: &ListenerName, after: &mut After) {
        self.driver.listeners.close(name, after);
    }

    fn wake_on_arrival(&mut self, name: &ListenerName, waker: Waker) -> Option<Waker> {
        self.driver.listeners.wake_on_arrival(name, waker)
    }

    fn accept(
        &mut self,
        name: &ListenerName,
        spec: ViSpec,
        _after: &mut After,
    ) -> Result<Option<Made>, ListenError> {
        self.driver.accept(name, spec, &self.fixed)
    }

    fn connect(&mut self, request: ConnectRequest, after: &mut After) {
        self.driver.connect(request, &self.fixed, after);
    }

    #[inline]
    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        self.driver.post(conn, posted, &self.fixed.keys, after)
    }

    fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool {
        self.driver.link(conn).cancel(ticket, &mut after.notices)
    }

    fn close(&mut self, conn: ConnId, after: &mut After) {
        self.driver.link(conn).close(ViError::Closed, &mut after.notices);
    }

    fn release(&mut self, conn: ConnId, after: &mut After) {
        self.close(conn, after);
        self.driver.links.remove(conn.0);
    }

    fn error(&self, conn: ConnId) -> Option<ViError> {
        self.driver.links.find(conn.0)?.error()
    }

    fn counters(&self, conn: ConnId) -> Counters {
        self.driver.links.find(conn.0).map(|link| link.counters()).unwrap_or_default()
    }

    #[inline]
    fn poll(&mut self, after: &mut After) {
        self.driver.poll(&self.fixed, after);
    }

    fn next_event(&self) -> Option<Instant> {
        self.driver.next_event()
    }

    fn descriptor(&self) -> Option<MachineFd> {
        Some(MachineFd::Set(Arc::clone(&self.fixed.bells)))
    }

    fn arm(&mut self, after: &mut After) -> bool {
        self.driver.arm(&self.fixed, after)
    }

    fn disarm(&mut self, woken: Woken<'_>, after: &mut After) {
        self.driver.disarm(woken, &self.fixed, after);
    }

    fn shut(&mut self, after: &mut After) {
        self.driver.shut(after);
    }

    fn has_eager(&self) -> bool {
        true
    }

    #[inline]
    fn try_send(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Option<NonZeroU64> {
        self.driver.try_send(conn, lane, tag, parts)
    }

    fn send(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        after: &mut After,
    ) -> Result<Position, SendError> {
        let link = self.driver.link(conn);
        let sent = link.send(lane, tag, parts, &mut after.notices);
        after.happened |= link.error().is_some();
        sent
    }

    fn arrived(&mut self, conn: ConnId, lane: Lane, asked: bool, after: &mut After) -> Position {
        let link = self.driver.link(conn);
        let arrived = link.arrived(lane, asked, &mut after.notices);
        after.happened |= link.error().is_some();
        arrived
    }

    #[inline]
    fn drain(
        &mut self,
        drain: DrainId,
        budget: usize,
        sink: &mut Sink<'_>,
        after: &mut After,
    ) -> Drained {
        if !self.driver.links.may_have_eager(drain) {
            return Drained::default();
        }
        self.driver.drain(drain, budget, sink, after)
    }
}
