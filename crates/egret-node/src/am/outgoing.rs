//! A mapping as the sending side sees it.

use egret_net::vi::{Descriptor, RemoteKey, Segment};

use super::call::PendingParts;
use super::deliver::{CALLS_MAX, NOT_ANSWERED, call_of};
use super::fault::{self, Fault, planted};
use super::gather::{bulk_frame, total};
use super::request_order::IN_ORDER;
use super::{CallState, MEDIUM_MAX, Message, MessageError, Payload};
use crate::flow::{FlowId, FlowName, Outflow};
use crate::frame::{FrameHead, FrameKind, LinkLane};
use crate::link::control::{LinkControl, NotMapped};
use crate::links::link_side::LinkSide;
use crate::slots::SlotKey;
use crate::wakers::WakerList;

/// An endpoint of the peer, as an endpoint of this side has mapped it.
#[derive(Debug)]
pub(crate) struct OutgoingMapping {
    /// The endpoint of this side that has mapped.
    pub(crate) endpoint: SlotKey,
    pub(crate) phase: MappingPhase,
    /// The number of the mapping at the peer.
    slot: u32,
    window: u32,
    /// Messages that may be sent now.
    credits: u32,
    /// Messages with data.
    pub(crate) data: Outflow,
    /// The flow of the data of answers.
    pub(crate) flow: FlowId,
    /// Handlers with types that were asked for, and their numbers once they are known.
    pub(crate) handlers: Vec<(String, u8)>,
    pub(crate) segment: Option<RemoteKey>,
    /// Tasks and threads that wait for a change of the phase or the credits.
    pub(crate) waiters: WakerList,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MappingPhase {
    Asked,
    Mapped,
    Refused(NotMapped),
    /// Given up; kept until the credit of all its messages has come back.
    Unmapped,
    /// The peer was told that the mapping is given up; kept until the peer has confirmed that.
    Gone,
}

impl OutgoingMapping {
    pub(crate) fn new(endpoint: SlotKey, flow: FlowId, handlers: Vec<(String, u8)>) -> Self {
        Self {
            endpoint,
            phase: MappingPhase::Asked,
            slot: 0,
            window: 0,
            credits: 0,
            data: Outflow::new(0),
            flow,
            handlers,
            segment: None,
            waiters: WakerList::default(),
        }
    }

    /// Whether messages may be sent by it.
    #[inline]
    pub(crate) fn is_mapped(&self) -> bool {
        self.phase == MappingPhase::Mapped
    }

    pub(crate) const fn slot(&self) -> u32 {
        self.slot
    }

    /// The slot, if the peer has given it one and was not told that it is given up.
    pub(crate) fn known_slot(&self) -> Option<u32> {
        matches!(self.phase, MappingPhase::Mapped | MappingPhase::Unmapped).then_some(self.slot)
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
        (self.phase, self.data) = (MappingPhase::Mapped, Outflow::new(bytes));
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

    /// Takes the credit of one message. Whether there was one.
    #[inline]
    fn take_credit(&mut self) -> bool {
        let has_credit = self.credits > 0;
        self.credits = self.credits.saturating_sub(1);
        has_credit || planted(Fault::Boundless)
    }

    /// Whether a message may be sent now.
    ///
    /// # Errors
    ///
    /// If none may be any more.
    pub(crate) fn has_room(&self) -> Result<bool, MessageError> {
        if self.phase == MappingPhase::Mapped {
            Ok(self.credits > 0)
        } else {
            Err(MessageError::Unmapped)
        }
    }
}

impl LinkSide {
    /// Sends a message that is answered. The call's key; if it cannot be sent now, the message is
    /// as it was.
    #[inline]
    pub(crate) fn request(
        &mut self,
        number: SlotKey,
        message: &mut Message<'_>,
    ) -> Result<SlotKey, MessageError> {
        let (call, slot) = self.begin_call(number, message, PendingParts::answer())?;
        let is_data = message.payload.is_data();
        if !is_data && self.am.trips.is_due() {
            self.am.trips.begin(call, self.carrier.now());
        }
        let kind = if is_data { FrameKind::Bulk } else { FrameKind::Request };
        let mut head = message.head(kind, slot, call.index);
        if message.is_in_order && fault::is_placed(is_data) {
            head.request |= IN_ORDER;
            if is_data {
                let (kind, request) = (FrameKind::Place, call.index);
                self.say(FrameHead { kind, words: 0, request, ..head }, &[], &[]);
            }
        }
        self.transmit(head, message);
        Ok(call)
    }

    /// Sends data that is not answered. The call is done when its memory is free.
    pub(crate) fn transfer(
        &mut self,
        number: SlotKey,
        message: &mut Message<'_>,
    ) -> Result<SlotKey, MessageError> {
        let (call, slot) = self.begin_call(number, message, PendingParts::default())?;
        self.transmit_data(message.head(FrameKind::Bulk, slot, call.index | NOT_ANSWERED), message);
        Ok(call)
    }

    /// Sends a message that is not answered.
    #[inline]
    pub(crate) fn one_way(
        &mut self,
        number: SlotKey,
        message: &mut Message<'_>,
    ) -> Result<(), MessageError> {
        if message.payload.is_data() {
            let call = self.transfer(number, message)?;
            drop(self.abandon(call));
            return Ok(());
        }
        let slot = self.begin(number, message)?;
        self.transmit(message.head(FrameKind::OneWay, slot, number.index), message);
        Ok(())
    }

    /// Begins a message that has a call: the call's key, and the slot at the peer's.
    #[inline]
    fn begin_call(
        &mut self,
        number: SlotKey,
        message: &Message<'_>,
        awaits: PendingParts,
    ) -> Result<(SlotKey, u32), MessageError> {
        if self.am.calls.len() >= CALLS_MAX as usize {
            return Err(MessageError::Full { window: CALLS_MAX });
        }
        let slot = self.begin(number, message)?;
        Ok((self.am.calls.insert(CallState::new(number, awaits)), slot))
    }

    /// Takes a credit for a message by a mapping, if that may send one. The slot at the peer's.
    #[inline]
    fn begin(&mut self, number: SlotKey, message: &Message<'_>) -> Result<u32, MessageError> {
        let (bytes, most) = match &message.payload {
            Payload::Copied(bytes) => (bytes.len() as u64, MEDIUM_MAX as u64),
            Payload::Pieces(pieces) => (total(pieces) as u64, MEDIUM_MAX as u64),
            Payload::Data(data) => (data.len(), DATA_MAX),
            Payload::Gather(pieces) => (pieces.iter().map(Segment::len).sum(), DATA_MAX),
        };
        if bytes > most {
            return Err(MessageError::TooLong { bytes });
        }
        let outgoing = self.am.outgoing.get(number).ok_or(MessageError::Unmapped)?;
        if !outgoing.is_mapped() {
            return Err(MessageError::Unmapped);
        }
        if !outgoing.take_credit() {
            return Err(MessageError::Full { window: outgoing.window });
        }
        Ok(outgoing.slot)
    }

    /// Sends a message that has begun.
    #[inline]
    fn transmit(&mut self, head: FrameHead, message: &mut Message<'_>) {
        match message.payload {
            Payload::Copied(bytes) => _ = self.say(head, message.words, &[bytes]),
            Payload::Pieces(pieces) => _ = self.say(head, message.words, pieces),
            Payload::Data(_) | Payload::Gather(_) => self.transmit_data(head, message),
        }
    }

    /// Sends the payload of a message as data when its bytes are granted, behind those that wait
    /// already. The message's call awaits that memory, too.
    #[cold]
    fn transmit_data(&mut self, head: FrameHead, message: &mut Message<'_>) {
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
        self.am.outgoing.at(number).is_some_and(|outgoing| outgoing.phase == MappingPhase::Unmapped)
    }

    /// Sends data of messages that was granted; asks for more if it must.
    pub(crate) fn pass_data(&mut self, number: u32) {
        let Some(outgoing) = self.am.outgoing.at(number) else { return };
        let Some(slot) = outgoing.known_slot() else { return };
        while let Some(frame) = outgoing.data.poll_frame() {
            self.outbox[LinkLane::Bulk as usize].push_back(frame);
        }
        let asks: Vec<_> = std::iter::from_fn(|| outgoing.data.poll_ask()).collect();
        for ask in asks {
            self.control(&LinkControl::Ask { flow: FlowName::Requests(slot), ask });
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
        waiting.chain(self.outbox[LinkLane::Bulk as usize].iter_mut())
    }

    /// Takes out all that waits for bytes.
    pub(crate) fn take_waiting(&mut self) -> Vec<Descriptor> {
        let outgoing = self.am.outgoing.iter_mut();
        outgoing.flat_map(|(_, outgoing)| outgoing.data.drain()).collect()
    }
}

/// Most bytes of data: what every fabric transfers at once, with the words behind it.
const DATA_MAX: u64 = u32::MAX as u64 - 256;
