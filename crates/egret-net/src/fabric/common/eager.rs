//! Eager messages of one end, without I/O: what may be sent, and what has arrived and was not
//! drained.
//!
//! A lane holds a bounded number of units that the peer has not drained: a message costs one unit, and one
//! more for each 64 bytes that it begins. Every message, and every frame of counts, carries how much its
//! sender has drained; a side that wants to know more asks for such a frame. Positions are counted in units.

use std::ops::Range;

use super::connection_end::EndedReply;
use super::fault::{self, Fault, planted};
use crate::vi::{DrainId, Lane, Position, PostError, Reply, Sink, ViError, ViId};

/// Messages one behind the other: tag, length, bytes.
#[derive(Debug, Default)]
pub(in crate::fabric) struct EagerRecords {
    bytes: Vec<u8>,
    /// Offset of the first message that was not taken.
    at: usize,
}

/// The messages that an end sends.
#[derive(Debug, Default)]
pub(in crate::fabric) struct EagerOut {
    lanes: [LaneSent; 2],
    /// Messages that wait for the next batch.
    pub waiting: [EagerRecords; 2],
    /// Whether the program waits for the peer to drain.
    waits: bool,
    /// The units sent on each lane when the peer was asked last.
    asked: [u64; 2],
    /// Whether there is room for a sender that waits, or the peer has answered.
    pub has_news: bool,
    pub dropped: u64,
}

/// Units sent on a lane, ever, and those of them that the peer has drained.
#[derive(Debug, Clone, Copy, Default)]
struct LaneSent {
    sent: u64,
    heard: u64,
}

/// The eager messages that have arrived at an end and were not drained.
#[derive(Debug)]
pub(in crate::fabric) struct EagerIn {
    pub vi: ViId,
    pub drain: DrainId,
    lanes: [LaneArrived; 2],
    /// Whether the peer has asked to be told when all is drained.
    pub is_asked: bool,
    /// Whether messages have arrived since the last look.
    pub has_news: bool,
}

#[derive(Debug, Default)]
struct LaneArrived {
    came: u64,
    drained: u64,
    records: EagerRecords,
}

/// Units that a side has drained of both lanes, as they are sent: the low 32 bits of each, talk in the low half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::fabric) struct DrainedUnits(pub u64);

/// Units of each lane that the peer has not drained, at most: 256 KiB, and of bulk what is read at
/// once with what is behind it.
const WINDOWS: [u64; 2] = [4096, 512];
const UNIT: usize = 64;
/// Bytes of a record before those of its message.
const RECORD: usize = 12;
/// Memory that a lane keeps.
const KEEP: usize = (4 << 10) + RECORD;

/// Units of a message.
#[inline]
const fn cost(len: usize) -> u64 {
    1 + len.div_ceil(UNIT) as u64
}

impl EagerRecords {
    #[inline]
    pub(in crate::fabric) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Adds a message of `len` bytes.
    pub(in crate::fabric) fn push(&mut self, tag: u64, len: usize, parts: &[&[u8]]) {
        // What was taken is half of it: moving the rest is paid for.
        if self.at > KEEP && self.at * 2 > self.bytes.len() {
            self.bytes.drain(..std::mem::take(&mut self.at));
        }
        #[expect(clippy::cast_possible_truncation, reason = "a few KiB")]
        let len = len as u32;
        self.bytes.extend_from_slice(&tag.to_le_bytes());
        self.bytes.extend_from_slice(&len.to_le_bytes());
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
    }

    /// Takes the first message: its tag, and the range of its bytes, valid until the next is pushed.
    #[inline]
    pub(in crate::fabric) fn pop(&mut self) -> Option<(u64, Range<usize>)> {
        let Some((head, _)) = self.bytes[self.at..].split_first_chunk::<RECORD>() else {
            self.trim();
            return None;
        };
        let (tag, len) = head.split_first_chunk::<8>()?;
        let len = u32::from_le_bytes(*len.first_chunk()?) as usize;
        let start = self.at + RECORD;
        self.at = start + len;
        Some((u64::from_le_bytes(*tag), start..start + len))
    }

    /// Releases the memory of a burst, once all messages are taken.
    #[inline]
    fn trim(&mut self) {
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEEP);
            self.at = 0;
        }
    }

    #[inline]
    pub(in crate::fabric) fn bytes(&self, at: Range<usize>) -> &[u8] {
        &self.bytes[at]
    }
}

impl EagerOut {
    /// Whether the peer has drained all that was sent: a message that is sent now waits for no others.
    #[inline]
    pub(in crate::fabric) fn is_alone(&self) -> bool {
        self.lanes.iter().all(|lane| lane.sent == lane.heard)
    }

    #[inline]
    pub(in crate::fabric) fn has_waiting(&self) -> bool {
        !self.waiting.iter().all(EagerRecords::is_empty)
    }

    /// Charges a message of `len` bytes to the lane, if there is room. `None` if the message is dropped.
    #[inline]
    pub(in crate::fabric) fn admit(
        &mut self,
        lane: Lane,
        len: usize,
        is_reliable: bool,
    ) -> Result<Option<Position>, PostError> {
        if !self.has_room(lane, len) {
            if is_reliable {
                self.waits = true;
                return Err(PostError::LaneFull);
            }
            self.dropped += 1;
            return Ok(None);
        }
        let sent = &mut self.lanes[lane as usize].sent;
        *sent += cost(len);
        Ok(Some(Position::new(*sent)))
    }

    /// Whether a message of `len` bytes may be sent.
    #[inline]
    pub(in crate::fabric) fn has_room(&self, lane: Lane, len: usize) -> bool {
        let LaneSent { sent, heard } = self.lanes[lane as usize];
        sent - heard + cost(len) <= fault::window(WINDOWS[lane as usize])
    }

    /// The position behind all that was sent.
    pub(in crate::fabric) const fn sent(&self, lane: Lane) -> Position {
        Position::new(self.lanes[lane as usize].sent)
    }

    /// The position up to which the peer has drained.
    pub(in crate::fabric) const fn arrived(&self, lane: Lane) -> Position {
        Position::new(self.lanes[lane as usize].heard)
    }

    /// The program waits for this lane to be drained. Whether the peer is to be asked, and has not been.
    pub(in crate::fabric) const fn ask(&mut self, lane: Lane) -> bool {
        let LaneSent { sent, heard } = self.lanes[lane as usize];
        if heard == sent {
            return false;
        }
        self.waits = true;
        let asked = &mut self.asked[lane as usize];
        *asked < std::mem::replace(asked, sent)
    }

    /// Processes an acknowledgement; it may not exceed what was sent.
    #[inline]
    pub(in crate::fabric) fn hear(&mut self, drained: DrainedUnits) -> Result<(), Box<ViError>> {
        let mut has_more = false;
        for (lane, low) in self.lanes.iter_mut().zip(drained.lanes()) {
            #[expect(clippy::cast_possible_truncation, reason = "that many bits travel")]
            let more = low.wrapping_sub(lane.heard as u32);
            // An older acknowledgement that a newer one has overtaken, over a window.
            if more.cast_signed() < 0 {
                continue;
            }
            let more = u64::from(more);
            if !lane.can_hear(more) {
                return Err(ViError::Protocol(
                    "an acknowledgement of eager messages that were never sent",
                )
                .into());
            }
            lane.heard += more;
            has_more |= more > 0;
        }
        self.has_news |= has_more && self.waits;
        self.waits &= !self.is_alone();
        Ok(())
    }
}

impl LaneSent {
    /// Whether the peer can have drained so much more.
    #[inline]
    fn can_hear(&self, more: u64) -> bool {
        more <= self.sent - self.heard || planted(Fault::DrainedBelieved)
    }
}

impl EagerIn {
    pub(in crate::fabric) fn new(vi: ViId, drain: DrainId) -> Self {
        Self { vi, drain, lanes: Default::default(), is_asked: false, has_news: false }
    }

    /// Stores a message that has arrived, if the peer keeps to its window.
    #[inline]
    pub(in crate::fabric) fn arrive(
        &mut self,
        lane: Lane,
        tag: u64,
        bytes: &[u8],
    ) -> Result<(), Box<ViError>> {
        let window = fault::window(WINDOWS[lane as usize]);
        let LaneArrived { came, drained, records } = &mut self.lanes[lane as usize];
        let cost = cost(bytes.len());
        if *came - *drained + cost > window {
            return Err(ViError::Protocol("more eager messages than its window").into());
        }
        *came += cost;
        records.push(tag, bytes.len(), &[bytes]);
        self.has_news = true;
        Ok(())
    }

    pub(in crate::fabric) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.came == lane.drained)
    }

    /// Takes a message of a lane whose connection is closed.
    fn pop(&mut self, lane: Lane) -> Option<(u64, Vec<u8>)> {
        let records = &mut self.lanes[lane as usize].records;
        let (tag, at) = records.pop()?;
        let bytes = records.bytes(at).to_vec();
        self.drained_one(lane, bytes.len());
        Some((tag, bytes))
    }

    /// Takes the messages of a lane out, for a drain that puts the rest back.
    pub(in crate::fabric) fn take(&mut self, lane: Lane) -> EagerRecords {
        std::mem::take(&mut self.lanes[lane as usize].records)
    }

    pub(in crate::fabric) fn put_back(&mut self, lane: Lane, mut records: EagerRecords) {
        records.trim();
        self.lanes[lane as usize].records = records;
    }

    /// Counts a message of so many bytes as drained.
    #[inline]
    pub(in crate::fabric) const fn drained_one(&mut self, lane: Lane, len: usize) {
        self.lanes[lane as usize].drained += cost(len);
    }

    #[inline]
    pub(in crate::fabric) const fn drained(&self) -> DrainedUnits {
        DrainedUnits::of([self.lanes[0].drained, self.lanes[1].drained])
    }

    /// Whether more is drained than the peer was last told.
    #[inline]
    pub(in crate::fabric) fn owes(&self, told: DrainedUnits) -> bool {
        self.drained() != told && !planted(Fault::DrainedUntold)
    }

    /// Whether an acknowledgement is due: the peer has asked, or half of a window was drained since it was
    /// last told.
    #[inline]
    pub(in crate::fabric) fn is_due(&mut self, told: DrainedUnits) -> bool {
        if !self.owes(told) {
            self.is_asked &= !self.is_empty();
            return false;
        }
        let more = self.drained().lanes().into_iter().zip(told.lanes()).zip(WINDOWS);
        let mut more = more.map(|((now, then), window)| (now.wrapping_sub(then), window));
        self.is_asked || more.any(|(more, window)| u64::from(more) * 2 >= window)
    }

    /// Drops the messages that were not drained: they will not be drained.
    pub(in crate::fabric) fn clear(&mut self) {
        for lane in &mut self.lanes {
            (lane.drained, lane.records) = (lane.came, EagerRecords::default());
        }
    }
}

/// An end whose eager messages may be answered while they are drained.
pub(in crate::fabric) trait EagerEnd {
    fn eager(&mut self) -> &mut EagerIn;
    /// Queues an answer, to be written after the drain.
    fn answer(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, PostError>;
    /// Notes that answers are queued.
    fn answered(&mut self) {}
}

/// Passes at most `left` eager messages to the sink, talk first, and counts `left` down. Whether some were
/// answered.
#[inline]
pub(in crate::fabric) fn drain<C: EagerEnd>(
    conn: &mut C,
    left: &mut usize,
    sink: &mut Sink<'_>,
) -> bool {
    let vi = conn.eager().vi;
    let mut answering = EagerReply { conn, vi, answers: false };
    for lane in Lane::ALL {
        let mut taken = TakenRecords {
            records: answering.conn.eager().take(lane),
            lane,
            answering: &mut answering,
        };
        while *left > 0
            && let Some((tag, at)) = taken.records.pop()
        {
            *left -= 1;
            taken.answering.conn.eager().drained_one(lane, at.len());
            sink(&mut *taken.answering, tag, taken.records.bytes(at));
        }
    }
    answering.answers
}

/// Passes eager messages of a closed end to the sink, at most `left`.
#[cold]
pub(in crate::fabric) fn drain_left(
    eager: &mut EagerIn,
    why: ViError,
    left: &mut usize,
    sink: &mut Sink<'_>,
) {
    let mut reply = EndedReply { vi: eager.vi, why };
    for lane in Lane::ALL {
        while *left > 0
            && let Some((tag, bytes)) = eager.pop(lane)
        {
            *left -= 1;
            sink(&mut reply, tag, &bytes);
        }
    }
}

/// The reply handle of a message that is being drained.
struct EagerReply<'a, C: EagerEnd> {
    conn: &'a mut C,
    vi: ViId,
    answers: bool,
}

impl<C: EagerEnd> Reply for EagerReply<'_, C> {
    fn vi(&self) -> ViId {
        self.vi
    }

    fn send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, PostError> {
        self.answers = true;
        self.conn.answer(lane, tag, parts)
    }
}

/// Answers that were queued before the sink panicked are still written.
impl<C: EagerEnd> Drop for EagerReply<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if self.answers {
            self.conn.answered();
        }
    }
}

/// The messages of a lane during a drain; the rest is put back at its end, also if the sink panics.
struct TakenRecords<'a, 'c, C: EagerEnd> {
    records: EagerRecords,
    lane: Lane,
    answering: &'a mut EagerReply<'c, C>,
}

impl<C: EagerEnd> Drop for TakenRecords<'_, '_, C> {
    fn drop(&mut self) {
        let records = std::mem::take(&mut self.records);
        self.answering.conn.eager().put_back(self.lane, records);
    }
}

impl DrainedUnits {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "that many bits travel")]
    const fn of([talk, bulk]: [u64; 2]) -> Self {
        Self(talk as u32 as u64 | (bulk as u32 as u64) << 32)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "that many bits travel")]
    const fn lanes(self) -> [u32; 2] {
        [self.0 as u32, (self.0 >> 32) as u32]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eager() -> EagerIn {
        let spec = crate::fabric::ViSpec::new(crate::vi::Reliability::Reception, 1);
        EagerIn::new(spec.vi, spec.drain)
    }

    #[test]
    fn memory_of_a_burst_is_given_back_when_the_last_is_drained() {
        let mut eager = eager();
        (0..60).for_each(|tag| eager.arrive(Lane::Talk, tag, &[7; 4096]).unwrap());
        let mut records = eager.take(Lane::Talk);
        for expected in 0..60 {
            let (tag, at) = records.pop().unwrap();
            assert_eq!((tag, records.bytes(at.clone())), (expected, &[7; 4096][..]));
            eager.drained_one(Lane::Talk, at.len());
        }
        // No further record was looked for yet.
        eager.put_back(Lane::Talk, records);
        assert!(eager.is_empty());
        assert!(eager.lanes[0].records.bytes.capacity() <= KEEP);
    }

    #[test]
    fn a_message_that_is_refused_is_not_there() {
        let mut eager = eager();
        while eager.arrive(Lane::Bulk, 0, &[1; 100]).is_ok() {}
        while let Some((_, bytes)) = eager.pop(Lane::Bulk) {
            assert_eq!(bytes, [1; 100]);
        }
        assert!(eager.is_empty());
    }

    #[test]
    fn what_was_said_before_changes_nothing() {
        let mut out = EagerOut::default();
        assert!(out.admit(Lane::Talk, 100, true).is_ok());
        for said in [3, 1, 0, 3] {
            out.hear(DrainedUnits(said)).unwrap();
        }
        assert_eq!(out.arrived(Lane::Talk), Position::new(3));
        assert!(out.hear(DrainedUnits(4)).is_err());
    }

    #[test]
    fn an_asked_receiver_reports_each_drained_message() {
        let mut eager = eager();
        eager.arrive(Lane::Talk, 0, b"one").unwrap();
        eager.arrive(Lane::Talk, 1, b"two").unwrap();
        eager.is_asked = true;
        let mut told = DrainedUnits::default();
        assert!(!eager.is_due(told), "nothing is drained");
        for _ in 0..2 {
            assert!(eager.pop(Lane::Talk).is_some());
            assert!(eager.is_due(told));
            told = eager.drained();
            assert!(!eager.is_due(told));
        }
        assert!(!eager.is_asked);
    }
}
