//! The end of a connection, where what is said last may be lost.

use std::time::Duration;

use super::super::closing::{LINGER_MAX, LINGERING_MAX};
use super::super::connection::Connection;
use super::super::driver::Driver;
use super::super::lanes::{
    MessageSink, MessageStart, Window, WindowLane, WindowTerms, WindowTiming,
};
use super::super::send::Parcel;
use crate::fabric::ViSpec;
use crate::fabric::sim::{Fault, Sim};
use crate::rt::{Deadline, Instant};
use crate::vi::{
    Access, Address, Descriptor, Keys, Lane, Nic, Notices, Reliability, Vi, ViError, ViOptions,
};

/// Both ends of a connection between two nodes whose links lose.
pub(super) fn pair(sim: &Sim, loss: f64) -> ([Nic; 2], [Vi; 2]) {
    sim.links().loss(loss);
    let [a, b] = ["a", "b"].map(|host| sim.windowed_nic(host));
    let options = ViOptions::of(Reliability::Delivery);
    let listener = b.listen("test", 0, &options).unwrap();
    let to = Address::new("b", "test", 0);
    let connecting = a.connect(&to, &options, Deadline::DEFAULT);
    let there = listener.wait_accept(Deadline::DEFAULT).unwrap();
    let here = a.block_on(connecting).unwrap();
    ([a, b], [here, there])
}

/// Lets nics work until so much time has passed.
pub(super) fn go_on(sim: &Sim, nics: &[Nic], until: Duration) {
    while sim.elapsed() < until {
        for nic in nics {
            let seen = nic.poll();
            nic.wait(seen, Some(nic.now() + Duration::from_millis(1)));
        }
    }
}

#[test]
pub(super) fn what_was_sent_before_the_end_arrives_before_it() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let ([a, b], [here, there]) = pair(&sim, 0.3);
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

/// A program that sends, and ends without another look at its nic.
#[test]
pub(super) fn what_was_sent_before_the_nic_went_down_arrives() {
    let sim = Sim::new(1);
    let ([a, b], [here, there]) = pair(&sim, 0.0);
    // More than the network is trusted with at first, and no more than a window has.
    for tag in 0..40 {
        here.send_eager(Lane::Talk, tag, &[&[7; 300]]).unwrap();
    }
    drop((here, a));
    let mut tags = Vec::new();
    let until = sim.elapsed() + Duration::from_millis(500);
    go_on(&sim, std::slice::from_ref(&b), until);
    there.drain().poll(200, |_, tag, _| tags.push(tag));
    assert_eq!(tags, (0..40).collect::<Vec<_>>());
    assert!(there.error().is_some());
}

/// A message waits for a receive, and what stands behind it needs none.
#[test]
pub(super) fn what_stands_behind_a_cancelled_send_goes() {
    let sim = Sim::new(1);
    let ([a, b], [here, _there]) = pair(&sim, 0.0);
    let pool = crate::buf::Pool::new(64, 1).unwrap();
    let memory = b.expose(pool.take(64).unwrap(), Access::WRITE).unwrap();
    let ticket = here.post_send(Descriptor::new(vec![1_u8; 10])).unwrap();
    here.post_write(Descriptor::new(vec![2_u8; 10]), memory.key().at(0)).unwrap();
    assert!(here.cancel(ticket));
    let until = sim.elapsed() + Duration::from_millis(500);
    go_on(&sim, &[a, b], until);
    let back: Vec<_> = std::iter::from_fn(|| here.send_queue().poll()).collect();
    assert_eq!(back.len(), 2, "the write waits");
}

/// Connections that a nic has not forgotten.
fn kept(nic: &Nic) -> usize {
    nic.inside(|machine: &mut Driver, _| machine.kept())
}

#[test]
pub(super) fn ends_that_close_at_the_same_time_do_not_wait_for_each_other() {
    let sim = Sim::new(1);
    let (nics, ends) = pair(&sim, 0.0);
    drop(ends);
    assert_eq!(nics.each_ref().map(kept), [1, 1], "their goodbyes are on their way");
    let until = sim.elapsed() + Duration::from_millis(500);
    go_on(&sim, &nics, until);
    assert_eq!(nics.each_ref().map(kept), [0, 0]);
}

/// Has no place for anything.
#[derive(Debug)]
struct Nowhere;

impl MessageSink for Nowhere {
    fn begin(&mut self, _: WindowLane, _: MessageStart, _: &[u8]) -> Result<bool, Box<ViError>> {
        Ok(false)
    }

    fn place(&mut self, _: WindowLane, _: u64, _: &[u8]) -> Result<(), Box<ViError>> {
        unreachable!("nothing has begun")
    }

    fn end(&mut self, _: WindowLane) -> Result<(), Box<ViError>> {
        unreachable!("nothing has begun")
    }
}

#[test]
pub(super) fn a_peer_that_lives_and_takes_nothing_is_not_waited_for() {
    let terms =
        WindowTerms { messages: 64, bytes: 1 << 18, datagram: 1400, pace: WindowTiming::default() };
    let mut peer: Window<Parcel> = Window::new(terms);
    let spec = ViSpec::new(Reliability::Delivery, 1);
    let (mut link, mut notices) = (Connection::new(&spec), Notices::default());
    let (began, mut out) = (Instant::from_nanos(1_000_000), Vec::new());
    let mut now = began;
    assert!(link.end(now, &ViError::Closed, &mut notices));
    while !link.has_left(now) && link.is_silent(now).is_none() {
        assert!(now < began + LINGER_MAX + Duration::from_secs(1), "it is still there");
        while link.window().is_some_and(|window| window.poll_datagram(now, &mut out)) {
            peer.hear(now, &out, &mut Nowhere).unwrap();
        }
        while peer.poll_datagram(now, &mut out) {
            link.hear(now, &out, &Keys::default(), &mut notices).unwrap();
        }
        now = link.next_event().expect("it ends by itself").max(now + Duration::from_millis(1));
    }
}

#[test]
pub(super) fn a_nic_waits_for_a_bounded_number_of_peers() {
    let sim = Sim::new(1);
    let [a, b] = ["a", "b"].map(|host| sim.windowed_nic(host));
    let options = ViOptions::of(Reliability::Delivery);
    let listener = b.listen("test", 0, &options).unwrap();
    let to = Address::new("b", "test", 0);
    let connect = |_| {
        let connecting = a.connect(&to, &options, Deadline::DEFAULT);
        let there = listener.wait_accept(Deadline::DEFAULT).unwrap();
        (a.block_on(connecting).unwrap(), there)
    };
    let (here, _there): (Vec<Vi>, Vec<Vi>) = (0..LINGERING_MAX + 4).map(connect).unzip();
    sim.plant(Fault::NeverDies);
    sim.links().loss(1.0);
    drop(here);
    assert_eq!(kept(&a), LINGERING_MAX);
    let until = sim.elapsed() + LINGER_MAX + Duration::from_secs(1);
    go_on(&sim, std::slice::from_ref(&a), until);
    assert_eq!(kept(&a), 0);
}
