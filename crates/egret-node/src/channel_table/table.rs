//! All channels of a node, without I/O: what a link brings goes in, and what is to go out by one
//! comes out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;

use egret_net::vi::Descriptor;

use super::inflow::{ChannelInflow, NO_CHANNEL, PartMemory, TWICE};
use super::outflow::ChannelOutflow;
use super::reader_state::ReaderState;
use super::writer_state::WriterState;
use crate::flow::{FlowId, FlowName, InflowKey, Inflows, ReceiverNotice};
use crate::frame::{FrameHead, FrameKind};
use crate::link::control::LinkControl;
use crate::link::placement::Placement;
use crate::link::{ChannelControl, ChannelRefusal, Fate, LinkError};
use crate::slots::{SlotKey, SlotTable};
use crate::wakers::DeferredWaker;

/// All channels of a node.
#[derive(Debug)]
pub(crate) struct ChannelTable {
    writers: BTreeMap<u64, WriterState>,
    /// The writers of open channels, by their links and the reader's slots. A slot may be given
    /// again before the last frames of who had it are back; those come back first.
    routes: BTreeMap<(SlotKey, u32), VecDeque<u64>>,
    readers: SlotTable<ReaderState>,
    /// The slots of readers, by their links and the writer's numbers.
    numbers: BTreeMap<(SlotKey, u64), u32>,
    listeners: BTreeMap<String, ChannelListenerState>,
    /// The number of the next channel that is written here. None is used twice.
    next: u64,
    out: VecDeque<(SlotKey, ChannelOutput)>,
}

/// What is to go out by a link.
#[derive(Debug)]
pub(crate) enum ChannelOutput {
    Control(LinkControl),
    /// A frame of the bulk lane.
    Bulk(Descriptor),
}

/// The listener that accepts the channels of a name.
#[derive(Debug)]
struct ChannelListenerState {
    backlog: usize,
    waiting: VecDeque<u32>,
    wakers: Vec<DeferredWaker>,
}

impl ChannelTable {
    pub(crate) fn new() -> Self {
        Self {
            writers: BTreeMap::new(),
            routes: BTreeMap::new(),
            readers: SlotTable::default(),
            numbers: BTreeMap::new(),
            listeners: BTreeMap::new(),
            next: 1,
            out: VecDeque::new(),
        }
    }

    /// The links that channels use.
    pub(crate) fn links(&self) -> BTreeSet<SlotKey> {
        let readers = self.readers.values().map(|reading| reading.link);
        readers.chain(self.writers.values().map(|writing| writing.link)).collect()
    }

    /// Whether the peer of a link has all whole messages that were written or posted for it.
    pub(crate) fn is_through(&self, link: SlotKey) -> bool {
        self.writers.values().filter(|writing| writing.link == link).all(WriterState::is_through)
    }

    /// What is to go out next.
    pub(crate) fn poll_out(&mut self) -> Option<(SlotKey, ChannelOutput)> {
        self.out.pop_front()
    }

    fn tell(&mut self, link: SlotKey, control: ChannelControl) {
        self.out.push_back((link, ChannelOutput::Control(LinkControl::Channel(control))));
    }

    /// Begins a channel to the listener of `name` at the other end of a link.
    pub(crate) fn open(&mut self, link: SlotKey, name: &str) -> u64 {
        let number = self.next;
        self.next += 1;
        self.writers.insert(number, WriterState::new(link));
        self.tell(link, ChannelControl::Open { number, name: name.to_owned() });
        number
    }

    pub(crate) fn writer(&mut self, number: u64) -> &mut WriterState {
        self.writers.get_mut(&number).expect("its handle is there")
    }

    /// Sends what the writer has and may.
    pub(crate) fn pump_writer(&mut self, number: u64) {
        let Some(writing) = self.writers.get_mut(&number) else { return };
        let link = writing.link;
        while let Some(frame) = writing.poll_frame() {
            self.out.push_back((link, ChannelOutput::Bulk(frame)));
        }
        while let Some(ask) = writing.poll_ask() {
            let ask = LinkControl::Ask { flow: FlowName::Channel(number), ask };
            self.out.push_back((link, ChannelOutput::Control(ask)));
        }
        self.forget_writer(number);
    }

    /// The writer's handle is gone.
    pub(crate) fn drop_writer(&mut self, number: u64) {
        self.writer(number).abandon();
        self.pump_writer(number);
    }

    /// Forgets a writer that is done.
    fn forget_writer(&mut self, number: u64) {
        if self.writers.get(&number).is_some_and(WriterState::is_done) {
            let writing = self.writers.remove(&number).expect("just looked at");
            if let Some(slot) = writing.slot() {
                self.unroute(writing.link, slot, number);
            }
        }
    }

    fn unroute(&mut self, link: SlotKey, slot: u32, number: u64) {
        if let Some(numbers) = self.routes.get_mut(&(link, slot)) {
            numbers.retain(|known| *known != number);
            if numbers.is_empty() {
                self.routes.remove(&(link, slot));
            }
        }
    }

    /// Accepts channels of a name from now on. `false`: there is a listener already.
    pub(crate) fn listen(&mut self, name: &str, backlog: usize) -> bool {
        let free = !self.listeners.contains_key(name);
        if free {
            let listening =
                ChannelListenerState { backlog, waiting: VecDeque::new(), wakers: Vec::new() };
            self.listeners.insert(name.to_owned(), listening);
        }
        free
    }

    /// The listener's handle was dropped: refuses what waits for it.
    pub(crate) fn unlisten(&mut self, name: &str, inflows: &mut Inflows) {
        let Some(listening) = self.listeners.remove(name) else { return };
        listening.waiting.into_iter().for_each(|slot| self.drop_reader(slot, inflows));
    }

    /// The next channel of a name that was opened.
    pub(crate) fn poll_accept(&mut self, name: &str, waker: Option<&Waker>) -> Option<u32> {
        let listening = self.listeners.get_mut(name)?;
        let slot = listening.waiting.pop_front();
        if slot.is_none() {
            let waker = waker.filter(|waker| !listening.wakers.iter().any(|it| it.is(waker)));
            listening.wakers.extend(waker.map(DeferredWaker::of));
        }
        slot
    }

    pub(crate) fn reader(&mut self, slot: u32) -> &mut ReaderState {
        self.readers.at(slot).expect("its handle is there")
    }

    /// Grants the writers what can be granted after something of a reader was taken.
    pub(crate) fn settle_reader(&mut self, slot: u32, inflows: &mut Inflows) {
        let Some(reading) = self.readers.at(slot) else { return };
        reading.incoming.settle(inflows);
        self.forget_reader(slot, inflows);
    }

    /// The reader's handle is gone.
    pub(crate) fn drop_reader(&mut self, slot: u32, inflows: &mut Inflows) {
        let reading = self.reader(slot);
        let (link, number) = (reading.link, reading.number);
        if reading.abandon() {
            self.tell(link, ChannelControl::Stop { number });
        }
        self.settle_reader(slot, inflows);
    }

    /// Forgets a reader that is done.
    fn forget_reader(&mut self, slot: u32, inflows: &mut Inflows) {
        if let Some(key) = self.readers.key_at(slot)
            && self.readers.look(key).is_some_and(ReaderState::is_done)
        {
            let reading = self.readers.remove(key).expect("just looked at");
            self.numbers.remove(&(reading.link, reading.number));
            inflows.close(reading.incoming.flow());
        }
    }

    /// A frame of the bulk lane has come.
    pub(crate) fn hear(
        &mut self,
        link: SlotKey,
        head: FrameHead,
        memory: PartMemory,
        inflows: &mut Inflows,
    ) -> Result<(), &'static str> {
        let reading = self.readers.at(head.slot).filter(|reading| reading.is_of(link));
        let reading = reading.ok_or(NO_CHANNEL)?;
        reading.incoming.hear(head.kind, memory, inflows)?;
        reading.wake();
        self.settle_reader(head.slot, inflows);
        Ok(())
    }

    /// A frame of control has come.
    pub(crate) fn hear_control(
        &mut self,
        link: SlotKey,
        control: ChannelControl,
        to: ((&str, &Placement), &mut Inflows),
    ) -> Result<(), &'static str> {
        match control {
            ChannelControl::Open { number, name } => {
                if self.numbers.contains_key(&(link, number)) {
                    return Err(TWICE);
                }
                let refused = |why| ChannelControl::Refused { number, why };
                let answer = self.admit(link, number, &name, to).unwrap_or_else(refused);
                self.tell(link, answer);
            }
            ChannelControl::Opened { number, slot, credit } => {
                self.opened_there(link, number, slot, credit)?;
            }
            ChannelControl::Refused { number, why } => {
                self.for_writer(link, number, |writing| writing.refused(why));
            }
            ChannelControl::Stop { number } => {
                self.for_writer(link, number, |writing| writing.outgoing(ChannelOutflow::stop));
            }
        }
        Ok(())
    }

    /// Frames for a channel that has ended are late, and no violation.
    fn for_writer(&mut self, link: SlotKey, number: u64, hear: impl FnOnce(&mut WriterState)) {
        if let Some(writing) = self.writers.get_mut(&number).filter(|it| it.link == link) {
            hear(writing);
            writing.wake();
            self.pump_writer(number);
        }
    }

    /// The reader of a channel that is written here says something of its flow.
    pub(crate) fn told(
        &mut self,
        link: SlotKey,
        number: u64,
        tell: ReceiverNotice,
    ) -> Result<(), &'static str> {
        let mut heard = Ok(());
        self.for_writer(link, number, |writing| {
            writing.outgoing(|outgoing| heard = outgoing.hear(tell));
        });
        heard
    }

    /// The flow of a channel that is read here, if anything may be said of it.
    pub(crate) fn inflow(&mut self, link: SlotKey, number: u64) -> Option<FlowId> {
        let slot = *self.numbers.get(&(link, number))?;
        let incoming = &self.reader(slot).incoming;
        (!incoming.is_ended()).then(|| incoming.flow())
    }

    /// A peer opens a channel to be read here.
    fn admit(
        &mut self,
        link: SlotKey,
        number: u64,
        name: &str,
        ((peer, lands), inflows): ((&str, &Placement), &mut Inflows),
    ) -> Result<ChannelControl, ChannelRefusal> {
        let listening = self.listeners.get_mut(name).ok_or(ChannelRefusal::NoListener)?;
        if listening.waiting.len() >= listening.backlog {
            return Err(ChannelRefusal::Backlog);
        }
        if self.readers.len() >= FrameHead::SLOTS as usize {
            return Err(ChannelRefusal::NoRoom);
        }
        let (flow, credit) = inflows.open(link.into()).map_err(|_| ChannelRefusal::NoRoom)?;
        let reading = ReaderState::new((link, peer), number, ChannelInflow::new(flow));
        let slot = self.readers.insert(reading).index;
        let place = InflowKey::Channel(slot);
        inflows.put(flow, link, place);
        lands.open(place, credit, None);
        listening.waiting.push_back(slot);
        listening.wakers.drain(..).for_each(DeferredWaker::wake);
        self.numbers.insert((link, number), slot);
        Ok(ChannelControl::Opened { number, slot, credit })
    }

    /// A channel to be written here is open.
    fn opened_there(
        &mut self,
        link: SlotKey,
        number: u64,
        slot: u32,
        credit: u64,
    ) -> Result<(), &'static str> {
        let Some(writing) = self.writers.get_mut(&number).filter(|it| it.link == link) else {
            return Err(NO_CHANNEL);
        };
        if slot >= FrameHead::SLOTS {
            return Err(NO_CHANNEL);
        }
        writing.opened(ChannelOutflow::new(slot, credit), slot)?;
        self.routes.entry((link, slot)).or_default().push_back(number);
        self.pump_writer(number);
        Ok(())
    }

    /// A frame is back: the peer has it, or what is known of it when its link died.
    pub(crate) fn came_back(&mut self, link: SlotKey, frame: Descriptor, fate: Option<Fate>) {
        let Some(head) = FrameHead::from_bits(frame.tag()) else { return };
        drop(frame);
        let Some(numbers) = self.routes.get(&(link, head.slot)) else { return };
        // What never left belongs to who has the slot now.
        let newest = fate == Some(Fate::NotDelivered);
        let number = if newest { numbers.back() } else { numbers.front() };
        let Some(number) = number.copied() else { return };
        if head.kind == FrameKind::End {
            self.unroute(link, head.slot, number);
        }
        self.writer(number).came_back(head, fate);
        self.pump_writer(number);
    }

    /// A link is no more.
    pub(crate) fn link_ended(&mut self, link: SlotKey, why: &LinkError, inflows: &mut Inflows) {
        let of_link =
            |(number, writing): (&u64, &WriterState)| (writing.link == link).then_some(*number);
        let writers: Vec<_> = self.writers.iter().filter_map(of_link).collect();
        for number in writers {
            self.writer(number).died(why);
            self.forget_writer(number);
        }
        let slots: Vec<_> =
            self.numbers.range((link, 0)..=(link, u64::MAX)).map(|it| *it.1).collect();
        for slot in slots {
            self.reader(slot).died(why);
            self.settle_reader(slot, inflows);
        }
    }
}

/// Remembers the waker to wake.
pub(super) fn remember(place: &mut Option<DeferredWaker>, waker: Option<&Waker>) {
    if let Some(waker) = waker
        && place.as_ref().is_none_or(|known| !known.is(waker))
    {
        *place = Some(DeferredWaker::of(waker));
    }
}
