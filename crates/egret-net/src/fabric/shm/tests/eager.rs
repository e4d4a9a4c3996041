//! Both lanes of a connection against a model, over seeds.

use std::collections::VecDeque;

use super::shared;
use crate::fabric::ViSpec;
use crate::fabric::shm::eager::EagerLanes;
use crate::fabric::shm::layout::{BYTES, LANE_LINES};
use crate::fabric::shm::memory::LINE;
use crate::fabric::shm::records::{INLINE, RECORD_MAX, Scratch};
use crate::rt::SplitMix64;
use crate::vi::{Lane, Position, PostError, Reliability};

/// A record that was sent and not drained.
#[derive(Debug)]
struct Sent {
    tag: u64,
    bytes: Vec<u8>,
    behind: u64,
}

/// What is true of one lane from the sender to the receiver.
#[derive(Debug, Default)]
struct Model {
    undrained: VecDeque<Sent>,
    /// The position behind the last record sent.
    sent: u64,
    /// What was known to have arrived.
    arrived: u64,
    /// Whether the sender was told that the lane is full, and waits.
    is_full: bool,
}

impl Model {
    /// Lines that are written and not drained, from the first record to the last.
    fn under_way(&self) -> u64 {
        self.undrained.front().map_or(0, |first| self.sent - (first.behind - first.lines()))
    }
}

impl Sent {
    fn lines(&self) -> u64 {
        1 + self.bytes.len().saturating_sub(INLINE).div_ceil(LINE) as u64
    }
}

/// The ends of one connection, of which one sends and the other drains.
struct Trial {
    rng: SplitMix64,
    sender: EagerLanes,
    receiver: EagerLanes,
    scratch: Scratch,
    lanes: [Model; 2],
    tag: u64,
    /// Whether the receiver was told of records since it drained.
    is_told: bool,
    /// Whether no record has more than one line: those behind a longer one are written with more
    /// care for a whole round.
    is_short: bool,
}

impl Trial {
    fn new(seed: u64) -> Self {
        let ((near, near_seen), (far, far_seen)) = (shared(BYTES), shared(BYTES));
        let spec = || ViSpec::new(Reliability::Delivery, 1);
        Self {
            rng: SplitMix64(seed),
            sender: EagerLanes::new(spec(), &near, &far_seen).unwrap(),
            receiver: EagerLanes::new(spec(), &far, &near_seen).unwrap(),
            scratch: Scratch::new(),
            lanes: Default::default(),
            tag: 0,
            is_told: false,
            is_short: seed.is_multiple_of(3),
        }
    }

    fn lane(&mut self) -> Lane {
        Lane::ALL[self.rng.below(2)]
    }

    fn act(&mut self) {
        // More is sent than is drained, so that lanes are full now and then.
        match self.rng.below(200) {
            0..140 => {
                let count = if self.is_short { SHORTS } else { 1 };
                (0..count).for_each(|_| self.send());
            }
            140..170 => {
                let count = self.rng.below(5);
                (0..count).for_each(|_| _ = self.take());
            }
            170..185 => self.ask(),
            185..199 => self.tell(),
            _ => self.drain(),
        }
    }

    /// Sends by one of the ways there are, for each has its own short cuts.
    fn send(&mut self) {
        let lane = self.lane();
        let lengths = [0, 8, 16, INLINE, INLINE + 1, 200, RECORD_MAX];
        let kinds = if self.is_short { 4 } else { lengths.len() };
        let most = lengths[self.rng.below(kinds)];
        let len = if self.rng.below(2) == 0 { most } else { self.rng.below(most + 1) };
        let bytes: Vec<u8> = (0..len).map(|_| self.rng.byte()).collect();
        self.tag += 1;
        let (tag, cut) = (self.tag, self.rng.below(len + 1));
        let (whole, cut) = ([&bytes[..]], [&bytes[..cut], &bytes[cut..]]);
        let behind = match self.rng.below(4) {
            0 => self.sender.try_short(lane, tag, &whole),
            1 => self.sender.try_long(lane, tag, &whole),
            2 => self.sender.try_send(lane, tag, &cut),
            _ => return self.send_or_say(lane, tag, bytes),
        };
        if let Some(behind) = behind {
            self.sent(lane, behind.get(), tag, bytes);
        }
    }

    fn send_or_say(&mut self, lane: Lane, tag: u64, bytes: Vec<u8>) {
        match self.sender.send(lane, tag, &[&bytes]) {
            Ok(behind) => self.sent(lane, behind.number(), tag, bytes),
            Err(PostError::LaneFull) => {
                let model = &mut self.lanes[lane as usize];
                let under_way = model.under_way();
                assert!(under_way > FULL_AT, "{lane:?} is full with {under_way} lines");
                model.is_full = true;
            }
            Err(why) => panic!("{lane:?}: {why}"),
        }
    }

    fn sent(&mut self, lane: Lane, behind: u64, tag: u64, bytes: Vec<u8>) {
        let model = &mut self.lanes[lane as usize];
        assert!(behind > model.sent, "{lane:?} at {behind} behind {}", model.sent);
        model.sent = behind;
        model.undrained.push_back(Sent { tag, bytes, behind });
        let under_way = model.under_way();
        assert!(under_way <= LANE_LINES as u64, "{lane:?} holds {under_way} lines");
    }

    /// Drains one record: talk before bulk, each in its order. Whether there was one.
    fn take(&mut self) -> bool {
        let taken = self.receiver.take(&mut self.scratch).unwrap();
        self.is_told = false;
        let Some(model) = self.lanes.iter_mut().find(|model| !model.undrained.is_empty()) else {
            assert_eq!(taken, None, "a record that was not sent, or was drained before");
            return false;
        };
        let sent = model.undrained.pop_front().unwrap();
        assert_eq!(taken, Some((sent.tag, &sent.bytes[..])));
        true
    }

    /// The sender asks, or looks, how much has arrived.
    fn ask(&mut self) {
        let lane = self.lane();
        let arrived = match self.rng.below(2) {
            0 => self.sender.arrived_so_far(lane),
            _ => self.sender.arrived(lane).map(|(position, _)| position),
        };
        self.arrived(lane, arrived.unwrap());
    }

    fn arrived(&mut self, lane: Lane, arrived: Position) {
        let (model, arrived) = (&mut self.lanes[lane as usize], arrived.number());
        assert!(arrived >= model.arrived, "{lane:?} fell to {arrived} from {}", model.arrived);
        model.arrived = arrived;
        if let Some(first) = model.undrained.front() {
            assert!(arrived < first.behind, "{lane:?} at {arrived}, {} is there", first.behind);
        }
    }

    /// The receiver is told of records once, and again when it has drained since.
    fn tell(&mut self) {
        let has_records = self.lanes.iter().any(|model| !model.undrained.is_empty());
        let is_news = self.receiver.has_news().unwrap();
        assert!(is_news || self.is_told || !has_records, "nobody is told of records");
        assert!(!is_news || !self.is_told, "who waits is told twice");
        self.is_told |= is_news;
    }

    /// The receiver drains all. Who waits for room, or asks, hears of that.
    fn drain(&mut self) {
        let (published, lines) = (self.receiver.published(), LANE_LINES as u64);
        let has_many = self.lanes.iter().any(|model| model.under_way() > lines / 4);
        while self.take() {}
        let is_published = self.receiver.published() != published;
        assert!(is_published || !has_many, "nobody wakes who waits for room");
        if self.lanes.iter().any(|model| model.is_full) {
            assert!(self.sender.has_news().unwrap(), "room is no news to who waits for it");
            self.lanes.iter_mut().for_each(|model| model.is_full = false);
        }
        for lane in Lane::ALL {
            self.sender.arrived(lane).unwrap();
        }
        assert!(!self.take());
        for lane in Lane::ALL {
            let (arrived, sent) =
                (self.sender.arrived_so_far(lane), self.lanes[lane as usize].sent);
            assert!(arrived.clone().unwrap() >= Position::new(sent), "{arrived:?} of {sent}");
            self.arrived(lane, arrived.unwrap());
        }
    }

    /// The connection ends: what was sent is drained in order, and has not arrived.
    fn end(mut self) {
        Lane::ALL.into_iter().for_each(|lane| _ = self.sender.arrived(lane).unwrap());
        let mut kept = self.receiver.undrained(true);
        for lane in Lane::ALL {
            let arrived = self.sender.arrived_so_far(lane).unwrap();
            self.arrived(lane, arrived);
        }
        let left = self.sender.undrained(true);
        assert!(left.is_empty(), "nothing was sent to the sender");
        for lane in Lane::ALL {
            self.arrived(lane, left.arrived[lane as usize]);
        }
        while let Some((tag, bytes)) = kept.take() {
            let heads = self.lanes.iter_mut().map(|model| &mut model.undrained);
            let sent = heads
                .filter(|lane| lane.front().is_some_and(|sent| sent.tag == tag))
                .find_map(VecDeque::pop_front);
            assert_eq!(sent.map(|sent| sent.bytes), Some(bytes), "record {tag} out of its order");
        }
        assert!(self.lanes.iter().all(|model| model.undrained.is_empty()), "records are lost");
    }
}

/// Lines under way with which a lane may be full: what the receiver has not published, and
/// what the longest record and the skip before it take, are not room.
const FULL_AT: u64 = LANE_LINES as u64 * 3 / 4 - 2 * 65;
const SEEDS: u64 = 30;
const ACTS: usize = 1000;
/// Records of one line that are sent at a time.
const SHORTS: usize = 12;

#[test]
fn each_lane_has_its_order_and_its_room_and_talk_goes_first() {
    trials();
}

pub(super) fn trials() {
    for seed in 0..SEEDS {
        let mut trial = Trial::new(seed);
        (0..ACTS).for_each(|_| trial.act());
        trial.end();
    }
}
