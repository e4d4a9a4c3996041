//! A mapping as the sending side sees it.

use egret_net::vi::{Descriptor, RemoteKey, Segment};

use super::call::Awaits;
use super::deliver::{CALLS_MAX, NOT_ANSWERED, call_of};
use super::fault::{Fault, planted};
use super::gather::{bulk_frame, total};
use super::places::IN_ORDER;
use super::{CallState, MEDIUM_MAX, Message, Payload, SendError};
use crate::flow::{FlowId, Name, Outflow};
use crate::link::control::{Control, NotMapped};
use crate::link::{Head, Kind, Lane};
use crate::links::behind::Waiters;
use crate::links::line::Line;
use crate::links::slots::Key;

/// An endpoint of the peer, as an endpoint of this side has mapped it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Whose mapping it is.
    pub(crate) endpoint: Key,
    pub(crate) phase: Phase,
    /// As the peer numbers it.
    slot: u32,
    window: u32,
    /// Messages that may be sent now.
    credits: u32,
    /// Messages with data.
    pub(crate) data: Outflow,
    /// By which the data of answers comes.
    pub(crate) flow: FlowId,
    /// Handlers with types that were asked for, and their numbers once they are known.
    pub(crate) handlers: Vec<(String, u8)>,
    pub(crate) segment: Option<RemoteKey>,
    /// Who waits for any of this to change.
    pub(crate) waiters: Waiters,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    Asked,
    Mapped,
    Refused(NotMapped),
    /// Given up; kept until its messages have come back.
    Unmapped,
    /// The peer was told; kept until it has said that it will not speak of it any more.
    Gone,
}

impl Outgoing {
    pub(crate) fn new(endpoint: Key, flow: FlowId, handlers: Vec<(String, u8)>) -> Self {
        Self {
            endpoint,
            phase: Phase::Asked,
            slot: 0,
            window: 0,
            credits: 0,
            data: Outflow::new(0),
            flow,
            handlers,
            segment: None,
            waiters: Waiters::default(),
        }
    }

    /// Whether messages may be sent by it.
    #[inline]
    pub(crate) fn is_mapped(&self) -> bool {
        self.phase == Phase::Mapped
    }

    pub(crate) const fn slot(&self) -> u32 {
        self.slot
    }

    /// The slot, if the peer has given it one and was not told that it is given up.
    pub(crate) fn known_slot(&self) -> Option<u32> {
        matches!(self.phase, Phase::Mapped | Phase::Unmapped).then_some(self.slot)
    }

    /// Whether nothing of it is under way.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.credits == self.window
    }

    pub(crate) const fn window(&self) -> u32 {
        self.window
    }

    /// The peer has given it a slot.
    pub(crate) fn mapped(&mut self, slot: u32, window: u32, bytes: u64) {
        (self.slot, self.window, self.credits) = (slot, window, window);
        (self.phase, self.data) = (Phase::Mapped, Outflow::new(bytes));
    }

    /// Messages have been taken.
    ///
    /// # Errors
    ///
    /// If that is more than were under way.
    #[inline]
    pub(crate) fn credit(&mut self, messages: u32) -> Result<(), &'static str> {
        let credits = self.credits.checked_add(messages);
        self.credits = credits
            .filter(|credits| *credits <= self.window)
            .ok_or("credit for what was not sent")?;
        self.waiters.wake();
        Ok(())
    }

    /// Whether a message may be sent now.
    ///
    /// # Errors
    ///
    /// If none may be any more.
    pub(crate) fn has_room(&self) -> Result<bool, SendError> {
        if self.phase == Phase::Mapped { Ok(self.credits > 0) } else { Err(SendError::Unmapped) }
    }
}

impl Line {
    /// Sends a message that is answered. The call's key; if it cannot be sent now, the message is
    /// as it was.
    #[inline]
    pub(crate) fn request(
        &mut self,
        number: Key,
        message: &mut Message<'_>,
    ) -> Result<Key, SendError> {
        let (call, slot) = self.begin_call(number, message, Awaits::answer())?;
        let is_data = message.payload.is_data();
        let kind = if is_data { Kind::Bulk } else { Kind::Request };
        let mut head = message.head(kind, slot, call.index);
        if message.is_in_order && !(is_data && planted(Fault::NotPlaced)) {
            head.request |= IN_ORDER;
            if is_data {
                let (kind, request) = (Kind::Place, call.index);
                self.say(Head { kind, words: 0, request, ..head }, &[], &[]);
            }
        }
        self.transmit(head, message);
        Ok(call)
    }

    /// Sends data that is not answered. The call is done when its memory is free.
    pub(crate) fn transfer(
        &mut self,
        number: Key,
        message: &mut Message<'_>,
    ) -> Result<Key, SendError> {
        let (call, slot) = self.begin_call(number, message, Awaits::default())?;
        self.transmit_data(message.head(Kind::Bulk, slot, call.index | NOT_ANSWERED), message);
        Ok(call)
    }

    /// Sends a message that is not answered.
    #[inline]
    pub(crate) fn one_way(
        &mut self,
        number: Key,
        message: &mut Message<'_>,
    ) -> Result<(), SendError> {
        if message.payload.is_data() {
            let call = self.transfer(number, message)?;
            drop(self.abandon(call));
            return Ok(());
        }
        let slot = self.begin(number, message)?;
        self.transmit(message.head(Kind::OneWay, slot, number.index), message);
        Ok(())
    }

    /// Begins a message that has a call: the call's key, and the slot at the peer's.
    #[inline]
    fn begin_call(
        &mut self,
        number: Key,
        message: &Message<'_>,
        awaits: Awaits,
    ) -> Result<(Key, u32), SendError> {
        if self.am.calls.len() >= CALLS_MAX as usize {
            return Err(SendError::Full { window: CALLS_MAX });
        }
        let slot = self.begin(number, message)?;
        Ok((self.am.calls.insert(CallState::new(number, awaits)), slot))
    }

    /// Takes a credit for a message by a mapping, if that may send one. The slot at the peer's.
    #[inline]
    fn begin(&mut self, number: Key, message: &Message<'_>) -> Result<u32, SendError> {
        let (bytes, most) = match &message.payload {
            Payload::Copied(bytes) => (bytes.len() as u64, MEDIUM_MAX as u64),
            Payload::Pieces(pieces) => (total(pieces) as u64, MEDIUM_MAX as u64),
            Payload::Data(data) => (data.len(), DATA_MAX),
            Payload::Gather(pieces) => (pieces.iter().map(Segment::len).sum(), DATA_MAX),
        };
        if bytes > most {
            return Err(SendError::TooLong { bytes });
        }
        let outgoing = self.am.outgoing.get(number).ok_or(SendError::Unmapped)?;
        if !outgoing.is_mapped() {
            return Err(SendError::Unmapped);
        }
        outgoing.credits = match outgoing.credits.checked_sub(1) {
            Some(credits) => credits,
            None if planted(Fault::Boundless) => 0,
            None => return Err(SendError::Full { window: outgoing.window }),
        };
        Ok(outgoing.slot)
    }

    /// Sends a message that has begun.
    #[inline]
    fn transmit(&mut self, head: Head, message: &mut Message<'_>) {
        match message.payload {
            Payload::Copied(bytes) => _ = self.say(head, message.words, &[bytes]),
            Payload::Pieces(pieces) => _ = self.say(head, message.words, pieces),
            Payload::Data(_) | Payload::Gather(_) => self.transmit_data(head, message),
        }
    }

    /// Sends the payload of a message as data when its bytes are granted, behind those that wait
    /// already. The message's call awaits that memory, too.
    #[cold]
    fn transmit_data(&mut self, head: Head, message: &mut Message<'_>) {
        let payload = std::mem::replace(&mut message.payload, Payload::Copied(&[]));
        let call = self.am.calls.at(call_of(head)).expect("just made");
        call.awaits.memory = true;
        call.returns = !matches!(payload, Payload::Gather(_));
        let number = call.number.index;
        let frame = bulk_frame(head, message.words, payload.into_segments(), self.segments);
        let outgoing = self.am.outgoing.at(number).expect("just looked at");
        outgoing.data.push(frame);
        self.pass_data(number);
    }

    /// Whether a mapping was given up, and is kept for what is under way.
    #[inline]
    pub(crate) fn is_leaving(&mut self, number: u32) -> bool {
        self.am.outgoing.at(number).is_some_and(|outgoing| outgoing.phase == Phase::Unmapped)
    }

    /// Sends data of messages that was granted; asks for more if it must.
    pub(crate) fn pass_data(&mut self, number: u32) {
        let Some(outgoing) = self.am.outgoing.at(number) else { return };
        let Some(slot) = outgoing.known_slot() else { return };
        while let Some(frame) = outgoing.data.poll_frame() {
            self.outbox[Lane::Bulk as usize].push_back(frame);
        }
        let asks: Vec<_> = std::iter::from_fn(|| outgoing.data.poll_ask()).collect();
        for ask in asks {
            self.control(&Control::Ask { flow: Name::Requests(slot), ask });
        }
    }

    /// Whether something waits for bytes.
    pub(crate) fn has_waiting(&self) -> bool {
        self.am.outgoing.values().any(|outgoing| outgoing.data.len() > 0)
            || self.am.incoming.values().any(|incoming| incoming.replies.len() > 0)
    }

    /// Data that is not with the fabric.
    pub(super) fn waiting_data(&mut self) -> impl Iterator<Item = &mut Descriptor> {
        let waiting = self.am.outgoing.iter_mut().flat_map(|(_, it)| it.data.frames());
        waiting.chain(self.outbox[Lane::Bulk as usize].iter_mut())
    }

    /// Takes out all that waits for bytes.
    pub(crate) fn take_waiting(&mut self) -> Vec<Descriptor> {
        let outgoing = self.am.outgoing.iter_mut();
        outgoing.flat_map(|(_, outgoing)| outgoing.data.drain()).collect()
    }
}

/// Most bytes of data: what every fabric transfers at once, with the words behind it.
const DATA_MAX: u64 = u32::MAX as u64 - 256;
