//! A nic of shared memory as the state machine that its handles share.

use std::num::NonZeroU64;
use std::time::Duration;

use super::acceptor::Acceptor;
use super::connection::ShmPollOutcome;
use super::doorbell::{NAP, SleepPolicy, WakeupCertainty};
use super::driver::Driver;
use super::fault;
use crate::fabric::common::connectors;
use crate::fabric::common::machine::prelude::*;

/// A nap in which nothing happened is followed by one this many times as long, up to [`NAP_MAX`].
const LONGER: u32 = 4;
const NAP_MAX: Duration = Duration::from_secs(1);

impl Machine for Driver {
    same_methods!(u64::from);

    #[inline]
    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        let Self { links, fixed, .. } = self;
        let link = links.of_handle(conn.0);
        if link.post(posted, &fixed.keys)? {
            // If many items waited for the receive, not all of them were taken: a sleeping thread
            // has more to poll for.
            after.happened |=
                link.resume(&fixed.keys, &mut after.notices) != ShmPollOutcome::Nothing;
        }
        Ok(())
    }

    /// Moves messages; now and then looks at the sockets. With one connection
    /// and nothing to do it costs about 25 ns, and one load of a line that is
    /// in the cache until the peer writes it.
    #[inline]
    fn poll(&mut self, after: &mut After) {
        if self.links.may_have_work() {
            return self.poll_now(after);
        }
        if self.pace.is_due() {
            self.look_if_time(after);
        }
    }

    /// When to tick again at the latest.
    fn next_event(&self) -> Option<Instant> {
        let acceptor = self.acceptor.as_ref().and_then(Acceptor::next_deadline);
        [acceptor, connectors::deadline(&self.connectors), self.nap_until]
            .into_iter()
            .flatten()
            .min()
    }

    /// Arms the doorbells, then moves messages once more. Whether there were any.
    fn arm(&mut self, after: &mut After) -> bool {
        let (bells, now) = (self.links.doze(), after.now());
        self.nap_until = match fault::certainty(bells) {
            WakeupCertainty::Sure => None,
            WakeupCertainty::Likely => Some(now + self.nap),
            WakeupCertainty::Doubtful => {
                self.fixed.sleep_policy = SleepPolicy::SleepsUnfenced;
                Some(now + NAP)
            }
        };
        let mut busy = false;
        self.links.look_last(bells, now, |link| {
            let polled = link.poll(&self.fixed.keys, &mut after.notices, true);
            busy |= polled != ShmPollOutcome::Nothing;
            after.happened |= polled.is_news();
            polled
        });
        busy
    }

    /// Disarms the doorbells, and handles the events that ended a sleep.
    fn disarm(&mut self, woken: Woken<'_>, after: &mut After) {
        self.links.disarm();
        let is_over = self.nap_until.take().is_some_and(|until| until <= after.now());
        self.nap = if is_over { NAP_MAX.min(LONGER * self.nap) } else { NAP };
        self.poll_quickly(after);
        let mut look = woken.has_slept() && woken.said().is_empty();
        for event in woken.said() {
            match self.rung(event.token) {
                Some(id) => self.poll_one(id, after),
                None => look = true,
            }
        }
        let is_time = self.pace.is_time(after);
        if is_time {
            self.links.time_passes();
        }
        if look || is_time {
            self.look(after);
        }
    }

    fn shut(&mut self, after: &mut After) {
        self.acceptor = None;
        self.links.end_all(|link| link.close(&ViError::NicDown, &mut after.notices));
        connectors::shut(std::mem::take(&mut self.connectors), after);
        self.listeners.shut(after);
        after.happened = true;
    }

    fn has_eager(&self, _level: Reliability) -> bool {
        true
    }

    /// Sends an eager message, if there is room for it.
    #[inline]
    fn try_send(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Option<NonZeroU64> {
        self.links.get(conn.0)?.try_send(lane, tag, parts)
    }

    fn send(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        after: &mut After,
    ) -> Result<Position, PostError> {
        let link = self.links.of_handle(conn.0);
        let sent = link.send(lane, tag, parts, &mut after.notices);
        after.happened |= link.has_ended();
        sent
    }

    fn arrived(&mut self, conn: ConnId, lane: Lane, asked: bool, after: &mut After) -> Position {
        let link = self.links.of_handle(conn.0);
        let arrived = link.arrived(lane, asked, &mut after.notices);
        after.happened |= link.has_ended();
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
        if !self.links.may_have_eager(drain) {
            return Drained::default();
        }
        self.drain_now(drain, budget, sink, after)
    }
}
