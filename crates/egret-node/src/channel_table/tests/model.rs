//! Several channels over one link, machine to machine: whatever is written, in whatever order the
//! lanes bring it, and however it is read.
#![expect(clippy::cast_possible_truncation, reason = "numbers of a test, all of them small")]

use std::collections::VecDeque;

use egret_net::vi::Descriptor;
use proptest::prelude::*;

use crate::channel_table::inflow::{ChannelInflow, MessageBegin};
use crate::channel_table::{ChannelOutflow, NextPart, PartMemory};
use crate::flow::{
    FlowBudget, FlowTerms, Inflows, PeerId, ReceiverNotice, SMALL_BYTES, SenderNotice, SizedPools,
    cost,
};
use crate::frame::{FrameHead, FrameKind};

/// Two nodes and the lanes between them.
pub(super) struct Duct {
    pub(super) inflows: Inflows,
    pub(super) ends: Vec<Ends>,
    depot: SizedPools,
    bulk: VecDeque<(u64, Vec<u8>)>,
    to_reader: VecDeque<(usize, SenderNotice)>,
    to_writer: VecDeque<(usize, Told)>,
}

/// What a writer is told: of its flow, or that nobody reads.
enum Told {
    Flow(ReceiverNotice),
    Stop,
}

/// Both ends of a channel, what was written, and what was read of it.
pub(super) struct Ends {
    pub(super) outgoing: ChannelOutflow,
    pub(super) incoming: ChannelInflow,
    /// The message that is written, by its number, and its bytes so far.
    writing: Option<u32>,
    wrote: usize,
    messages: u32,
    /// Finished and not known to be refused.
    whole: Vec<u32>,
    reading: bool,
    read: Vec<u8>,
    pub(super) got: Vec<u32>,
    pub(super) aborted: usize,
    stopped: bool,
    ended: bool,
}

impl Duct {
    pub(super) fn new(terms: FlowTerms, channels: usize) -> Self {
        let mut inflows = Inflows::new(FlowBudget::new(terms));
        let open = |number: usize| Ends::new(number, &mut inflows);
        let ends = (0..channels).map(open).collect();
        let (bulk, to_reader, to_writer) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self { inflows, ends, depot: SizedPools::default(), bulk, to_reader, to_writer }
    }

    /// Gives the lanes what a writer has for them.
    pub(super) fn pump(&mut self, at: usize) {
        let outgoing = &mut self.ends[at].outgoing;
        while let Some(frame) = outgoing.poll_frame() {
            self.bulk.push_back((frame.tag(), all_bytes(&frame)));
        }
        self.to_reader.extend(std::iter::from_fn(|| outgoing.flow.poll_ask()).map(|ask| (at, ask)));
    }

    /// Gives the reader what a writer sent, and the budget what that means.
    pub(super) fn bulk_arrives(&mut self) -> bool {
        let Some((tag, bytes)) = self.bulk.pop_front() else { return false };
        let head = FrameHead::from_bits(tag).unwrap();
        let at = head.slot as usize;
        let memory = self.landed(bytes);
        self.ends[at].incoming.hear(head.kind, memory, &mut self.inflows).expect("nobody lies");
        self.settle(at);
        true
    }

    fn landed(&self, bytes: Vec<u8>) -> PartMemory {
        if bytes.len() as u64 <= SMALL_BYTES {
            return PartMemory::Small(bytes);
        }
        let mut buf = self.depot.take(bytes.len()).unwrap();
        buf.bytes_mut().copy_from_slice(&bytes);
        PartMemory::Landed(buf)
    }

    pub(super) fn settle(&mut self, at: usize) {
        self.ends[at].incoming.settle(&mut self.inflows);
        while let Some((flow, tell)) = self.inflows.poll() {
            let at = self.ends.iter().position(|ends| ends.incoming.flow() == flow).unwrap();
            self.to_writer.push_back((at, Told::Flow(tell)));
        }
    }

    pub(super) fn reader_hears(&mut self) -> bool {
        let Some((at, ask)) = self.to_reader.pop_front() else { return false };
        let incoming = &self.ends[at].incoming;
        if !incoming.is_ended() {
            self.inflows.hear(incoming.flow(), ask).expect("nobody lies");
        }
        self.settle(at);
        true
    }

    fn writer_hears(&mut self) -> bool {
        let Some((at, told)) = self.to_writer.pop_front() else { return false };
        match told {
            Told::Flow(tell) => self.ends[at].hear(tell),
            Told::Stop => {
                self.ends[at].outgoing.stop();
                self.ends[at].writing = None;
            }
        }
        self.pump(at);
        true
    }

    /// One thing that may happen.
    fn step(&mut self, (what, which, bytes): (u8, u8, u32)) {
        let at = usize::from(which) % self.ends.len();
        match what % 11 {
            0..=2 => self.ends[at].write(bytes),
            3 => self.ends[at].finish(bytes),
            4 if bytes % 3 == 0 => self.ends[at].abort(),
            5 | 6 => drop(self.bulk_arrives()),
            7 => drop(self.reader_hears()),
            8 => drop(self.writer_hears()),
            9 => drop(self.ends[at].read_some(1 + bytes as usize % 3)),
            10 if bytes % 16 == 0 => self.ends[at].skip(),
            10 if bytes % 16 == 1 && self.ends[at].stop() => {
                self.to_writer.push_back((at, Told::Stop));
            }
            _ => {}
        }
        self.settle(at);
        self.pump(at);
    }

    /// Everything that was written is brought and read, in the end.
    pub(super) fn drain(&mut self) {
        loop {
            let mut moved = self.bulk_arrives() | self.reader_hears() | self.writer_hears();
            for at in 0..self.ends.len() {
                moved |= self.ends[at].read_some(usize::MAX);
                self.settle(at);
                self.pump(at);
            }
            self.adds_up();
            if !moved {
                return;
            }
        }
    }

    /// Everything that is on its way arrives.
    pub(super) fn exchange(&mut self) {
        while self.bulk_arrives() | self.reader_hears() | self.writer_hears() {}
    }

    /// The budget, and each channel's credit wherever it is.
    pub(super) fn adds_up(&mut self) {
        let mut all = self.inflows.budget.free();
        for at in 0..self.ends.len() {
            let ends = &self.ends[at];
            let flow = ends.incoming.flow();
            let (held, left) = (self.inflows.budget.held(flow), self.inflows.left(flow));
            assert_eq!(held, left + ends.incoming.holds(), "of channel {at}");
            all += held;
            if !ends.incoming.is_ended() {
                let there = ends.outgoing.flow.credit() + self.under_way(at);
                assert_eq!(there, left, "credit of channel {at}");
            }
        }
        assert_eq!(all, self.inflows.budget.terms().bytes);
    }

    /// Credit that is on its way, one way or the other, or being used.
    fn under_way(&self, at: usize) -> u64 {
        let frames =
            self.bulk.iter().map(|(tag, bytes)| (FrameHead::from_bits(*tag).unwrap(), bytes));
        let mine = frames.filter(|(head, _)| head.slot as usize == at);
        let paid = mine.filter(|(head, _)| matches!(head.kind, FrameKind::Part | FrameKind::Last));
        let used: u64 = paid.map(|(_, bytes)| cost(bytes.len() as u64)).sum();
        let granted = self.to_writer.iter().map(|(to, told)| match told {
            Told::Flow(ReceiverNotice::Grant { bytes }) if *to == at => *bytes,
            _ => 0,
        });
        let unused = self.to_reader.iter().map(|(of, ask)| match ask {
            SenderNotice::Unused { bytes } if *of == at => *bytes,
            _ => 0,
        });
        used + granted.chain(unused).sum::<u64>()
    }

    /// Nothing is lost: all that was finished was read, once and in order.
    pub(super) fn finish(mut self) {
        for at in 0..self.ends.len() {
            if self.ends[at].writing.is_some() {
                self.ends[at].abort();
            }
            self.pump(at);
        }
        self.drain();
        for ends in &self.ends {
            if !ends.stopped {
                assert_eq!(ends.whole, ends.got);
            }
        }
        for at in 0..self.ends.len() {
            self.ends[at].outgoing.end();
            self.pump(at);
        }
        self.drain();
        for ends in &self.ends {
            assert!(ends.outgoing.is_over() && ends.incoming.is_ended());
            assert!(ends.stopped || ends.ended);
            let flow = ends.incoming.flow();
            assert_eq!(self.inflows.budget.held(flow), 0, "nothing is left at the end");
            self.inflows.close(flow);
        }
        assert_eq!(self.inflows.budget.free(), self.inflows.budget.terms().bytes);
        assert_eq!(self.depot.stats().out_bytes, 0);
    }
}

impl Ends {
    fn new(number: usize, inflows: &mut Inflows) -> Self {
        let (flow, credit) = inflows.open(PeerId(0)).unwrap();
        Self {
            outgoing: ChannelOutflow::new(number as u32, credit),
            incoming: ChannelInflow::new(flow),
            writing: None,
            wrote: 0,
            messages: 0,
            whole: Vec::new(),
            reading: false,
            read: Vec::new(),
            got: Vec::new(),
            aborted: 0,
            stopped: false,
            ended: false,
        }
    }

    /// Bytes of the message that is written, which begins if none is.
    pub(super) fn write(&mut self, bytes: u32) {
        if self.outgoing.halted().is_some() && self.writing.is_some() {
            return self.abort();
        }
        if self.writing.is_none() && !self.outgoing.is_flushed() {
            return;
        }
        let message = *self.writing.get_or_insert_with(|| {
            self.outgoing.begin();
            self.messages += 1;
            self.wrote = 0;
            self.messages
        });
        if self.outgoing.has_room() {
            let part = bytes_of(message, self.wrote, len_of(bytes));
            self.wrote += part.len();
            drop(self.outgoing.part(part.into()));
        }
    }

    pub(super) fn finish(&mut self, bytes: u32) {
        if !self.outgoing.has_room() {
            return;
        }
        if self.writing.is_none() || self.wrote < 4 {
            self.write(bytes);
        }
        let Some(message) = self.writing.take() else { return };
        let part = bytes_of(message, self.wrote, len_of(bytes / 7));
        if self.wrote + part.len() >= 4 && self.outgoing.last(Some(part.into())).is_ok() {
            self.whole.push(message);
        } else {
            self.outgoing.abort();
        }
    }

    /// Gives up what is written, or what is finished and has not gone.
    pub(super) fn abort(&mut self) {
        if self.writing.take().is_none() && !self.outgoing.is_flushed() {
            self.whole.retain(|whole| *whole != self.messages);
        }
        self.outgoing.abort();
    }

    fn hear(&mut self, tell: ReceiverNotice) {
        let before = self.outgoing.halted();
        self.outgoing.hear(tell).expect("nobody lies");
        if self.outgoing.halted() != before {
            self.writing = None;
            self.whole.retain(|whole| *whole != self.messages);
        }
    }

    /// Reads up to so many parts.
    pub(super) fn read_some(&mut self, parts: usize) -> bool {
        let mut moved = false;
        for _ in 0..parts {
            if self.stopped || !self.reading && !self.begin() {
                break;
            }
            match self.incoming.next() {
                NextPart::Part(memory) => self.read.extend(memory.bytes()),
                NextPart::Last(memory) => {
                    self.read.extend(memory.bytes());
                    self.whole();
                }
                NextPart::Aborted => {
                    self.aborted += 1;
                    self.reading = false;
                }
                NextPart::Nothing => break,
            }
            moved = true;
        }
        moved
    }

    fn begin(&mut self) -> bool {
        self.read.clear();
        match self.incoming.begin() {
            MessageBegin::Message => self.reading = true,
            MessageBegin::Ended => self.ended = true,
            MessageBegin::Nothing => {}
        }
        self.reading
    }

    fn whole(&mut self) {
        let number = u32::from_le_bytes(self.read[..4].try_into().unwrap());
        assert_eq!(self.read, bytes_of(number, 0, self.read.len()), "message {number}");
        assert!(self.got.last().is_none_or(|last| *last < number), "in order, once");
        self.got.push(number);
        self.reading = false;
    }

    /// The rest of a message is not read: then it is not one that was got.
    fn skip(&mut self) {
        if std::mem::take(&mut self.reading) && self.read.len() >= 4 {
            let number = u32::from_le_bytes(self.read[..4].try_into().unwrap());
            self.incoming.skip();
            self.whole.retain(|whole| *whole != number);
            if self.writing == Some(number) {
                self.abort();
            }
        } else {
            self.reading = self.incoming.is_reading();
        }
    }

    /// Whether the writer is to be told.
    fn stop(&mut self) -> bool {
        (self.stopped, self.reading) = (true, false);
        self.incoming.stop()
    }
}

fn all_bytes(frame: &Descriptor) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(frame.len()).unwrap()];
    frame.gather(0, &mut bytes);
    bytes
}

/// Bytes `from` on of a message: its number, and then what only it has there.
fn bytes_of(message: u32, from: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| match at {
        0..4 => message.to_le_bytes()[at],
        _ => (message as usize * 31 + at * 7 + at / 256) as u8,
    };
    (from..from + len).map(byte).collect()
}

/// Most parts are small, some are arrays, some larger than a window, few than everything.
fn len_of(bytes: u32) -> usize {
    let bytes = bytes as usize;
    match bytes % 16 {
        0 => 0,
        1..=8 => bytes / 16 % 300,
        9..=12 => bytes / 16 % 5_000,
        13 | 14 => bytes / 16 % 40_000,
        _ => bytes / 16 % 400_000,
    }
}

pub(super) fn terms() -> FlowTerms {
    FlowTerms { window_max: 64 << 10, ..FlowTerms::of(300 << 10) }
}

pub(super) fn play(channels: usize, steps: &[(u8, u8, u32)]) {
    let mut duct = Duct::new(terms(), channels);
    for step in steps {
        duct.step(*step);
        duct.adds_up();
    }
    duct.finish();
}

/// Steps from seeds, for planted faults: proptest would shrink for long.
pub(super) fn any_sequence() {
    let mut state = 7_u64;
    for _ in 0..60 {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32
        };
        let steps: Vec<_> = (0..300).map(|_| (next() as u8, next() as u8, next())).collect();
        play(3, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_message_comes_whole_once_in_order_or_not_at_all(
        channels in 1..5_usize,
        steps in proptest::collection::vec(any::<(u8, u8, u32)>(), 1..400),
    ) {
        play(channels, &steps);
    }
}

#[test]
fn every_sequence_of_some_seeds() {
    any_sequence();
}
