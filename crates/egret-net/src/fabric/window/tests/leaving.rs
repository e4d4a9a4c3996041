//! The end of a connection, where what is said last may be lost.

use std::time::Duration;

use crate::fabric::sim::Sim;
use crate::rt::Deadline;
use crate::vi::{Address, Lane, Nic, Reliability, Vi, ViError, ViOptions};

/// Both ends of a connection between two nodes whose links lose.
fn pair(sim: &Sim) -> ([Nic; 2], [Vi; 2]) {
    sim.links().loss(0.3);
    let [a, b] = ["a", "b"].map(|host| sim.windowed_nic(host));
    let options = ViOptions::of(Reliability::Delivery);
    let listener = b.listen("test", 0, &options).unwrap();
    let to = Address::new("b", "test", 0);
    let connecting = a.connect(&to, &options, Deadline::DEFAULT);
    let there = listener.wait_accept(Deadline::DEFAULT).unwrap();
    let here = a.block_on(connecting).unwrap();
    ([a, b], [here, there])
}

#[test]
pub(super) fn what_was_sent_before_the_end_arrives_before_it() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let ([a, b], [here, there]) = pair(&sim);
        for tag in 0..10 {
            here.send_eager(Lane::Talk, tag, &[&[7; 300]]).unwrap();
        }
        // Nobody has a handle to it any more, and the nic goes on.
        drop(here);
        let mut tags = Vec::new();
        let end = sim.elapsed() + Duration::from_secs(30);
        while there.error().is_none() && sim.elapsed() < end {
            for nic in [&a, &b] {
                let seen = nic.poll();
                nic.wait(seen, Some(nic.now() + Duration::from_millis(1)));
            }
            there.drain().poll(100, |_, tag, _| tags.push(tag));
        }
        there.drain().poll(100, |_, tag, _| tags.push(tag));
        assert_eq!(tags, (0..10).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(there.error(), Some(ViError::ClosedByPeer), "seed {seed}");
    }
}
