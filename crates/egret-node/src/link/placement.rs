//! Direct placement: the memory into which the large messages of a link are received.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egret_net::buf::Buf;
use egret_net::vi::DirectPlacement;

use super::control::CONTROL_MAX;
use crate::flow::inflows::NO_CREDIT;
use crate::flow::{InflowKey, SizedPools, cost};
use crate::frame::{FrameHead, FrameKind, MEDIUM_MAX};

/// Chooses memory for the messages of a peer. Called by the fabric, under its locks.
pub(crate) struct Placement {
    depot: Arc<SizedPools>,
    flows: Mutex<BTreeMap<InflowKey, PlacedFlow>>,
}

struct PlacedFlow {
    /// Bytes that the peer may still send.
    bytes: u64,
    supply: Option<Arc<SuppliedBuffers>>,
    /// For each message that was placed and not delivered yet: whether in a supplied buffer.
    origins: VecDeque<bool>,
}

/// Buffers that an endpoint supplied for what is sent to it.
#[derive(Default)]
pub(crate) struct SuppliedBuffers {
    bufs: Mutex<VecDeque<Buf>>,
    /// Messages that landed in one of them, and that did not.
    used: AtomicU64,
    fresh: AtomicU64,
}

impl Placement {
    pub(crate) fn new(depot: Arc<SizedPools>) -> Self {
        Self { depot, flows: Mutex::default() }
    }

    /// Opens a flow, of which so many bytes may be sent.
    pub(crate) fn open(&self, flow: InflowKey, bytes: u64, supply: Option<Arc<SuppliedBuffers>>) {
        self.flows().insert(flow, PlacedFlow { bytes, supply, origins: VecDeque::new() });
    }

    /// Lets the peer send so many bytes more.
    pub(crate) fn grant(&self, flow: InflowKey, bytes: u64) {
        if let Some(granted) = self.flows().get_mut(&flow) {
            granted.bytes = granted.bytes.saturating_add(bytes);
        }
    }

    /// What the peer may still send.
    #[cfg(test)]
    pub(crate) fn left(&self, flow: InflowKey) -> u64 {
        self.flows().get(&flow).map_or(0, |granted| granted.bytes)
    }

    /// A message that was small enough to land without asking.
    ///
    /// # Errors
    ///
    /// If the peer may not send so much.
    pub(crate) fn spend(&self, flow: InflowKey, bytes: u64) -> Result<(), &'static str> {
        self.flows().get_mut(&flow).ok_or(NO_FLOW)?.spend(cost(bytes))
    }

    /// Lets the peer send so many bytes less.
    pub(crate) fn revoke(&self, flow: InflowKey, bytes: u64) {
        if let Some(granted) = self.flows().get_mut(&flow) {
            granted.bytes = granted.bytes.saturating_sub(bytes);
        }
    }

    pub(crate) fn close(&self, flow: InflowKey) {
        let granted = self.flows().remove(&flow);
        drop(granted);
    }

    fn bulk(&self, flow: InflowKey, len: u64) -> Result<Buf, &'static str> {
        let supply = {
            let mut flows = self.flows();
            let granted = flows.get_mut(&flow).ok_or(NO_FLOW)?;
            granted.spend(cost(len))?;
            granted.supply.clone()
        };
        let len = usize::try_from(len).map_err(|_| TOO_LONG)?;
        let Some(supply) = supply else { return self.fresh(len) };
        let supplied = supply.take(len);
        if let Some(granted) = self.flows().get_mut(&flow) {
            granted.origins.push_back(supplied.is_some());
        }
        supplied.map_or_else(|| self.fresh(len), Ok)
    }

    fn fresh(&self, len: usize) -> Result<Buf, &'static str> {
        self.depot.take(len).map_err(|_| "there is no memory for a message")
    }

    /// Whether the next message of a flow that landed did so in a supplied buffer. Messages
    /// of a flow are delivered in the order in which they land.
    pub(crate) fn was_supplied(&self, flow: InflowKey) -> bool {
        let mut flows = self.flows();
        flows.get_mut(&flow).and_then(|granted| granted.origins.pop_front()).unwrap_or(false)
    }

    fn flows(&self) -> MutexGuard<'_, BTreeMap<InflowKey, PlacedFlow>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DirectPlacement for Placement {
    fn land(&self, len: u64, tag: u64) -> Result<Buf, &'static str> {
        let head = FrameHead::from_bits(tag).ok_or("a frame of an unknown kind")?;
        let words = u64::from(head.words) * 8;
        let data = len.checked_sub(words).ok_or("a frame without the words it says")?;
        match head.kind {
            FrameKind::Bulk => self.bulk(InflowKey::Requests(head.slot), data),
            FrameKind::BulkReply => self.bulk(InflowKey::Replies(head.slot), data),
            FrameKind::Part | FrameKind::Last | FrameKind::Abort | FrameKind::End => {
                self.bulk(InflowKey::Channel(head.slot), data)
            }
            kind => {
                let most = if kind == FrameKind::Control { CONTROL_MAX } else { TALK_MAX };
                let len = usize::try_from(len).ok().filter(|_| len <= most);
                self.fresh(len.ok_or(TOO_LONG)?)
            }
        }
    }
}

impl PlacedFlow {
    fn spend(&mut self, bytes: u64) -> Result<(), &'static str> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(NO_CREDIT)?;
        Ok(())
    }
}

impl SuppliedBuffers {
    pub(crate) fn add(&self, buf: Buf) {
        self.bufs().push_back(buf);
    }

    /// The first that holds `len` bytes, cut to that.
    fn take(&self, len: usize) -> Option<Buf> {
        let buf = {
            let mut bufs = self.bufs();
            let at = bufs.iter().position(|buf| buf.capacity() >= len);
            at.and_then(|at| bufs.remove(at))
        };
        let count = if buf.is_some() { &self.used } else { &self.fresh };
        count.fetch_add(1, Ordering::Relaxed);
        buf.map(|mut buf| {
            buf.resize(len);
            buf
        })
    }

    /// A buffer that was used and not kept: the next, for it is still in the cache.
    pub(crate) fn give_back(&self, buf: Buf) {
        self.bufs().push_front(buf);
    }

    /// Messages that landed in supplied memory, and that did not.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.used.load(Ordering::Relaxed), self.fresh.load(Ordering::Relaxed))
    }

    /// How many are left.
    pub(crate) fn len(&self) -> usize {
        self.bufs().len()
    }

    fn bufs(&self) -> MutexGuard<'_, VecDeque<Buf>> {
        self.bufs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placement").finish_non_exhaustive()
    }
}

impl fmt::Debug for SuppliedBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SuppliedBuffers").field("left", &self.len()).finish_non_exhaustive()
    }
}

/// Longest message of the talk lane, words and all.
pub(crate) const TALK_MAX: u64 = MEDIUM_MAX as u64 + 256;
const NO_FLOW: &str = "data for a flow that is not open";
const TOO_LONG: &str = "a message longer than its kind allows";
