//! More connections than a look goes to each time.

use std::time::Duration;

use super::conformance::nic;
use crate::rt::{self, Deadline};
use crate::vi::{Address, Descriptor, Lane, Nic, Reliability, Vi, ViOptions, Wait};

const LONG: Deadline = Deadline::In(Duration::from_secs(10));
const CONNECTIONS: usize = 12;
/// Looks after which all that can be found was found.
const LOOKS: usize = 1000;

/// Two nics that only this thread drives, and their connections.
struct Crowd {
    here: Nic,
    there: Nic,
    pairs: Vec<(Vi, Vi)>,
}

impl Crowd {
    /// All are there, and quiet.
    fn new() -> Self {
        let unique = rt::random();
        let here = nic(&format!("one-{unique}"), Wait::Spin);
        let there = nic(&format!("other-{unique}"), Wait::Spin);
        let options =
            ViOptions { drain: Some(there.drain()), ..ViOptions::of(Reliability::Delivery) };
        let listener = there.listen("crowd", 0, &options).unwrap();
        let to = Address::new(there.host(), "crowd", 0);
        let connect = |_| {
            let connecting = here.connect(&to, &ViOptions::of(Reliability::Delivery), LONG);
            let accepted = listener.wait_accept(LONG).unwrap();
            (here.block_on(connecting).unwrap(), accepted)
        };
        let pairs = (0..CONNECTIONS).map(connect).collect();
        let crowd = Self { here, there, pairs };
        crowd.look();
        crowd
    }

    fn look(&self) {
        for _ in 0..LOOKS {
            self.here.poll();
            self.there.poll();
        }
    }
}

#[test]
fn what_begins_at_a_quiet_connection_is_seen_to() {
    begun_when_quiet();
}

/// A posted message that finds no receive waits at this side, and goes when there is one.
pub(super) fn begun_when_quiet() {
    let crowd = Crowd::new();
    for (tag, (sends, receives)) in (1_u64..).zip(&crowd.pairs) {
        sends.post_send(Descriptor::new(vec![7_u8; 600]).with_tag(tag)).unwrap();
        crowd.look();
        receives.post_recv(Descriptor::new(vec![0_u8; 600])).unwrap();
        crowd.look();
        let got = receives.recv_queue().poll().expect("it was sent").ok().unwrap();
        assert_eq!((got.tag, got.bytes()), (tag, &[7_u8; 600][..]));
    }
}

/// Often enough for each ring to begin again more than once, and each time behind looks that found
/// nothing.
#[test]
fn what_comes_to_a_quiet_connection_is_found_wherever_its_ring_is() {
    let crowd = Crowd::new();
    let drain = crowd.pairs[0].1.drain();
    let lines = crate::fabric::shm::layout::LANE_LINES;
    for round in 0..=2 * lines / 48 {
        for (number, (sends, _)) in crowd.pairs.iter().enumerate() {
            sends.send_eager(Lane::Talk, number as u64, &[&[1_u8; 3000]]).unwrap();
        }
        let mut came = Vec::new();
        for _ in 0..LOOKS {
            drain.poll(64, |_, tag, _| came.push(tag));
        }
        came.sort_unstable();
        let all: Vec<_> = (0..CONNECTIONS as u64).collect();
        assert_eq!(came, all, "round {round}");
        crowd.here.poll();
    }
}
