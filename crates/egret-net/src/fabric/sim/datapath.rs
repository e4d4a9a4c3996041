//! One end of a simulated connection: post and arrive, without clock or I/O.
//!
//! The world calls in with the present moment and carries out what [`EndOutput`]
//! collects. What makes it reliable over a lossy link: items are numbered and
//! kept until the peer's counts say they are taken; a timer sends the oldest
//! again, or asks for the counts when the peer owes something. A peer that
//! answers nothing for [`DEAD_AFTER`] is dead.
//!
//! Repeated names: `DataPath`, one in each fabric.

use std::sync::Arc;
use std::time::Duration;

use super::eager::{EagerRecord, SimEager};
use super::fault::Fault;
use super::recv::Receiver;
use super::send::Sender;
use super::wire::{FrameBody, SimCounts, SimDatagram, StreamItem};
use crate::fabric::receives::Receives;
use crate::fabric::{Unposted, ViSpec};
use crate::rt::Instant;
use crate::vi::{
    Counters, Keys, Lane, Notices, Op, Position, PostError, Posted, Reliability, Ticket, ViError,
};

/// What an end wants done.
#[derive(Debug)]
pub(super) struct EndOutput<'a> {
    pub now: Instant,
    pub keys: &'a Keys,
    pub notices: &'a mut Notices,
    pub planted: Option<Fault>,
    /// Items for the peer; the counts are added when they leave.
    pub items: Vec<(u64, StreamItem)>,
    /// Other frames for the peer.
    pub frames: Vec<FrameBody>,
    /// How many whole messages are to be placed a little later.
    pub placing: usize,
    /// Whether eager messages have arrived.
    pub arrived: bool,
    /// Datagrams that have arrived for a window.
    pub datagrams: Vec<Arc<[u8]>>,
}

impl<'a> EndOutput<'a> {
    pub(super) const fn new(
        now: Instant,
        keys: &'a Keys,
        notices: &'a mut Notices,
        planted: Option<Fault>,
    ) -> Self {
        Self {
            now,
            keys,
            notices,
            planted,
            items: Vec::new(),
            frames: Vec::new(),
            placing: 0,
            arrived: false,
            datagrams: Vec::new(),
        }
    }

    pub(super) fn has(&self, planted: Fault) -> bool {
        planted.is_in(self.planted)
    }
}

#[derive(Debug)]
pub(super) struct DataPath {
    reliability: Reliability,
    /// Whether its datagrams are those of a window.
    pub is_windowed: bool,
    depth: u32,
    sender: Sender,
    receiver: Receiver,
    pub eager: SimEager,
    /// How long an answer may take before it is asked for.
    patience: Duration,
    /// When the peer last said anything.
    heard: Instant,
    /// Since when the peer has been asked and has not answered.
    asking_since: Option<Instant>,
    /// When the timer rings; what rings at another time was overtaken.
    pub timer_at: Option<Instant>,
    datagrams: u64,
}

/// The shortest time after which an item is sent again.
const PATIENCE_MIN: Duration = Duration::from_millis(2);
const PATIENCE_MAX: Duration = Duration::from_millis(500);
/// How often an end that only waits to receive asks whether the peer lives.
const KEEPALIVE: Duration = Duration::from_secs(1);
/// How long a peer may owe an answer.
const DEAD_AFTER: Duration = Duration::from_secs(5);

impl DataPath {
    pub(super) fn new(spec: ViSpec) -> Self {
        let ViSpec { carries: reliability, depth, vi, drain, .. } = spec;
        Self {
            reliability,
            is_windowed: reliability != spec.reliability,
            depth,
            sender: Sender::new(reliability),
            receiver: Receiver::default(),
            eager: SimEager::new(vi, drain),
            patience: PATIENCE_MIN,
            heard: Instant::default(),
            asking_since: None,
            timer_at: None,
            datagrams: 0,
        }
    }

    /// What every frame carries.
    pub(super) const fn counts(&self) -> SimCounts {
        let Receiver { taken, receives: Receives { promised: receives, placed, .. }, .. } =
            self.receiver;
        SimCounts { taken, receives, placed, drained: self.eager.drained() }
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            sent: self.sender.outbox.completed + self.datagrams,
            received: self.receiver.receives.received,
            dropped: self.receiver.receives.dropped + self.eager.dropped,
        }
    }

    pub(super) fn post(&mut self, posted: Posted, out: &mut EndOutput<'_>) -> Result<(), Unposted> {
        let receiving = matches!(posted.op(), Op::Recv);
        let outstanding =
            if receiving { self.receiver.outstanding() } else { self.sender.outbox.outstanding() };
        if outstanding >= self.depth as usize {
            return Err(Unposted::new(PostError::Full { depth: self.depth }, posted));
        }
        match (receiving, self.reliability) {
            (false, Reliability::Unreliable) => self.post_datagram(posted, out),
            (false, _) => self.sender.push(posted, out),
            (true, Reliability::Unreliable) => self.receiver.receives.push(posted),
            (true, _) => {
                self.receiver.receives.push(posted);
                out.frames.push(FrameBody::Ack(self.counts()));
            }
        }
        Ok(())
    }

    fn post_datagram(&mut self, posted: Posted, out: &mut EndOutput<'_>) {
        let descriptor = posted.descriptor();
        let (len, tag) = (descriptor.len(), descriptor.tag());
        let mut bytes = vec![0; usize::try_from(len).expect("it lies in memory")];
        descriptor.gather(0, &mut bytes);
        let kind = descriptor.kind().cloned();
        let (eager, bytes) = (None, bytes.into());
        out.frames.push(FrameBody::Datagram(SimDatagram { eager, tag, kind, bytes }));
        self.datagrams += 1;
        posted.complete(len, tag, out.notices);
    }

    /// Sends a datagram of a window.
    pub(super) fn send_datagram(&mut self, bytes: &[u8], out: &mut EndOutput<'_>) {
        let (eager, tag, kind, bytes) = (None, 0, None, Arc::from(bytes));
        out.frames.push(FrameBody::Datagram(SimDatagram { eager, tag, kind, bytes }));
        self.datagrams += 1;
    }

    /// Sends an eager message.
    pub(super) fn send(
        &mut self,
        lane: Lane,
        tag: u64,
        bytes: Arc<[u8]>,
        out: &mut EndOutput<'_>,
    ) -> Result<Position, PostError> {
        let is_reliable = self.reliability.is_reliable();
        let position = self.eager.send(lane, is_reliable)?;
        if is_reliable {
            self.sender.push_eager(EagerRecord { lane, position, tag, bytes }, out);
        } else {
            let eager = Some((lane, position));
            out.frames.push(FrameBody::Datagram(SimDatagram { eager, tag, kind: None, bytes }));
        }
        Ok(Position::new(position))
    }

    /// Eager messages were drained: the peer is told.
    pub(super) fn drained(&self, out: &mut EndOutput<'_>) {
        if self.reliability.is_reliable() {
            out.frames.push(FrameBody::Ack(self.counts()));
        }
    }

    /// A receive was posted: what waited for one can go on.
    pub(super) fn resume(&mut self, out: &mut EndOutput<'_>) -> Result<(), ViError> {
        self.receiver.take(&mut self.sender, &mut self.eager, out)?;
        self.sender.pump(out);
        Ok(())
    }

    /// A frame of the peer arrived. An error is the end of the connection.
    pub(super) fn arrive(
        &mut self,
        body: FrameBody,
        out: &mut EndOutput<'_>,
    ) -> Result<(), ViError> {
        self.asking_since = None;
        self.heard = out.now;
        self.patience = PATIENCE_MIN;
        match body {
            FrameBody::Item(counts, number, item) => {
                self.receiver.arrive(number, item, out);
                self.receiver.take(&mut self.sender, &mut self.eager, out)?;
                self.hear(counts, out);
                // A message that is to be placed is answered for then, unless the sender only
                // wants to know that it has come this far.
                let answered_later = out.placing > 0 && self.reliability == Reliability::Reception;
                if out.items.is_empty() && !answered_later {
                    out.frames.push(FrameBody::Ack(self.counts()));
                }
            }
            FrameBody::Ack(counts) => self.hear(counts, out),
            FrameBody::Ping(counts, sent) => {
                self.hear(counts, out);
                if self.may_have_lost(out) {
                    self.eager.asked(sent);
                }
                out.frames.push(FrameBody::Ack(self.counts()));
            }
            FrameBody::Datagram(SimDatagram {
                eager: Some((lane, position)), tag, bytes, ..
            }) => {
                self.eager.arrive(EagerRecord { lane, position, tag, bytes }, out);
            }
            FrameBody::Datagram(datagram) if self.is_windowed => out.datagrams.push(datagram.bytes),
            FrameBody::Datagram(datagram) => self.receiver.datagram(&datagram, out),
            FrameBody::Connect(_)
            | FrameBody::Accept
            | FrameBody::Refuse(_)
            | FrameBody::Queued
            | FrameBody::Gone(_) => {}
        }
        Ok(())
    }

    /// Whether messages that are not here by now are lost.
    fn may_have_lost(&self, out: &EndOutput<'_>) -> bool {
        !self.reliability.is_reliable() && !out.has(Fault::CountsDrained)
    }

    fn hear(&mut self, counts: SimCounts, out: &mut EndOutput<'_>) {
        let before = self.eager.waits;
        self.eager.hear(counts.drained, out.planted);
        // Who waits for room, or for it to have arrived, looks again.
        out.arrived |= before;
        self.sender.hear(counts, out);
    }

    /// Hands one whole message to the program and tells the peer.
    pub(super) fn place(&mut self, out: &mut EndOutput<'_>) {
        self.receiver.place(out);
        out.frames.push(FrameBody::Ack(self.counts()));
    }

    /// When the timer is to ring next; `None` if there is nothing to wait for.
    pub(super) fn timer(&self, now: Instant) -> Option<Instant> {
        if self.expects() {
            Some(now + self.patience)
        } else {
            let waits = self.waits();
            waits.then(|| match self.asking_since {
                Some(_) => now + self.patience,
                None => (self.heard + KEEPALIVE).max(now + PATIENCE_MIN),
            })
        }
    }

    /// Whether it wants to know if the peer lives.
    fn waits(&self) -> bool {
        self.is_windowed || self.receiver.outstanding() > 0
    }

    /// Whether an answer of the peer is due.
    fn expects(&self) -> bool {
        self.sender.expects() || self.eager.waits
    }

    /// The timer rang: repeat, ask, or give up.
    pub(super) fn ring(&mut self, out: &mut EndOutput<'_>) -> Result<(), ViError> {
        let only_receives = !self.expects();
        let heard_lately = self.asking_since.is_none() && out.now < self.heard + KEEPALIVE;
        if only_receives && (heard_lately || !self.waits()) {
            return Ok(());
        }
        let asking_since = *self.asking_since.get_or_insert(out.now);
        if is_dead(asking_since, out) {
            return Err(ViError::PeerDied { why: "it has not answered for 5 s" });
        }
        let long_ago = Instant::from_nanos(out.now.as_nanos().saturating_sub(nanos(PATIENCE_MIN)));
        if !self.sender.retransmit(long_ago, out) {
            out.frames.push(FrameBody::Ping(self.counts(), self.eager.sent()));
        }
        self.patience = (self.patience * 2).min(PATIENCE_MAX);
        Ok(())
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, out: &mut EndOutput<'_>) -> bool {
        let taken =
            self.receiver.receives.cancel(ticket).or_else(|| self.sender.outbox.cancel(ticket));
        let Some(posted) = taken else { return false };
        posted.fail(ViError::Cancelled, out.notices);
        true
    }

    /// Everything outstanding comes back with the reason; messages that had
    /// reached the fabric whole are the program's, and come back as received.
    pub(super) fn fail(&mut self, why: &ViError, out: &mut EndOutput<'_>) {
        self.receiver.place_all(out);
        let all = self.sender.outbox.drain().into_iter().chain(self.receiver.drain());
        for posted in all {
            out.fail(posted, why.clone());
        }
    }
}

/// Whether the peer has answered nothing for too long.
fn is_dead(asking_since: Instant, out: &EndOutput<'_>) -> bool {
    out.now - asking_since >= DEAD_AFTER && !out.has(Fault::NeverDies)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a few seconds")
}
