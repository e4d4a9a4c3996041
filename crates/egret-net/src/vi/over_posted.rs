//! Eager messages over posted ones, on fabrics that do not carry them themselves.
//!
//! Each connection has receives posted of the eager class, and sends from memory that it uses
//! again. A message has a [head](EagerHead) of sixteen bytes before its parts, which says what it is,
//! of which lane, at which position, and how far its sender has drained.
//!
//! At reliable levels a sender has at most a [window](LaneCounts::window) of messages and requests
//! of each lane that the peer has not drained, as far as the sender knows: a lane that is full leaves
//! the other open. At the unreliable level no lane is full, and a position that was drained says of
//! lower ones that they were drained, lost or overtaken. The sender hears by every head what was
//! drained; by a message of its own when that is a quarter of a window, or when it asks. It reads
//! heads when it [drains](OverPosted::drain) and at no other time: a sender that never drains fills
//! its window and has no room again. On the way, and when they are drained, both lanes are one
//! stream of posted messages of the eager class, which the fabric keeps apart from large ones.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::eager::{EAGER_MAX, Lane, Position, Reply, Sink};
use super::eager_head::{EagerHead, EagerKind};
use super::handle::ViHandle;
use super::hub::Hub;
use super::inbox::InboxOwner;
use super::lane_counts::{LaneCounts, UNDRAINED_MAX, low_bits};
use super::{
    Completion, Descriptor, DirectPlacement, Op, OpKind, PostError, Posted, Reliability, Ticket,
    ViId,
};
use crate::atomics::BiasedLock;
use crate::buf::{Buf, Pool};

/// The eager messages of some connections of a nic.
pub(super) struct OverPosted {
    inbox: InboxOwner,
    members: BiasedLock<BTreeMap<ViId, Arc<EmulatedVi>>>,
    /// Whether a thread drains: one at a time, so that nothing overtakes.
    draining: AtomicBool,
    /// Whether another thread wanted to meanwhile.
    turned_away: AtomicBool,
    /// Whether these are drained before those that the fabric carries itself.
    turn: AtomicBool,
}

/// One of the connections.
pub(super) struct EmulatedVi {
    id: ViId,
    handle: Arc<ViHandle>,
    is_reliable: bool,
    state: BiasedLock<EmulatedState>,
}

#[derive(Default)]
struct EmulatedState {
    lanes: [LaneCounts; 2],
    /// Messages that the fabric did not take, at the unreliable level.
    dropped: u64,
    /// Memory of messages that were sent, to be used again.
    spare: Vec<Descriptor>,
    /// Messages that are about to be posted, and whether a thread is at it.
    queued: VecDeque<Descriptor>,
    posting: bool,
}

/// Receives beyond the windows, for what tells of credit. A side that drains nothing can ask at most
/// after every other message of a window, and is told of every quarter of it besides.
const CREDITS: u64 = UNDRAINED_MAX / 2 + 10;
const HEAD: usize = EagerHead::LEN;
/// Bytes of a message that needs no memory beyond what its receive has: 16 words, and some more.
const SMALL: usize = 152;
/// Memory of messages that is kept.
const SPARE_MAX: usize = 16;

impl OverPosted {
    pub(super) fn new(hub: &Hub) -> Self {
        let (inbox, members) = (InboxOwner::new(hub, usize::MAX / 2), hub.sharing(BTreeMap::new()));
        let (draining, turned_away) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { inbox, members, draining, turned_away, turn: AtomicBool::new(false) }
    }

    /// Takes a connection on, which has its receives from now on.
    pub(super) fn add(
        &self,
        id: ViId,
        handle: &Arc<ViHandle>,
        reliability: Reliability,
    ) -> Arc<EmulatedVi> {
        let (handle, is_reliable) = (Arc::clone(handle), reliability.is_reliable());
        let state = self.members.sharing(EmulatedState::default());
        let member = Arc::new(EmulatedVi { id, handle, is_reliable, state });
        // First: what arrives as soon as there is a receive then has a place to go.
        self.members.with(|members| members.insert(id, Arc::clone(&member)));
        let large: Arc<dyn DirectPlacement> = Arc::new(Large);
        for _ in 0..UNDRAINED_MAX + CREDITS {
            let (own, most) = (vec![0_u8; HEAD + SMALL], (HEAD + EAGER_MAX) as u64);
            self.receive(&member, Descriptor::landing(own, most, Arc::clone(&large)));
        }
        member
    }

    /// Posts a receive. A connection that is broken needs none.
    fn receive(&self, member: &EmulatedVi, mut receive: Descriptor) {
        receive.unland();
        let _ = member.post(Op::Recv, receive, &self.inbox);
    }

    /// The connection is gone, and what it has received with it.
    pub(super) fn remove(&self, id: ViId) {
        let member = self.members.with(|members| members.remove(&id));
        drop(member);
    }

    pub(super) fn send(
        &self,
        member: &EmulatedVi,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<Position, PostError> {
        let len = PostError::check_eager(parts)?;
        if let Some(why) = member.handle.error() {
            return Err(PostError::Broken(why));
        }
        let is_reliable = member.is_reliable;
        let position = member.state.with(|state| {
            let counts = &mut state.lanes[lane as usize];
            if is_reliable && counts.is_full(lane) {
                return None;
            }
            let position = Position::new(counts.send());
            state.queue((EagerKind::Message, lane, len), tag, parts);
            Some(position)
        });
        self.post_queued(member);
        position.ok_or(PostError::LaneFull)
    }

    /// Posts what is queued, in order: one thread at a time, with no lock of ours, for a fabric
    /// may have the program told of something else meanwhile. What is refused is lost: at the
    /// unreliable level for want of room, which is counted of messages, else with the connection.
    fn post_queued(&self, member: &EmulatedVi) {
        while let Some(frame) = member.state.with(EmulatedState::next_frame) {
            let is_message = frame.bytes().first() == Some(&(EagerKind::Message as u8));
            let is_refused = member.post(Op::Send, frame, &self.inbox).is_err();
            member.state.with(|state| {
                state.posting = false;
                state.dropped += u64::from(is_refused && is_message && !member.is_reliable);
            });
        }
    }

    /// How far the peer has drained what was sent. The peer may be asked to say so.
    pub(super) fn arrived(&self, member: &EmulatedVi, lane: Lane, asked: bool) -> Position {
        // Where requests and answers may be lost, a request is repeated in time.
        let now = (asked && !member.is_reliable).then(|| member.handle.now());
        let heard = member.state.with(|state| {
            let counts = &mut state.lanes[lane as usize];
            let heard = counts.heard();
            if asked && counts.ask(lane, now) {
                state.queue((EagerKind::Ask, lane, 0), 0, &[]);
            }
            heard
        });
        self.post_queued(member);
        Position::new(heard)
    }

    /// Passes what was received to `sink`, at most `budget` messages, and posts each receive again.
    /// Also hears credit, and keeps the memory of sends. How many messages; none if another thread
    /// drains.
    ///
    /// A sink that panics unwinds through this: that message is gone, and its receive is posted again.
    /// A thread that was turned away meanwhile is not woken.
    pub(super) fn drain(&self, budget: usize, sink: &mut Sink<'_>) -> usize {
        if self.draining.swap(true, Ordering::Acquire) {
            self.turned_away.store(true, Ordering::SeqCst);
            return 0;
        }
        let _draining = DrainGuard(&self.draining);
        let mut drained = 0;
        while drained < budget
            && let Some(completion) = self.inbox.inbox().take()
        {
            let member = self.members.with(|members| members.get(&completion.vi).cloned());
            let Some(member) = member else { continue };
            let is_receive = completion.op == OpKind::Recv;
            match completion.status.is_ok() {
                true if is_receive => {
                    drained += usize::from(self.received(&member, completion, sink));
                }
                true => member.state.with(|state| state.keep(completion)),
                // A message that did not fit, or the end of the connection.
                false if is_receive => self.receive(&member, completion.into_descriptor()),
                false => {}
            }
        }
        drained
    }

    /// Whether it is the turn of these, every other time.
    pub(super) fn is_turn(&self) -> bool {
        self.turn.fetch_xor(true, Ordering::Relaxed)
    }

    /// Whether another thread wanted to drain since this was asked.
    pub(super) fn has_turned_away(&self) -> bool {
        self.turned_away.load(Ordering::Relaxed) && self.turned_away.swap(false, Ordering::SeqCst)
    }

    /// A message of the peer. Whether it was one for the sink.
    fn received(
        &self,
        member: &Arc<EmulatedVi>,
        completion: Completion,
        sink: &mut Sink<'_>,
    ) -> bool {
        let (tag, bytes) = (completion.tag, completion.bytes());
        let Some(EagerHead { what, lane, position, drained }) = EagerHead::from_bytes(bytes) else {
            member.handle.close();
            return false;
        };
        let is_in_order = member.state.with(|state| {
            for (counts, drained) in state.lanes.iter_mut().zip(drained) {
                counts.hear(drained);
            }
            let counts = &mut state.lanes[lane as usize];
            what == EagerKind::Credit || counts.drain(position, member.is_reliable)
        });
        if !is_in_order {
            member.handle.close();
            return false;
        }
        // Given back also if the sink panics.
        let taken = DrainedMessage { over: self, member, completion: Some(completion), what, lane };
        if what == EagerKind::Message {
            sink(&mut EmulatedReply { over: self, member }, tag, taken.parts());
        }
        drop(taken);
        what == EagerKind::Message
    }
}

/// A message that was received. When it is dropped, its receive is posted again, and the peer is
/// told of room.
struct DrainedMessage<'a> {
    over: &'a OverPosted,
    member: &'a EmulatedVi,
    completion: Option<Completion>,
    what: EagerKind,
    lane: Lane,
}

impl DrainedMessage<'_> {
    fn parts(&self) -> &[u8] {
        self.completion.as_ref().map_or(&[], |completion| &completion.bytes()[HEAD..])
    }
}

impl Drop for DrainedMessage<'_> {
    fn drop(&mut self) {
        let Self { over, member, completion, what, lane } = self;
        if let Some(completion) = completion.take() {
            over.receive(member, completion.into_descriptor());
        }
        let lane = *lane as usize;
        member.state.with(|state| {
            let owed = state.lanes[lane].owed();
            if *what == EagerKind::Ask || owed >= LaneCounts::window(lane) / 4 {
                state.queue((EagerKind::Credit, Lane::Talk, 0), 0, &[]);
            }
        });
        over.post_queued(member);
    }
}

impl EmulatedVi {
    /// Messages that the fabric did not take, at the unreliable level.
    pub(super) fn dropped(&self) -> u64 {
        self.state.with(|state| state.dropped)
    }

    fn post(
        &self,
        op: Op,
        mut descriptor: Descriptor,
        inbox: &InboxOwner,
    ) -> Result<(), PostError> {
        let inbox = inbox.inbox();
        let number = inbox.reserve().expect("there are places for all");
        let ticket = Ticket::new(self.id, number, op == Op::Recv);
        descriptor.note_mut().set_eager();
        self.handle.post(Posted::new(ticket, op, descriptor, inbox)).map_err(|unposted| {
            let (why, posted) = unposted.into_parts();
            drop(posted.withdraw());
            why
        })
    }
}

impl EmulatedState {
    /// Queues a message, which tells the peer how much was drained.
    fn queue(&mut self, what: (EagerKind, Lane, usize), tag: u64, parts: &[&[u8]]) {
        let frame = self.frame(what, tag, parts);
        self.queued.push_back(frame);
        self.lanes.iter_mut().for_each(LaneCounts::tell);
    }

    /// The next message to post, if no other thread is at it.
    fn next_frame(&mut self) -> Option<Descriptor> {
        if self.posting {
            return None;
        }
        let frame = self.queued.pop_front();
        self.posting = frame.is_some();
        frame
    }

    fn frame(
        &mut self,
        (what, lane, len): (EagerKind, Lane, usize),
        tag: u64,
        parts: &[&[u8]],
    ) -> Descriptor {
        let spare = if len <= SMALL { self.spare.pop() } else { None };
        let mut frame = spare.unwrap_or_else(|| memory(HEAD + len.max(SMALL)));
        if !frame.resize(HEAD + len) {
            frame = Descriptor::new(vec![0_u8; HEAD + len]);
        }
        frame.set_tag(tag);
        let bytes = frame.bytes_mut().expect("memory of its own");
        let (head, mut rest) = bytes.split_at_mut(HEAD);
        let sent = if what == EagerKind::Credit { 0 } else { self.lanes[lane as usize].sent() };
        let drained = self.lanes.each_ref().map(|counts| low_bits(counts.drained()));
        let position = low_bits(sent);
        head.copy_from_slice(&EagerHead { what, lane, position, drained }.to_bytes());
        for part in parts {
            let (here, behind) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = behind;
        }
        frame
    }

    fn keep(&mut self, completion: Completion) {
        let mut frame = completion.into_descriptor();
        if self.spare.len() < SPARE_MAX && frame.resize(HEAD + SMALL) {
            self.spare.push(frame);
        }
    }
}

/// A drain that goes on.
struct DrainGuard<'a>(&'a AtomicBool);

impl Drop for DrainGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Where messages land that are not small.
#[derive(Debug)]
struct Large;

impl DirectPlacement for Large {
    fn land(&self, len: u64, _tag: u64) -> Result<Buf, &'static str> {
        let len = usize::try_from(len).map_err(|_| "more than an eager message has")?;
        pooled(len).ok_or("there is no memory for an eager message")
    }
}

/// Memory for a message that is sent.
fn memory(len: usize) -> Descriptor {
    match pooled(len) {
        Some(buf) => Descriptor::new(buf),
        None => Descriptor::new(vec![0_u8; len]),
    }
}

/// A buffer of the pool that all connections of the process share, or of one of its own.
fn pooled(len: usize) -> Option<Buf> {
    static POOL: OnceLock<Option<Pool>> = OnceLock::new();
    let build = || {
        let pool = Pool::builder().class(HEAD + SMALL, 1024).class(HEAD + EAGER_MAX, 256);
        pool.build().ok()
    };
    let shared = POOL.get_or_init(build).as_ref();
    let buf = shared.and_then(|pool| pool.take(len).ok());
    buf.or_else(|| Pool::new(len, 1).ok()?.take(len).ok())
}

/// The connection that a message came by.
struct EmulatedReply<'a> {
    over: &'a OverPosted,
    member: &'a EmulatedVi,
}

impl Reply for EmulatedReply<'_> {
    fn vi(&self) -> ViId {
        self.member.id
    }

    fn send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, PostError> {
        self.over.send(self.member, lane, tag, parts)
    }
}

impl fmt::Debug for OverPosted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverPosted").finish_non_exhaustive()
    }
}

impl fmt::Debug for EmulatedVi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("vi", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_message_are_these_for_ever() {
        let lanes = [LaneCounts::at(5, 0x1_0000_0102), LaneCounts::at(0x2_0000_0304, 3)];
        let mut state = EmulatedState { lanes, ..EmulatedState::default() };
        let frame = state.frame((EagerKind::Message, Lane::Bulk, 2), 258, &[b"h", b"i"]);
        assert_eq!(frame.tag(), 258);
        assert_eq!(frame.bytes(), b"\0\x01\0\0\x04\x03\0\0\x02\x01\0\0\x03\0\0\0hi");
        let credit = state.frame((EagerKind::Credit, Lane::Talk, 0), 0, &[]);
        assert_eq!(credit.bytes(), b"\x01\0\0\0\0\0\0\0\x02\x01\0\0\x03\0\0\0");
        let ask = state.frame((EagerKind::Ask, Lane::Talk, 0), 0, &[]);
        assert_eq!(ask.bytes(), b"\x02\0\0\0\x05\0\0\0\x02\x01\0\0\x03\0\0\0");
    }
}
