//! When to acknowledge what has come.

use std::time::Duration;

use crate::rt::Instant;

use super::terms::WindowTerms;

/// Acknowledgements travel on the back of any datagram. One goes alone if none went for
/// a while, if a quarter of the window has come since, or if something is out of order.
#[derive(Debug)]
pub(super) struct Acks {
    due: Option<Instant>,
    unacknowledged: u32,
    quarter: u32,
    delay: Duration,
}

impl Acks {
    pub(super) fn new(terms: &WindowTerms) -> Self {
        let quarter = (terms.messages / 4).max(1);
        Self { due: None, unacknowledged: 0, quarter, delay: terms.pace.ack_delay }
    }

    /// The next piece came.
    pub(super) fn came(&mut self, now: Instant) {
        self.unacknowledged += 1;
        if self.unacknowledged >= self.quarter {
            self.hurry(now);
        } else if self.due.is_none() {
            self.due = Some(now + self.delay);
        }
    }

    /// The peer should know at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
    }

    /// If the peer waits for one that it has not got.
    pub(super) fn hurry_if_due(&mut self, now: Instant) {
        if self.due.is_some() {
            self.hurry(now);
        }
    }

    /// A datagram goes to the peer.
    pub(super) fn told(&mut self) {
        self.due = None;
        self.unacknowledged = 0;
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}
