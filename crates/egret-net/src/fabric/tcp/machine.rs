//! A nic of TCP as the state machine that its handles share.

use std::sync::Arc;
use std::task::Waker;

use super::driver::{Driver, Fixed};
use crate::fabric::{
    After, ConnId, ConnectRequest, ListenerName, Machine, MachineFd, Made, Unposted, ViSpec, Woken,
};
use crate::rt::Instant;
use crate::vi::{Counters, Keys, Limits, ListenError, Posted, Reliability, Ticket, ViError};

/// What changes, and what stays as it is.
#[derive(Debug)]
pub(super) struct TcpMachine {
    pub driver: Driver,
    pub fixed: Fixed,
}

impl Machine for TcpMachine {
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
        self.driver.post(conn, posted, &self.fixed, after)
    }

    fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool {
        self.driver.link(conn).cancel(ticket, &mut after.notices)
    }

    fn close(&mut self, conn: ConnId, after: &mut After) {
        self.driver.close(conn, &self.fixed, after);
    }

    fn release(&mut self, conn: ConnId, after: &mut After) {
        self.driver.close(conn, &self.fixed, after);
        self.driver.ended.remove(&conn.0);
    }

    fn error(&self, conn: ConnId) -> Option<ViError> {
        self.driver.find(conn).error()
    }

    fn counters(&self, conn: ConnId) -> Counters {
        self.driver.find(conn).counters()
    }

    #[inline]
    fn poll(&mut self, after: &mut After) {
        self.driver.poll(&self.fixed, after);
    }

    fn next_event(&self) -> Option<Instant> {
        self.driver.next_event()
    }

    fn descriptor(&self) -> Option<MachineFd> {
        Some(MachineFd::Set(Arc::clone(&self.fixed.set)))
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
}
