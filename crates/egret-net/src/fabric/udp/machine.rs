//! A nic of UDP as the state machine that its handles share.

use std::sync::Arc;
use std::task::Waker;

use super::driver::{BATCH, Driver};
use super::knocking::Knocking;
use super::wire::Number;
use crate::fabric::place::Peer;
use crate::fabric::{
    After, ConnId, ConnectRequest, ListenerName, Machine, MachineFd, Made, Unposted, ViSpec, Woken,
};
use crate::rt::Instant;
use crate::vi::{
    ConnectError, Counters, Keys, Limits, ListenError, Posted, Reliability, Ticket, ViError,
};

/// Calls of `progress` without a sleep after which none is expected.
const AWAKE_MAX: u32 = 1 << 12;

impl Machine for Driver {
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
        self.listeners.open(name, reliability)
    }

    fn unlisten(&mut self, name: &ListenerName, after: &mut After) {
        self.listeners.close(name, after);
    }

    fn wake_on_arrival(&mut self, name: &ListenerName, waker: Waker) -> Option<Waker> {
        self.listeners.wake_on_arrival(name, waker)
    }

    fn accept(
        &mut self,
        name: &ListenerName,
        spec: ViSpec,
        _after: &mut After,
    ) -> Result<Option<Made>, ListenError> {
        let Some(visitor) = self.listeners.next(name)? else { return Ok(None) };
        let (at, guest) = (visitor.at(), visitor.guest);
        let made = self.connected([guest.own, guest.theirs], at, spec);
        guest.welcome(&self.fixed.socket);
        Ok(Some(made))
    }

    fn connect(&mut self, request: ConnectRequest, after: &mut After) {
        if !self.listeners.is_up() {
            return after.settle(request.promise, Err(ConnectError::NicDown));
        }
        if let Some(Peer::At(addresses)) = Peer::read(&request.to.host)
            && let Some(group) = addresses.iter().find(|at| at.ip().is_multicast())
        {
            // A group loses, and has nobody who could be asked to repeat.
            let joined = match request.spec.reliability {
                Reliability::Unreliable => self.join(*group, &request),
                level => Err(ConnectError::Unsupported(level)),
            };
            return after.settle(request.promise, joined);
        }
        let now = after.now();
        let mut knocking = Knocking::new(request, now, &self.fixed.stance);
        let outcome = knocking.tick(now, &self.fixed.socket, &self.fixed.stance);
        let number = knocking.number();
        self.knocks.insert(number, knocking);
        self.knocked(number, outcome, after);
    }

    #[inline]
    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        if self.link(conn).post(posted, &mut after.notices)? {
            self.stuck.push(Number(conn.0));
            // A thread that sleeps is to wait for room as well.
            after.happened = true;
        }
        Ok(())
    }

    fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool {
        self.link(conn).cancel(ticket, &mut after.notices)
    }

    fn close(&mut self, conn: ConnId, after: &mut After) {
        self.end(Number(conn.0), &ViError::Closed, after);
    }

    fn release(&mut self, conn: ConnId, after: &mut After) {
        self.close(conn, after);
        self.ended.remove(&Number(conn.0));
    }

    fn error(&self, conn: ConnId) -> Option<ViError> {
        self.find(conn).error()
    }

    fn counters(&self, conn: ConnId) -> Counters {
        self.find(conn).counters()
    }

    fn datagram_max(&self, conn: ConnId) -> usize {
        self.find(conn).datagram_max()
    }

    /// Takes one datagram, so that its answer can leave before the next is looked for;
    /// more if they come in a row.
    #[inline]
    fn poll(&mut self, after: &mut After) {
        let most = if self.streak < 2 { 1 } else { BATCH };
        let found = self.receive(after, most);
        self.streak = if found { self.streak.saturating_add(1) } else { 0 };
        self.look_around(after);
        if self.pace.is_time(after) {
            self.tick(after.now(), after);
        }
        self.awake += 1;
        if self.awake >= AWAKE_MAX {
            self.stay_awake();
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let has_beat = self.is_busy().then_some(self.next_beat);
        self.knocks.values().map(Knocking::deadline).chain(has_beat).min()
    }

    fn descriptor(&self) -> Option<MachineFd> {
        Some(MachineFd::Set(Arc::clone(&self.fixed.set)))
    }

    fn arm(&mut self, after: &mut After) -> bool {
        (self.is_asleep, self.awake) = (true, 0);
        self.watch();
        let found = self.receive(after, BATCH);
        self.look_around(after);
        // What it says of room, it says of what is stuck now.
        self.watch();
        found
    }

    fn disarm(&mut self, woken: Woken<'_>, after: &mut After) {
        self.is_asleep = false;
        if woken.said().iter().any(|event| event.has_error) {
            self.hear_troubles(after);
        }
        self.receive(after, 1);
        self.look_around(after);
        if woken.said().is_empty() || self.pace.is_time(after) {
            self.tick(after.now(), after);
        }
    }

    fn shut(&mut self, after: &mut After) {
        self.unwatch();
        let groups = self.groups.iter().map(|member| &member.link);
        let all = self.links.values().chain(groups).map(|link| link.number);
        for number in all.collect::<Vec<_>>() {
            self.end(number, &ViError::NicDown, after);
        }
        for mut knocking in std::mem::take(&mut self.knocks).into_values() {
            knocking.give_up(&self.fixed.socket);
            after.settle(knocking.patience.request.promise, Err(ConnectError::NicDown));
        }
        self.listeners.shut(after);
        after.happened = true;
    }
}
