//! Get and put: reading and writing the segment of a remote endpoint.
//!
//! Over a reliable fabric that is the fabric's business: the target's program takes no
//! part. Over a lossy one the segment is reached by messages to a handler that every
//! endpoint has, of the number [`PLAIN`].

use std::sync::Arc;

use egret_net::rt::Deadline;
use egret_net::vi::{Completion, Descriptor, Exposed, OpKind, RemoteSlice, Segment, ViError};

use super::call::{Awaits, Outcome};
use super::deliver::CALLS_MAX;
use super::message::Landed;
use super::no_reply::NoReply;
use super::request::{From, PLAIN};
use super::{Call, CallError, CallState, Message, Remote, Reply, SendError};
use crate::link::arrived::Arrived;
use crate::link::carrier::Carrier;
use crate::link::{Head, Kind};
use crate::links::slots::Key;
use crate::links::state::State;

/// What is done to a segment.
#[derive(Debug)]
enum Access {
    Get(u64),
    Put(Segment),
}

impl Remote {
    /// Reads `len` bytes at `offset` of the endpoint's segment. They are the call's answer.
    ///
    /// # Errors
    ///
    /// If the endpoint had no segment when it was mapped, that is outside of it, or it
    /// cannot be sent now.
    pub fn try_get(&self, offset: u64, len: u64) -> Result<Call, SendError> {
        self.access(offset, Access::Get(len))
    }

    /// Writes `data` at `offset` of the endpoint's segment. The memory comes back with the
    /// call's answer, when it is there, or if it is refused with the [call](Call::take_sent).
    ///
    /// # Errors
    ///
    /// As [`try_get`](Self::try_get); the data is dropped.
    pub fn try_put(&self, offset: u64, data: impl Into<Segment>) -> Result<Call, SendError> {
        self.access(offset, Access::Put(data.into()))
    }

    /// Reads `len` bytes at `offset` of the endpoint's segment.
    ///
    /// # Errors
    ///
    /// If it was not sent, or not done within the deadline.
    pub fn wait_get(
        &self,
        offset: u64,
        len: u64,
        deadline: impl Into<Deadline>,
    ) -> Result<Reply, CallError> {
        let deadline = deadline.into();
        self.try_get(offset, len)?.wait(deadline)
    }

    /// Writes `data` at `offset` of the endpoint's segment.
    ///
    /// # Errors
    ///
    /// If it was not sent, or not done within the deadline.
    pub fn wait_put(
        &self,
        offset: u64,
        data: impl Into<Segment>,
        deadline: impl Into<Deadline>,
    ) -> Result<Reply, CallError> {
        let deadline = deadline.into();
        self.try_put(offset, data)?.wait(deadline)
    }

    fn access(&self, offset: u64, access: Access) -> Result<Call, SendError> {
        let key = self.core.state.with(|state| {
            let key = state.access(self.link, self.number, offset, access);
            state.pump(self.link);
            key
        })?;
        Ok(Call::new(Arc::clone(&self.core), self.link, key))
    }
}

impl State {
    fn access(
        &mut self,
        link: Key,
        number: Key,
        offset: u64,
        access: Access,
    ) -> Result<Key, SendError> {
        let line = self.live_mapping(link, number)?;
        let outgoing = line.am.outgoing.get(number).ok_or(SendError::Unmapped)?;
        let segment = outgoing.segment.ok_or(SendError::NoSegment)?;
        let len = match &access {
            Access::Get(len) => *len,
            Access::Put(data) => data.len(),
        };
        if offset.checked_add(len).is_none_or(|end| end > segment.len()) {
            return Err(SendError::OutsideSegment { offset, len, size: segment.len() });
        }
        match self.links.get(link).map(|line| &line.carrier) {
            Some(Carrier::Direct(_)) => {
                self.access_memory(link, number, segment.at(offset), access)
            }
            _ => self.access_by_message(link, number, offset, access),
        }
    }

    fn access_memory(
        &mut self,
        link: Key,
        number: Key,
        place: RemoteSlice,
        access: Access,
    ) -> Result<Key, SendError> {
        let depot = Arc::clone(&self.fixed.depot);
        let line = self.links.get(link).ok_or(SendError::Unmapped)?;
        let awaits = Awaits::access();
        if line.am.calls.len() >= CALLS_MAX as usize {
            return Err(SendError::Full { window: CALLS_MAX });
        }
        let call = line.am.calls.insert(CallState::new(number, awaits));
        let tag = Head { request: call.index, ..Head::of(Kind::Bulk, 0) }.to_bits();
        let posted = match access {
            Access::Get(len) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                let memory = depot.take(len).map(|buf| Descriptor::new(buf).with_tag(tag));
                memory.is_ok_and(|memory| line.carrier.read(memory, place))
            }
            Access::Put(data) => line.carrier.write(Descriptor::new(data).with_tag(tag), place),
        };
        if posted {
            return Ok(call);
        }
        line.am.calls.remove(call);
        Err(SendError::Full { window: self.fixed.nic.limits().queue_depth })
    }

    fn access_by_message(
        &mut self,
        link: Key,
        number: Key,
        offset: u64,
        access: Access,
    ) -> Result<Key, SendError> {
        let line = self.live_mapping(link, number)?;
        let get = |len| [offset, len];
        let (words, data) = match access {
            Access::Get(len) => (get(len), None),
            Access::Put(data) => (get(0), Some(data)),
        };
        let mut message = match data {
            None => Message::to(PLAIN).words(&words),
            Some(data) => Message::to(PLAIN).words(&words[..1]).data(data),
        };
        line.request(number, &mut message)
    }

    /// The fabric has read or written a segment.
    pub(crate) fn accessed(&mut self, link: Key, completion: Completion) {
        let Some(head) = Head::from_bits(completion.tag) else { return };
        let Some(line) = self.links.get(link) else { return };
        let Some(key) = line.am.calls.key_at(head.request) else { return };
        let outcome = match &completion.status {
            Ok(()) if completion.op == OpKind::Read => {
                let segment = completion.into_descriptor().into_segments().next();
                let buf = segment.and_then(|segment| segment.into_buf().ok());
                buf.map_or(Outcome::Empty, |buf| Outcome::Read(Box::new(Landed::Buf(buf, 0))))
            }
            Ok(()) => {
                let sent = completion.into_descriptor().into_segments().next();
                line.am.calls.get(key).expect("just looked at").sent = sent.map(Box::new);
                Outcome::Empty
            }
            Err(ViError::RemoteAccess(why)) => {
                let (why, is_put) = (*why, completion.op == OpKind::Write);
                let sent = completion.into_descriptor().into_segments().next();
                let call = line.am.calls.get(key).expect("just looked at");
                call.sent = sent.filter(|_| is_put).map(Box::new);
                Outcome::Failed(Box::new(CallError::Access(why)))
            }
            // The link dies, and all its calls with it.
            Err(_) => return,
        };
        line.resolve(key, outcome);
    }

    /// A message to the segment of an endpoint of this side.
    #[cold]
    pub(super) fn access_here(&mut self, from: From, endpoint: Key, arrived: Arrived) {
        let mut words = [0; Head::WORDS_MAX];
        let count = arrived.read_words(&mut words);
        let segment = self.endpoints.get(endpoint).and_then(|it| it.segment.as_ref());
        let payload = arrived.parts().map_or(&[][..], |parts| parts.1);
        let at = usize::try_from(words[0]).unwrap_or(usize::MAX);
        let is_put = arrived.head.kind == Kind::Bulk;
        let answer = match (is_put, count) {
            (true, 1) => allowed(segment, words[0], payload.len() as u64, true).map(|segment| {
                segment.write_at(at, payload);
                Vec::new()
            }),
            (false, 2) => allowed(segment, words[0], words[1], false).map(|segment| {
                let mut bytes = vec![0; usize::try_from(words[1]).unwrap_or(0)];
                segment.read_at(at, &mut bytes);
                bytes
            }),
            _ => Err(NoReply::Missing),
        };
        match answer {
            _ if from.request.is_none() => self.taken(from),
            Ok(bytes) if is_put => self.reply(from, Message::to(PLAIN).bytes(&bytes)),
            Ok(bytes) => self.reply(from, Message::to(PLAIN).data(bytes)),
            Err(why) => self.no_reply(from, why),
        }
        self.take_back_data(from, endpoint, arrived);
    }
}

/// The segment, if it may be read or written there.
fn allowed(
    segment: Option<&Exposed>,
    offset: u64,
    len: u64,
    is_put: bool,
) -> Result<&Exposed, NoReply> {
    let segment = segment.ok_or(NoReply::Revoked)?;
    let (grants, size) = (segment.key().access(), segment.key().len());
    match (is_put, grants.read, grants.write) {
        (true, _, false) => Err(NoReply::NotWritable),
        (false, false, _) => Err(NoReply::NotReadable),
        _ if offset.checked_add(len).is_none_or(|end| end > size) => {
            Err(NoReply::Outside { offset, len, size })
        }
        _ => Ok(segment),
    }
}
