//! A nic of UDP as the state machine that its handles share.

use super::driver::{BATCH, Driver};
use super::wire::ConnectionNumber;
use crate::fabric::DatagramEvent;
use crate::fabric::common::machine::prelude::*;
use crate::fabric::common::{ConnectOutcome, connectors};

/// Polls without a sleep after which none is expected.
const AWAKE_MAX: u32 = 1 << 12;

impl Machine for Driver {
    same_methods!(ConnectionNumber);

    #[inline]
    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        if self.links.of_handle(ConnectionNumber(conn.0)).post(posted, &mut after.notices)? {
            self.stuck.push(ConnectionNumber(conn.0));
            // A thread that sleeps is to wait for room as well.
            after.happened = true;
        }
        Ok(())
    }

    fn has_datagrams(&self) -> bool {
        self.is_below
    }

    fn datagram_max(&self, conn: ConnId) -> usize {
        self.links.find(ConnectionNumber(conn.0)).room()
    }

    fn datagram_edges(&self, conn: ConnId) -> [usize; 2] {
        self.links.find(ConnectionNumber(conn.0)).edges()
    }

    fn doubt_path(&mut self, conn: ConnId) {
        self.links.of_handle(ConnectionNumber(conn.0)).doubt();
    }

    #[inline]
    fn send_datagrams(
        &mut self,
        conn: ConnId,
        train: &mut [u8],
        size: usize,
        after: &mut After,
    ) -> usize {
        let (left, is_stuck) =
            self.links.of_handle(ConnectionNumber(conn.0)).send_train(train, size);
        if is_stuck {
            let number = ConnectionNumber(conn.0);
            if !self.stuck.contains(&number) {
                self.stuck.push(number);
            }
            // A thread that sleeps is to wait for room as well.
            after.happened = true;
        }
        left
    }

    #[inline]
    fn next_datagram(&mut self, after: &mut After) -> Option<DatagramEvent<'_>> {
        self.receive_for_window(after)
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
        let has_keep_alive = self.is_busy().then_some(self.next_keep_alive);
        connectors::deadline(&self.connectors).into_iter().chain(has_keep_alive).min()
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
            self.handle_undelivered_datagrams(after);
        }
        self.receive(after, 1);
        self.look_around(after);
        if woken.said().is_empty() || self.pace.is_time(after) {
            self.tick(after.now(), after);
        }
    }

    fn shut(&mut self, after: &mut After) {
        self.unwatch();
        for number in self.links.open.keys().copied().collect::<Vec<_>>() {
            self.end(number, &ViError::NicDown, after);
        }
        for number in self.connectors.keys().copied().collect::<Vec<_>>() {
            self.settle_attempt(number, ConnectOutcome::Failed(ConnectError::NicDown), after);
        }
        self.listeners.shut(after);
        after.happened = true;
    }
}
