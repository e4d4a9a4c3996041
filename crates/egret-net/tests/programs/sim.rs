//! The simulator itself: what its worlds promise whatever runs in them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use egret_net::buf::Pool;
use egret_net::fabric::sim::{Sim, check};
use egret_net::rt::{self, Deadline};
use egret_net::vi::{
    Address, ConnectError, Descriptor, Listener, Nic, Reliability, Vi, ViError, ViOptions,
};

/// Both ends of a connection between two nodes of one world.
fn connect(a: &Nic, b: &Nic, options: &ViOptions) -> (Vi, Vi) {
    let listener = b.listen("test", 0, options).unwrap();
    let to = Address::new(b.host(), "test", 0);
    let connecting = a.connect(&to, options, Deadline::DEFAULT);
    let there = listener.wait_accept(Deadline::DEFAULT).unwrap();
    (a.block_on(connecting).unwrap(), there)
}

fn message(pool: &Pool, number: u64) -> Descriptor {
    let mut buf = pool.take(8).unwrap();
    buf.bytes_mut().copy_from_slice(&number.to_le_bytes());
    Descriptor::new(buf).with_tag(number)
}

fn ping_pong(sim: &Sim, rounds: u64) {
    let (a, b) = (sim.nic("a"), sim.nic("b"));
    let (here, there) = connect(&a, &b, &ViOptions::default());
    let pool = Pool::new(64, 16).unwrap();
    for round in 0..rounds {
        there.post_recv(Descriptor::new(pool.take(8).unwrap())).unwrap();
        here.post_send(message(&pool, round)).unwrap();
        let got = there.recv_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap();
        assert_eq!(got.tag, round);
        assert_eq!(got.into_buf().bytes(), round.to_le_bytes());
        drop(here.send_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap());
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let digest = |seed| {
        let sim = Sim::new(seed);
        sim.links().loss(0.1).duplicate(0.1).reorder(0.2).corrupt(0.05);
        ping_pong(&sim, 50);
        (sim.digest(), sim.elapsed(), sim.events(), rt::random())
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn time_passes_as_the_links_say() {
    let sim = Sim::new(3);
    let (a, b) = (sim.nic("a"), sim.nic("b"));
    sim.link("a", "b").latency(Duration::from_millis(20)).bandwidth(1_000_000);
    let (here, there) = connect(&a, &b, &ViOptions::default());
    there.post_recv(Descriptor::new(vec![0_u8; 100_000])).unwrap();
    sim.run_until(Duration::from_secs(1));
    here.post_send(Descriptor::new(vec![7_u8; 100_000])).unwrap();
    let got = there.recv_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap();
    let took = sim.elapsed() - Duration::from_secs(1);
    assert_eq!(got.into_vec::<u8>(), vec![7; 100_000]);
    let (low, high) = (Duration::from_millis(119), Duration::from_millis(123));
    assert!(low < took && took < high, "100 kB at 1 MB/s after 20 ms took {took:?}");
}

#[test]
fn links_between_sites_have_their_rules_unless_they_have_their_own() {
    let sim = Sim::new(3);
    let nics = ["a", "b", "c"].map(|name| sim.nic(name));
    sim.put_into_site("a", "north");
    sim.put_into_site("b", "south");
    sim.put_into_site("c", "south");
    sim.sites("south", "north").latency(Duration::from_millis(40));
    sim.link("a", "c").latency(Duration::from_millis(2));
    let took = |from: &Nic, to: &Nic| {
        let (here, there) = connect(from, to, &ViOptions::default());
        there.post_recv(Descriptor::new(vec![0; 8])).unwrap();
        sim.run_until(sim.elapsed() + Duration::from_secs(1));
        let started = sim.elapsed();
        here.post_send(Descriptor::new(vec![0; 8])).unwrap();
        drop(there.recv_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap());
        (sim.elapsed() - started).as_millis()
    };
    let [a, b, c] = &nics;
    assert_eq!([took(a, b), took(b, a), took(a, c), took(b, c)], [40, 40, 2, 0]);
}

#[test]
fn a_side_is_reconnected_and_the_other_stays_cut() {
    let sim = Sim::new(4);
    let [a, b, c] = ["a", "b", "c"].map(|name| sim.nic(name));
    let to_a = |from: &Nic| {
        let listener = a.listen("test", 0, &ViOptions::default()).unwrap();
        let to = Address::new("a", "test", 0);
        let soon = Deadline::In(Duration::from_secs(1));
        let connecting = from.connect(&to, &ViOptions::default(), soon);
        let accepted = listener.wait_accept(soon).is_ok();
        (accepted, from.block_on(connecting).is_ok())
    };
    sim.partition(&["a"], &["b", "c"]);
    assert_eq!((to_a(&b), to_a(&c)), ((false, false), (false, false)));
    sim.reconnect(&["b"], &["a"]);
    assert_eq!((to_a(&b), to_a(&c)), ((true, true), (false, false)));
}

#[test]
fn an_unreliable_link_shows_its_faults_and_only_those() {
    let sim = Sim::new(4);
    let (a, b) = (sim.nic("a"), sim.nic("b"));
    let (here, there) = connect(&a, &b, &ViOptions::of(Reliability::Unreliable));
    sim.link("a", "b").loss(0.1).duplicate(0.1).corrupt(0.1).reorder(0.3);
    let (mut whole, mut damaged, mut late, mut highest) = (0, 0, 0, 0);
    for number in 0..1_000_u64 {
        while there.post_recv(Descriptor::new(vec![0_u8; 8])).is_ok() {}
        here.post_send(Descriptor::new(number.to_le_bytes().to_vec()).with_tag(number)).unwrap();
        drop(here.send_queue().wait(Deadline::NOW).unwrap());
        sim.run_until(sim.elapsed() + Duration::from_micros(if number < 999 { 5 } else { 500 }));
        while let Some(got) = there.recv_queue().poll() {
            let tag = got.tag;
            let intact = got.into_vec::<u8>() == tag.to_le_bytes();
            *(if intact { &mut whole } else { &mut damaged }) += 1;
            late += u64::from(tag < highest);
            highest = highest.max(tag);
        }
    }
    assert!((850..1_050).contains(&(whole + damaged)), "{whole} whole, {damaged} damaged");
    assert!((40..160).contains(&damaged), "{damaged} damaged");
    assert!(late > 10, "{late} overtaken");
}

#[test]
fn a_one_way_cut_is_found_and_a_healed_partition_is_forgotten() {
    let sim = Sim::new(5);
    let (a, b) = (sim.nic("a"), sim.nic("b"));
    let (here, there) = connect(&a, &b, &ViOptions::default());
    let pool = Pool::new(64, 4).unwrap();

    sim.partition(&["a"], &["b"]);
    let now = sim.elapsed();
    sim.at(now + Duration::from_secs(3), |sim| sim.heal());
    there.post_recv(Descriptor::new(pool.take(8).unwrap())).unwrap();
    here.post_send(message(&pool, 1)).unwrap();
    drop(there.recv_queue().wait(Deadline::UntilDead).unwrap().ok().unwrap());
    drop(here.send_queue().wait(Deadline::UntilDead).unwrap().ok().unwrap());

    sim.cut("b", "a");
    there.post_recv(Descriptor::new(pool.take(8).unwrap())).unwrap();
    there.post_recv(Descriptor::new(pool.take(8).unwrap())).unwrap();
    here.post_send(message(&pool, 2)).unwrap();
    let sent = here.send_queue().wait(Deadline::UntilDead).unwrap();
    assert!(matches!(sent.status, Err(ViError::PeerDied { .. })), "{:?}", sent.status);
    let received = there.recv_queue().wait(Deadline::UntilDead).unwrap();
    drop((sent, received));
    let failed = there.recv_queue().wait(Deadline::UntilDead).unwrap();
    assert!(matches!(failed.status, Err(ViError::PeerDied { .. })), "{:?}", failed.status);
    drop(failed);
    assert_eq!(pool.available(8), 4, "every buffer came back");
}

#[test]
fn delivery_is_done_before_the_message_is_placed_and_reception_after() {
    for (level, placed_first) in [(Reliability::Delivery, false), (Reliability::Reception, true)] {
        let sim = Sim::new(10);
        let (a, b) = (sim.nic("a"), sim.nic("b"));
        let (here, there) = connect(&a, &b, &ViOptions::of(level));
        sim.placement(Duration::from_millis(1));
        there.post_recv(Descriptor::fresh(8)).unwrap();
        here.post_send(Descriptor::new(vec![1_u8; 8])).unwrap();
        here.send_queue().wait(Deadline::DEFAULT).unwrap().done().unwrap();
        assert_eq!(there.recv_queue().poll().is_some(), placed_first, "{level}");
    }
}

/// What a node does over and over: connect, exchange, be told what happened.
fn exchange(a: &Nic, b: &Nic, pool: &Pool) -> Result<(), ViError> {
    let options = ViOptions::default();
    let Ok(listener) = b.listen("test", 0, &options) else { return Err(ViError::NicDown) };
    let Some((here, there)) = try_connect(a, b.host(), &listener) else {
        return Err(ViError::NicDown);
    };
    for number in 0..4 {
        let receive = Descriptor::new(pool.take(8).unwrap());
        there.post_recv(receive).map_err(|_| ViError::NicDown)?;
        here.post_send(message(pool, number)).map_err(|_| ViError::NicDown)?;
        drop(here.send_queue().wait(Deadline::UntilDead).unwrap().ok()?);
        let got = there.recv_queue().wait(Deadline::UntilDead).unwrap().ok()?;
        assert_eq!(got.tag, number);
    }
    Ok(())
}

fn try_connect(a: &Nic, host: &str, listener: &Listener) -> Option<(Vi, Vi)> {
    let deadline = Deadline::In(Duration::from_secs(1));
    let to = Address::new(host, "test", 0);
    let connecting = a.connect(&to, &ViOptions::default(), deadline);
    let there = listener.wait_accept(deadline).ok()?;
    Some((a.block_on(connecting).ok()?, there))
}

#[test]
fn a_crash_at_any_event_gives_everything_back() {
    let clean = Sim::new(6);
    let pool = Pool::new(64, 16).unwrap();
    exchange(&clean.nic("a"), &clean.nic("b"), &pool).unwrap();
    let events = clean.events();
    assert!(events > 10, "{events} events are too few to crash at");
    drop(clean);
    let mut failed = 0;
    for victim in ["a", "b"] {
        for event in 1..=events {
            let sim = Sim::new(6);
            let (a, b) = (sim.nic("a"), sim.nic("b"));
            sim.at_event(event, move |sim| {
                sim.crash(victim);
                sim.restart(victim);
            });
            failed += u64::from(exchange(&a, &b, &pool).is_err());
            assert_eq!(pool.available(8), 16, "{victim} at event {event}\n{}", sim.report());
            drop((a, b));
            exchange(&sim.nic("a"), &sim.nic("b"), &pool).unwrap();
        }
    }
    assert!(failed > events, "{failed} of {} exchanges noticed", 2 * events);
}

#[test]
fn waiting_for_what_cannot_come_is_reported_not_endured() {
    let waited = std::panic::catch_unwind(|| {
        let sim = Sim::new(7);
        let (a, b) = (sim.nic("a"), sim.nic("b"));
        let (here, _there) = connect(&a, &b, &ViOptions::default());
        here.post_recv(Descriptor::fresh(8)).unwrap();
        drop(here.recv_queue().wait(Deadline::UntilDead));
    });
    let said = *waited.unwrap_err().downcast::<String>().unwrap();
    assert!(said.contains("everybody waits"), "{said}");
    assert!(said.contains("seed 7"), "{said}");
}

#[test]
fn hosts_that_never_were_are_told_from_hosts_that_do_not_listen() {
    let sim = Sim::new(8);
    let (a, _b) = (sim.nic("a"), sim.nic("b"));
    let deadline = Deadline::In(Duration::from_millis(100));
    let options = ViOptions::default();
    let refused =
        |host| a.wait_connect(&Address::new(host, "s", 1), &options, deadline).unwrap_err();
    assert!(matches!(refused("b"), ConnectError::NotListening { .. }));
    assert_eq!(
        refused("c").to_string(),
        "host c was not reached within 100.0ms: no host answers there"
    );
    sim.cut("b", "a");
    assert_eq!(refused("b").to_string(), "b/s#1 was not accepted within 100.0ms");
}

/// Each sends to its neighbour, by handlers alone.
#[test]
fn a_thousand_nodes_and_a_million_messages() {
    const NODES: usize = 1_000;
    let per_node = 1_000;
    let sim = Sim::new(9);
    let nics: Vec<Nic> = (0..NODES).map(|i| sim.nic(&format!("n{i}"))).collect();
    let received = Arc::new(AtomicU64::new(0));
    let mut vis = Vec::new();
    for i in 0..NODES {
        let next = &nics[(i + 1) % NODES];
        let (here, there) = connect(&nics[i], next, &ViOptions::default());
        let (here, there) = (Arc::new(here), Arc::new(there));
        let (count, vi) = (Arc::clone(&received), Arc::downgrade(&there));
        there.recv_queue().notify(move |got| {
            let Ok(got) = got.ok() else { return };
            count.fetch_add(1, Ordering::Relaxed);
            let vi = vi.upgrade().expect("kept below");
            vi.post_recv(got.into_descriptor()).expect("its place is free");
        });
        let vi = Arc::downgrade(&here);
        here.send_queue().notify(move |sent| {
            let Ok(sent) = sent.ok() else { return };
            let next = sent.tag + 1;
            if next < per_node {
                let vi = vi.upgrade().expect("kept below");
                vi.post_send(sent.into_descriptor().with_tag(next)).expect("its place is free");
            }
        });
        there.post_recv(Descriptor::new(vec![0_u8; 64])).unwrap();
        vis.push((here, there));
    }
    for (here, _) in &vis {
        here.post_send(Descriptor::new(vec![1_u8; 64])).unwrap();
    }
    while received.load(Ordering::Relaxed) < NODES as u64 * per_node {
        rt::park(Some(rt::now() + Duration::from_secs(1)));
    }
    for (here, there) in &vis {
        assert_eq!(there.counters().received, per_node);
        assert!(here.error().is_none());
    }
}

#[test]
fn seeds_of_a_scenario_differ() {
    let first = AtomicU64::new(0);
    check(0..20, |sim| {
        sim.links().loss(0.2).reorder(0.2);
        ping_pong(sim, 5);
        let before = first.swap(sim.digest(), Ordering::Relaxed);
        assert_ne!(before, sim.digest());
    });
}
