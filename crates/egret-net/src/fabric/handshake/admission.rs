//! Which handshake gives way when too many are under way.
//!
//! Every caller is a stranger until it has proven the secret. Handshakes are bounded in number, altogether and
//! of one source, so that strangers cost a bounded amount; and so that strangers keep no peer out, the oldest
//! handshake that has proven nothing gives way to the next: of the same source if that has its share already,
//! else the oldest of all. Each handshake has a moment first: callers that arrive all at once would otherwise
//! push each other out, and none would ever finish. A caller sends at once, so the moment of a silent one is
//! short, and silent ones give way before those that have shown a sign.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::fault;
use crate::rt::Instant;

/// Where a caller comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerSource {
    /// An IPv4 address, or of an IPv6 address its first 64 bits, below which every host has all
    /// addresses it likes.
    Network(IpAddr),
    /// A process of this machine, by its number. The kernel gives the number away again when the
    /// process has ended and was waited for. Handshakes that the old process has left and those of
    /// the new one are of one source then, and the new one waits [`MOMENT`] at most until one of
    /// the old gives way. Nothing else depends on the number: it gives no right, and is
    /// forgotten with the handshake.
    Process(i32),
}

/// A handshake that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingHandshake<K> {
    pub key: K,
    pub source: CallerSource,
    pub stage: HandshakeStage,
}

/// How far a handshake is, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeStage {
    /// Nothing has arrived that is worth an answer.
    Silent(Instant),
    /// Its opening was answered.
    Opened(Instant),
    /// The caller has proven its secret and key.
    Proven,
}

/// How many handshakes may be under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandshakeLimits {
    pub all: usize,
    pub of_one: usize,
}

/// Whether one more may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission<K> {
    Free,
    /// One more may begin if this one gives way.
    Instead(K),
    /// Not now: the caller is to try again.
    Later,
}

/// What the log says of a handshake that gave way.
pub(crate) const DISPLACED: &str = "its handshake had proven nothing when others needed its place";
/// How long a handshake that was opened has before it may have to give way: longer than its steps
/// take on any network, and short enough that a caller can repeat its request.
pub(crate) const MOMENT: Duration = Duration::from_millis(100);
/// The same of a handshake without an opening, which arrives right behind its connection. The
/// places of one source are free again soon enough for 20,000 strangers a second.
pub(crate) const SILENT: Duration = Duration::from_millis(5);

impl CallerSource {
    pub(crate) const fn of(at: IpAddr) -> Self {
        match at.to_canonical() {
            IpAddr::V4(at) => Self::Network(IpAddr::V4(at)),
            IpAddr::V6(at) => {
                let network = at.to_bits() & !(u64::MAX as u128);
                Self::Network(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
        }
    }
}

impl HandshakeLimits {
    /// Whether one more of `source` may begin, beside those that are under way.
    pub(crate) fn admit<K: Copy>(
        self,
        source: CallerSource,
        now: Instant,
        under_way: impl Iterator<Item = PendingHandshake<K>>,
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
        let silent = fault::patience_with_the_silent(SILENT, MOMENT);
        let gives_way = |oldest: Option<(Instant, K)>, moment| {
            oldest.filter(|(since, _)| now - *since >= moment).map(|(_, key)| key)
        };
        let key = gives_way(full.silent, silent).or_else(|| gives_way(full.opened, MOMENT));
        key.map_or(Admission::Later, Admission::Instead)
    }
}

/// Some handshakes: how many, and the oldest of each stage that has proven nothing.
struct Count<K> {
    number: usize,
    silent: Option<(Instant, K)>,
    opened: Option<(Instant, K)>,
}

impl<K: Copy> Count<K> {
    const fn new() -> Self {
        Self { number: 0, silent: None, opened: None }
    }

    fn add(&mut self, handshake: &PendingHandshake<K>) {
        self.number += 1;
        let (since, oldest) = match handshake.stage {
            HandshakeStage::Silent(since) => (since, &mut self.silent),
            HandshakeStage::Opened(since) => (since, &mut self.opened),
            HandshakeStage::Proven => return,
        };
        if oldest.is_none_or(|(oldest, _)| since < oldest) {
            *oldest = Some((since, handshake.key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::{Fault, caught};
    use super::*;

    fn source(text: &str) -> CallerSource {
        CallerSource::of(text.parse().unwrap())
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

    const ROOM: HandshakeLimits = HandshakeLimits { all: 6, of_one: 3 };

    /// Handshakes of these sources, begun one nanosecond after the other; `+` has proven, `-` has
    /// said nothing.
    fn ask(under_way: &[&str], newcomer: &str, age: Duration) -> Admission<usize> {
        let start = Instant::from_nanos(7);
        let one = |(key, text): (usize, &&str)| {
            let since = start + Duration::from_nanos(key as u64);
            let stage = match text.as_bytes()[0] {
                b'+' => HandshakeStage::Proven,
                b'-' => HandshakeStage::Silent(since),
                _ => HandshakeStage::Opened(since),
            };
            PendingHandshake { key, source: source(text.trim_start_matches(['+', '-'])), stage }
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

    /// A silent caller gives way soon, and before a caller that has sent its opening.
    fn the_silent_give_way_soon() {
        let full = ["10.0.0.1", "-10.0.0.1", "-10.0.0.1"];
        assert_eq!(ask(&full, "10.0.0.1", SILENT), Admission::Instead(1));
        assert_eq!(ask(&full, "10.0.0.1", MOMENT), Admission::Instead(1));
        assert_eq!(ask(&full, "10.0.0.1", SILENT / 2), Admission::Later);
        assert_eq!(ask(&["10.0.0.1"; 3], "10.0.0.1", SILENT), Admission::Later);
    }

    #[test]
    fn the_silent_give_way_soon_and_before_who_has_opened() {
        the_silent_give_way_soon();
        assert!(caught(Fault::SilentSpared, the_silent_give_way_soon));
    }

    #[test]
    fn a_process_is_a_source_of_its_own() {
        let own = |key| PendingHandshake {
            key,
            source: CallerSource::Process(7),
            stage: HandshakeStage::Proven,
        };
        let ask = |pid| {
            ROOM.admit(
                CallerSource::Process(pid),
                Instant::from_nanos(9),
                [0, 1, 2].map(own).into_iter(),
            )
        };
        assert_eq!([ask(7), ask(8)], [Admission::Later, Admission::Free]);
    }
}
