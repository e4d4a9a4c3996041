//! What a simulated network does to frames: rules of a line or two.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::rng::Rng;
use super::wire::SimNodeId;
use crate::rt::Instant;

/// How one direction of a link behaves. Chances are between 0 and 1.
/// [`Rule`](super::Rule) has an example.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LinkRules {
    /// From leaving to arriving.
    pub latency: Duration,
    /// Bytes per second; frames queue behind one another.
    pub bandwidth: u64,
    /// The chance that a frame is lost.
    pub loss: f64,
    /// The chance that a frame arrives twice.
    pub duplicate: f64,
    /// The chance that a frame is held back, by up to ten latencies, so that
    /// later ones overtake it.
    pub reorder: f64,
    /// The chance that a frame is damaged. Reliable connections have a
    /// checksum and drop it; an unreliable message arrives with a wrong bit.
    pub corrupt: f64,
}

impl Default for LinkRules {
    /// A good local network: 10 µs, 1.25 GB/s, no faults.
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(10),
            bandwidth: 1_250_000_000,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
        }
    }
}

/// What becomes of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameFate {
    pub arrives: Instant,
    /// When its double arrives, if it has one.
    pub again: Option<Instant>,
    pub damaged: bool,
}

/// The links of a world, and which of them are cut.
#[derive(Debug, Default)]
pub(super) struct NetworkRules {
    default: LinkRules,
    links: BTreeMap<(SimNodeId, SimNodeId), LinkRules>,
    /// When a link's last frame will have left.
    busy: BTreeMap<(SimNodeId, SimNodeId), Instant>,
    cuts: BTreeSet<(SimNodeId, SimNodeId)>,
    /// The numbers of sites, by their names.
    sites: BTreeMap<String, u32>,
    /// The site of each node that is in one.
    places: BTreeMap<SimNodeId, u32>,
    /// The rules between two sites, the lower number first.
    between: BTreeMap<(u32, u32), LinkRules>,
}

impl NetworkRules {
    pub(super) fn set_default(&mut self, change: impl Fn(&mut LinkRules)) {
        change(&mut self.default);
        self.links.values_mut().chain(self.between.values_mut()).for_each(change);
    }

    pub(super) fn set(&mut self, from: SimNodeId, to: SimNodeId, change: impl Fn(&mut LinkRules)) {
        let default = self.default;
        change(self.links.entry((from, to)).or_insert(default));
    }

    pub(super) fn put_into_site(&mut self, node: SimNodeId, site: &str) {
        let site = self.site(site);
        self.places.insert(node, site);
    }

    fn site(&mut self, name: &str) -> u32 {
        if let Some(site) = self.sites.get(name) {
            return *site;
        }
        let site = u32::try_from(self.sites.len()).expect("fewer sites than nodes");
        self.sites.insert(name.to_owned(), site);
        site
    }

    pub(super) fn set_between(&mut self, one: &str, other: &str, change: impl Fn(&mut LinkRules)) {
        let (one, other, default) = (self.site(one), self.site(other), self.default);
        change(self.between.entry((one.min(other), one.max(other))).or_insert(default));
    }

    /// The rules of a link: its own, those between the sites of its ends, or those of all.
    fn of(&self, from: SimNodeId, to: SimNodeId) -> LinkRules {
        let between = || {
            let (one, other) = (self.places.get(&from)?, self.places.get(&to)?);
            self.between.get(&(*one.min(other), *one.max(other)))
        };
        let own = self.links.get(&(from, to));
        *own.or_else(between).unwrap_or(&self.default)
    }

    pub(super) fn cut(&mut self, from: SimNodeId, to: SimNodeId) {
        self.cuts.insert((from, to));
    }

    pub(super) fn reconnect(&mut self, one: SimNodeId, other: SimNodeId) {
        self.cuts.remove(&(one, other));
        self.cuts.remove(&(other, one));
    }

    pub(super) fn heal(&mut self) {
        self.cuts.clear();
    }

    /// Decides what becomes of a frame that leaves now. `None`: it is lost.
    pub(super) fn fate(
        &mut self,
        (from, to): (SimNodeId, SimNodeId),
        bytes: u64,
        now: Instant,
        rng: &mut Rng,
    ) -> Option<FrameFate> {
        let link = self.of(from, to);
        let busy = self.busy.entry((from, to)).or_default();
        let left = (*busy).max(now) + sending_time(bytes, link.bandwidth);
        *busy = left;
        if self.cuts.contains(&(from, to)) || rng.chance(link.loss) {
            return None;
        }
        let held = |rng: &mut Rng| {
            if rng.chance(link.reorder) {
                link.latency.mul_f64(rng.fraction() * 10.0)
            } else {
                Duration::ZERO
            }
        };
        let arrives = left + link.latency + held(rng);
        let again =
            rng.chance(link.duplicate).then(|| arrives + link.latency.mul_f64(rng.fraction()));
        Some(FrameFate { arrives, again, damaged: rng.chance(link.corrupt) })
    }
}

fn sending_time(bytes: u64, bandwidth: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / bandwidth.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_queue_behind_one_another() {
        let mut rules = NetworkRules::default();
        let mut rng = Rng::new(1);
        let start = Instant::from_nanos(0);
        let first = rules.fate((0, 1), 1_250_000, start, &mut rng).unwrap();
        let second = rules.fate((0, 1), 0, start, &mut rng).unwrap();
        assert_eq!(first.arrives - start, Duration::from_micros(1_010));
        assert_eq!(second.arrives, first.arrives, "in order");
        assert_eq!(rules.fate((1, 0), 0, start, &mut rng).unwrap().arrives.as_nanos(), 10_000);
    }

    #[test]
    fn chances_are_kept_and_cuts_are_one_way() {
        let mut rules = NetworkRules::default();
        rules.set(0, 1, |link| link.loss = 0.3);
        let mut rng = Rng::new(7);
        let lost = (0..10_000)
            .filter(|_| rules.fate((0, 1), 0, Instant::from_nanos(0), &mut rng).is_none())
            .count();
        assert!((2_800..3_200).contains(&lost), "{lost} of 10,000 lost");
        rules.cut(1, 0);
        assert_eq!(rules.fate((1, 0), 0, Instant::from_nanos(0), &mut rng), None);
        rules.heal();
        assert!(rules.fate((1, 0), 0, Instant::from_nanos(0), &mut rng).is_some());
    }
}
