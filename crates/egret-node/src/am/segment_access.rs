//! Get and put: reading and writing the segment of a remote endpoint.
//!
//! That is the fabric's business: the target's program takes no part.

use std::sync::Arc;

use egret_net::rt::Deadline;
use egret_net::vi::{Completion, Descriptor, OpKind, RemoteSlice, Segment, ViError};

use super::call::{CallOutcome, PendingParts};
use super::deliver::CALLS_MAX;
use super::message::ReceivedPayload;
use super::{Call, CallReply, CallState, MessageError, RemoteEndpoint};
use crate::frame::{FrameHead, FrameKind};
use crate::links::state::LinksState;
use crate::slots::SlotKey;

/// What is done to a segment.
#[derive(Debug)]
enum SegmentAccess {
    Get(u64),
    Put(Segment),
}

impl RemoteEndpoint {
    /// Reads `len` bytes at `offset` of the endpoint's segment. They are the call's answer.
    ///
    /// # Errors
    ///
    /// If the endpoint had no segment when it was mapped, that is outside of it, or it
    /// cannot be sent now.
    pub fn try_get(&self, offset: u64, len: u64) -> Result<Call, MessageError> {
        self.access(offset, SegmentAccess::Get(len))
    }

    /// Writes `data` at `offset` of the endpoint's segment. The memory comes back with the
    /// call's answer, when it is there, or if it is refused with the [call](Call::take_sent).
    ///
    /// # Errors
    ///
    /// As [`try_get`](Self::try_get); the data is dropped.
    pub fn try_put(&self, offset: u64, data: impl Into<Segment>) -> Result<Call, MessageError> {
        self.access(offset, SegmentAccess::Put(data.into()))
    }

    /// Reads `len` bytes at `offset` of the endpoint's segment.
    ///
    /// # Errors
    ///
    /// If it was not sent, or not done within the deadline.
    #[track_caller]
    pub fn wait_get(
        &self,
        offset: u64,
        len: u64,
        deadline: impl Into<Deadline>,
    ) -> Result<CallReply, MessageError> {
        let _waits = self.core.waits("answer", Some(self.link));
        let deadline = deadline.into();
        self.try_get(offset, len)?.wait(deadline)
    }

    /// Writes `data` at `offset` of the endpoint's segment.
    ///
    /// # Errors
    ///
    /// If it was not sent, or not done within the deadline.
    #[track_caller]
    pub fn wait_put(
        &self,
        offset: u64,
        data: impl Into<Segment>,
        deadline: impl Into<Deadline>,
    ) -> Result<CallReply, MessageError> {
        let _waits = self.core.waits("answer", Some(self.link));
        let deadline = deadline.into();
        self.try_put(offset, data)?.wait(deadline)
    }

    fn access(&self, offset: u64, access: SegmentAccess) -> Result<Call, MessageError> {
        let key = self.core.state.with(|state| {
            let key = state.access(self.link, self.number, offset, access);
            state.pump(self.link);
            key
        })?;
        Ok(Call::new(Arc::clone(&self.core), self.link, key))
    }
}

impl LinksState {
    fn access(
        &mut self,
        link: SlotKey,
        number: SlotKey,
        offset: u64,
        access: SegmentAccess,
    ) -> Result<SlotKey, MessageError> {
        let line = self.links.live_mapping(link, number)?;
        let outgoing = line.am.outgoing.get(number).ok_or(MessageError::Unmapped)?;
        let segment = outgoing.segment.ok_or(MessageError::NoSegment)?;
        let len = match &access {
            SegmentAccess::Get(len) => *len,
            SegmentAccess::Put(data) => data.len(),
        };
        if offset.checked_add(len).is_none_or(|end| end > segment.len()) {
            return Err(MessageError::OutsideSegment { offset, len, size: segment.len() });
        }
        self.access_memory(link, number, segment.at(offset), access)
    }

    fn access_memory(
        &mut self,
        link: SlotKey,
        number: SlotKey,
        place: RemoteSlice,
        access: SegmentAccess,
    ) -> Result<SlotKey, MessageError> {
        let depot = Arc::clone(&self.fixed.depot);
        let line = self.links.get(link).ok_or(MessageError::Unmapped)?;
        let awaits = PendingParts::access();
        if line.am.calls.len() >= CALLS_MAX as usize {
            return Err(MessageError::Full { window: CALLS_MAX });
        }
        let call = line.am.calls.insert(CallState::new(number, awaits));
        let tag = FrameHead { request: call.index, ..FrameHead::of(FrameKind::Bulk, 0) }.to_bits();
        let posted = match access {
            SegmentAccess::Get(len) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                let memory = depot.take(len).map(|buf| Descriptor::new(buf).with_tag(tag));
                memory.is_ok_and(|memory| line.carrier.read(memory, place))
            }
            SegmentAccess::Put(data) => {
                line.carrier.write(Descriptor::new(data).with_tag(tag), place)
            }
        };
        if posted {
            return Ok(call);
        }
        line.am.calls.remove(call);
        Err(MessageError::Full { window: self.fixed.nic.limits().queue_depth })
    }

    /// The fabric has read or written a segment.
    pub(crate) fn accessed(&mut self, link: SlotKey, completion: Completion) {
        let Some(head) = FrameHead::from_bits(completion.tag) else { return };
        let Some(line) = self.links.get(link) else { return };
        let Some(key) = line.am.calls.key_at(head.request) else { return };
        let outcome = match &completion.status {
            Ok(()) if completion.op == OpKind::Read => {
                let segment = completion.into_descriptor().into_segments().next();
                let buf = segment.and_then(|segment| segment.into_buf().ok());
                buf.map_or(CallOutcome::Empty, |buf| {
                    CallOutcome::Read(Box::new(ReceivedPayload::Buf(buf, 0)))
                })
            }
            Ok(()) => {
                let sent = completion.into_descriptor().into_segments().next();
                line.am.calls.get(key).expect("just looked at").sent = sent.map(Box::new);
                CallOutcome::Empty
            }
            Err(ViError::RemoteAccess(why)) => {
                let (why, is_put) = (*why, completion.op == OpKind::Write);
                let sent = completion.into_descriptor().into_segments().next();
                let call = line.am.calls.get(key).expect("just looked at");
                call.sent = sent.filter(|_| is_put).map(Box::new);
                CallOutcome::Failed(Box::new(MessageError::Access(why)))
            }
            // The link dies, and all its calls with it.
            Err(_) => return,
        };
        line.resolve(key, outcome);
    }
}
