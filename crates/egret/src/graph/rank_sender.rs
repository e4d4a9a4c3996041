//! Sender of graphs to a rank: a channel, and what waits until the channel is open.

use egret_net::rt::waits;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::Mutex;
use egret_net::vi::Segment;
use egret_node::Task;
use egret_node::channel::{ChannelError, Post, PostOutcome};

use super::RankGraphError;
use super::address::{GraphAddress, GraphChannel};
use super::fault::{Fault, planted};

/// Sends graphs to a rank. When its channel has failed one sender gets the error, and the next send makes a
/// new `RankSender`.
#[derive(Debug)]
pub(super) struct RankSender {
    pub(super) address: GraphAddress,
    phase: Mutex<RankSenderPhase>,
    /// Whether a sender got the error of the channel.
    is_told: AtomicBool,
    /// Opens the channel.
    opens: OnceLock<Task>,
}

#[derive(Debug)]
enum RankSenderPhase {
    /// With what was posted, and the bytes of each.
    Opening(VecDeque<(u64, Post)>),
    Open(Arc<GraphChannel>),
    Failed(RankGraphError),
}

impl RankSender {
    pub(super) fn new(address: GraphAddress) -> Arc<Self> {
        let phase = Mutex::new(RankSenderPhase::Opening(VecDeque::new()));
        let (is_told, opens) = (AtomicBool::new(false), OnceLock::new());
        let way = Arc::new(Self { address, phase, is_told, opens });
        let (to, address) = (Arc::downgrade(&way), way.address.clone());
        way.opens.get_or_init(|| {
            Task::new(async move {
                let opened = address.open().await;
                if let Some(way) = to.upgrade() {
                    way.opened(opened);
                }
            })
        });
        way
    }

    /// Whether the channel may still work.
    pub(super) fn is_good(&self) -> bool {
        !self.is_told.load(Ordering::Relaxed) || planted(Fault::Kept)
    }

    fn opened(&self, opened: Result<GraphChannel, RankGraphError>) {
        match opened {
            Ok(open) => self.post_waiting(&Arc::new(open)),
            Err(why) => {
                let before =
                    std::mem::replace(&mut *self.phase.lock(), RankSenderPhase::Failed(why));
                drop(before);
            }
        }
    }

    /// Posts what waits, one after the other: what is given meanwhile comes behind that.
    fn post_waiting(&self, open: &Arc<GraphChannel>) {
        // Dropped when it is known why those do not go.
        let mut too_large = Vec::new();
        while let Some((bytes, post)) = self.next_waiting(open) {
            if bytes > open.bytes_max {
                too_large.push(post);
            } else {
                open.writer.post(post);
            }
        }
    }

    /// What waits first. If nothing waits, what is sent goes into the channel from now on.
    fn next_waiting(&self, open: &Arc<GraphChannel>) -> Option<(u64, Post)> {
        let mut phase = self.phase.lock();
        match &mut *phase {
            RankSenderPhase::Opening(_) if planted(Fault::NotPosted) => None,
            RankSenderPhase::Opening(waiting) if !waiting.is_empty() => take_first(waiting),
            RankSenderPhase::Opening(_) => {
                *phase = RankSenderPhase::Open(Arc::clone(open));
                None
            }
            _ => None,
        }
    }

    /// Sends memory, behind all that was sent before.
    pub(super) fn send(&self, memory: &Arc<Segment>) -> PostOutcome {
        let (bytes, (post, posted)) = (memory.len(), post(memory));
        let open = match &mut *self.phase.lock() {
            RankSenderPhase::Opening(waiting) => {
                waiting.push_back((bytes, post));
                return posted;
            }
            RankSenderPhase::Open(open) if bytes <= open.bytes_max => Arc::clone(open),
            RankSenderPhase::Open(_) | RankSenderPhase::Failed(_) => return posted,
        };
        open.writer.post(post);
        posted
    }

    /// Sends memory that is lent, and waits until it is there.
    pub(super) fn wait_send(&self, bytes: &[u8], deadline: Deadline) -> Result<(), RankGraphError> {
        if bytes.len() < LENT_MIN {
            return self.wait_sent(bytes.to_vec().into(), deadline, &mut || true);
        }
        Segment::lend(bytes, |memory, is_back| self.wait_sent(memory, deadline, is_back))
    }

    fn wait_sent(
        &self,
        memory: Segment,
        deadline: Deadline,
        is_back: &mut dyn FnMut() -> bool,
    ) -> Result<(), RankGraphError> {
        let (started, bytes) = (rt::now(), memory.len());
        let mut posted = self.send(&Arc::new(memory));
        let _waits = waits::scope(self.address.handle.wait_hint("room", None));
        let sent = self.address.handle.wait_on(&mut posted, deadline);
        // What has gone of a message that was refused is said to be there soon.
        let until = rt::now() + BACK_MAX;
        while sent.is_some() && !is_back() && rt::now() < until {
            self.address.handle.poll();
            rt::sleep(SOON);
        }
        if sent.is_none() || !is_back() {
            self.take_back(&posted, is_back);
        }
        match sent {
            Some(sent) => sent.map_err(|why| self.why(why, bytes)),
            None => Err(self.timed_out(started)),
        }
    }

    /// Takes back what was sent. Memory that is lent and has gone costs the link.
    fn take_back(&self, posted: &PostOutcome, is_back: &mut dyn FnMut() -> bool) {
        loop {
            let (waits, open) = match &mut *self.phase.lock() {
                RankSenderPhase::Opening(waiting) => {
                    let at = waiting.iter().position(|(_, post)| post.is_of(posted));
                    (at.and_then(|at| waiting.remove(at)), None)
                }
                RankSenderPhase::Open(open) => (None, Some(Arc::clone(open))),
                RankSenderPhase::Failed(_) => (None, None),
            };
            drop(waits);
            open.iter().for_each(|open| open.writer.withdraw(posted));
            if is_back() {
                return;
            }
            if let Some(open) = open {
                self.is_told.store(true, Ordering::Relaxed);
                return open.writer.end_until(is_back);
            }
            // The thread that opens the channel has it just now.
            rt::sleep(SOON);
        }
    }

    /// Why so many bytes did not go.
    pub(super) fn why(&self, why: ChannelError, bytes: u64) -> RankGraphError {
        let rank = self.address.rank;
        let known = match &*self.phase.lock() {
            RankSenderPhase::Failed(why) => Some(why.clone()),
            RankSenderPhase::Open(open) if bytes > open.bytes_max => {
                Some(RankGraphError::TooLarge { rank, bytes, most: open.bytes_max })
            }
            RankSenderPhase::Open(_) | RankSenderPhase::Opening(_) => None,
        };
        let why = known.unwrap_or_else(|| self.address.not_written(why, bytes));
        if !matches!(why, RankGraphError::TooLarge { .. }) {
            self.is_told.store(true, Ordering::Relaxed);
        }
        why
    }

    pub(super) fn timed_out(&self, started: Instant) -> RankGraphError {
        let (rank, waited) = (self.address.rank, rt::now() - started);
        let is_open = self.address.is_known.load(Ordering::Relaxed);
        RankGraphError::SendTimedOut { rank, waited, is_open }
    }
}

fn take_first<T>(waiting: &mut VecDeque<T>) -> Option<T> {
    if planted(Fault::LastFirst) { waiting.pop_back() } else { waiting.pop_front() }
}

/// A graph as a message: one part, if that can be, or several behind one that says how many bytes
/// they have.
fn post(memory: &Arc<Segment>) -> (Post, PostOutcome) {
    let len = memory.bytes().len();
    if len <= SURE_MAX {
        return Post::new(vec![Segment::part_of(memory, 0..len)], Vec::new());
    }
    let starts = (0..len).step_by(PART_BYTES);
    let parts = starts.map(|at| Segment::part_of(memory, at..len.min(at + PART_BYTES)));
    let parts = [(len as u64).to_le_bytes().to_vec().into()].into_iter().chain(parts).collect();
    if len > WHOLE_MAX {
        return Post::new(parts, Vec::new());
    }
    Post::new(vec![Segment::part_of(memory, 0..len)], parts)
}

/// From so many bytes on, memory that is lent goes from where it lies.
const LENT_MIN: usize = 16 << 10;
/// So many bytes of one part a node always takes.
const SURE_MAX: usize = 8 << 10;
/// More bytes than this go in parts: those of a graph that lands whole are held by its receiver's
/// node, which holds so much for all that others send.
const WHOLE_MAX: usize = if cfg!(test) { 64 << 10 } else { 64 << 20 };
/// Bytes of such a part, of which a channel can have several under way.
const PART_BYTES: usize = if cfg!(test) { 16 << 10 } else { 1 << 20 };
/// How long the hand-over of what waits takes at most, mostly.
const SOON: Duration = Duration::from_micros(50);
/// How long what has gone is waited for before its link is given up.
const BACK_MAX: Duration = Duration::from_millis(100);
