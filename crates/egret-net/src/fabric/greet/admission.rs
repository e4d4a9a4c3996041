//! Whose handshake gives way when too many are under way.
//!
//! Whoever comes is a stranger until it has proven the secret. Handshakes are bounded in
//! number, altogether and of one source, so that strangers cost a bounded amount; and so
//! that they keep nobody out, the oldest that has proven nothing gives way to the next:
//! of the same source if that has its share already, else the oldest of all. Each has a
//! moment first: callers that come all at once would otherwise push each other out, and
//! nobody would ever get in.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::rt::Instant;

/// Where somebody comes from: an IPv4 address, or of an IPv6 address its first 64 bits,
/// below which every host has all addresses it likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source(IpAddr);

/// A handshake that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnderWay<K> {
    pub key: K,
    pub source: Source,
    /// Since when; `None` if it has proven what there was to prove.
    pub unproven: Option<Instant>,
}

/// How many handshakes may be under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub all: usize,
    pub of_one: usize,
}

/// Whether one more may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission<K> {
    Free,
    /// If this one gives way.
    Instead(K),
    /// Not now: who comes is to ask again.
    Later,
}

/// What the log is told of one that gave way.
pub(crate) const DISPLACED: &str = "it had not greeted when others came";
/// How long a handshake has before it may have to give way: longer than its steps take on
/// any network, and shorter than anybody minds to ask again.
pub(crate) const MOMENT: Duration = Duration::from_millis(100);

impl Source {
    pub(crate) const fn of(at: IpAddr) -> Self {
        match at.to_canonical() {
            IpAddr::V4(at) => Self(IpAddr::V4(at)),
            IpAddr::V6(at) => {
                let network = at.to_bits() & !(u64::MAX as u128);
                Self(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
        }
    }
}

impl Room {
    /// Whether one more of `source` may begin, beside those that are under way.
    pub(crate) fn admit<K: Copy>(
        self,
        source: Source,
        now: Instant,
        under_way: impl Iterator<Item = UnderWay<K>>,
    ) -> Admission<K> {
        let (mut all, mut of_one) = (Count::new(), Count::new());
        for handshake in under_way {
            all.add(&handshake);
            if handshake.source == source {
                of_one.add(&handshake);
            }
        }
        let full = if of_one.number >= self.of_one {
            of_one
        } else if all.number >= self.all {
            all
        } else {
            return Admission::Free;
        };
        match full.oldest {
            Some((since, key)) if now - since >= MOMENT => Admission::Instead(key),
            _ => Admission::Later,
        }
    }
}

/// Some handshakes: how many, and the oldest that has proven nothing.
struct Count<K> {
    number: usize,
    oldest: Option<(Instant, K)>,
}

impl<K: Copy> Count<K> {
    const fn new() -> Self {
        Self { number: 0, oldest: None }
    }

    fn add(&mut self, handshake: &UnderWay<K>) {
        self.number += 1;
        if let Some(since) = handshake.unproven
            && self.oldest.is_none_or(|(oldest, _)| since < oldest)
        {
            self.oldest = Some((since, handshake.key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::of(text.parse().unwrap())
    }

    #[test]
    fn a_source_is_an_address_or_a_network_of_64_bits() {
        assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
        assert_ne!(source("2001:db8::1"), source("2001:db9::1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        // An IPv4 address is one, also where a socket for both kinds writes it as IPv6.
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_ne!(source("::ffff:192.0.2.1"), source("::ffff:192.0.2.2"));
    }

    const ROOM: Room = Room { all: 6, of_one: 3 };

    /// Handshakes of these sources, begun one nanosecond after the other; `+` has proven.
    fn ask(under_way: &[&str], newcomer: &str, age: Duration) -> Admission<usize> {
        let start = Instant::from_nanos(7);
        let one = |(key, text): (usize, &&str)| {
            let since = start + Duration::from_nanos(key as u64);
            let unproven = (!text.starts_with('+')).then_some(since);
            UnderWay { key, source: source(text.trim_start_matches('+')), unproven }
        };
        let now = start + Duration::from_nanos(under_way.len() as u64) + age;
        ROOM.admit(source(newcomer), now, under_way.iter().enumerate().map(one))
    }

    #[test]
    fn the_oldest_of_a_source_that_has_its_share_gives_way_to_its_next() {
        let full = ["::a", "10.0.0.1", "10.0.0.1", "10.0.0.1"];
        assert_eq!(ask(&full, "10.0.0.1", MOMENT), Admission::Instead(1));
        assert_eq!(ask(&full, "10.0.0.2", MOMENT), Admission::Free);
        assert_eq!(ask(&full, "10.0.0.1", MOMENT / 2), Admission::Later);
        let proven = ["+10.0.0.1", "10.0.0.1", "10.0.0.1"];
        assert_eq!(ask(&proven, "10.0.0.1", MOMENT), Admission::Instead(1));
        assert_eq!(ask(&["+10.0.0.1"; 3], "10.0.0.1", MOMENT), Admission::Later);
        let network = ["2001:db8::1", "2001:db8::2", "2001:db8::3"];
        assert_eq!(ask(&network, "2001:db8::4", MOMENT), Admission::Instead(0));
        assert_eq!(ask(&network, "2001:db8:0:1::4", MOMENT), Admission::Free);
    }

    #[test]
    fn the_oldest_of_all_gives_way_if_many_sources_take_all_places() {
        let full = ["+10.0.0.9", "10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
        assert_eq!(ask(&full, "10.0.0.5", MOMENT), Admission::Instead(1));
        assert_eq!(ask(&full, "10.0.0.2", MOMENT), Admission::Instead(1));
        assert_eq!(ask(&full, "10.0.0.5", Duration::ZERO), Admission::Later);
        assert_eq!(ask(&full[1..], "10.0.0.5", Duration::ZERO), Admission::Free);
    }
}
