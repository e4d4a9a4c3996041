//! A network under virtual time, and what repeats from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::rt::{Instant, SplitMix64};

/// Numbers that repeat from a seed, and choices made of them.
#[derive(Debug, Clone)]
pub(super) struct Random(SplitMix64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// One of `0..below`.
    pub(super) fn below(&mut self, below: u64) -> u64 {
        self.next() % below
    }

    pub(super) fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.below(below as u64)).unwrap()
    }

    pub(super) fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What a network does to its datagrams, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weather {
    /// How far it is, beyond a tenth of a millisecond.
    pub(super) distance_ms: u64,
    pub(super) loss: u64,
    pub(super) doubling: u64,
    pub(super) overtaking: u64,
    pub(super) damage: u64,
}

/// Datagrams on their way.
#[derive(Debug)]
pub(super) struct Network {
    weather: Weather,
    random: Random,
    on_their_way: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    count: u64,
}

impl Network {
    pub(super) fn new(weather: Weather, random: Random) -> Self {
        Self { weather, random, on_their_way: BTreeMap::new(), count: 0 }
    }

    /// A datagram sets out for `to`.
    pub(super) fn send(&mut self, now: Instant, to: usize, datagram: &[u8]) {
        let weather = self.weather;
        if self.random.is(weather.loss) {
            return;
        }
        let copies = if self.random.is(weather.doubling) { 2 } else { 1 };
        for _ in 0..copies {
            let mut bytes = datagram.to_vec();
            if self.random.is(weather.damage) {
                self.damage(&mut bytes);
            }
            let delay =
                if self.random.is(weather.overtaking) { self.random.below(3000) } else { 0 };
            let at = now + Duration::from_micros(weather.distance_ms * 1000 + 100 + delay);
            self.count += 1;
            self.on_their_way.insert((at, self.count), (to, bytes));
        }
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        match self.random.below(4) {
            0 => bytes.truncate(self.random.index(bytes.len())),
            1 => {
                let noise = self.random.next().to_le_bytes();
                bytes.extend_from_slice(&noise[..1 + self.random.index(7)]);
            }
            _ => {
                let at = self.random.index(bytes.len());
                bytes[at] ^= 1 << self.random.below(8);
            }
        }
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.on_their_way.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next datagram that has arrived, and where.
    pub(super) fn poll(&mut self, now: Instant) -> Option<(usize, Vec<u8>)> {
        let first = self.on_their_way.first_entry().filter(|it| it.key().0 <= now)?;
        Some(first.remove())
    }
}
