//! Whom it is told that a link ended; and what an endpoint says of its mappings.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::Deadline;
use egret_net::vi::Reliability;

use super::hostile::run;
use super::ledger::Ledger;
use super::world::{Node, step};
use crate::am::{EndedLink, Endpoint, HandlerType, Message, MessageError, RemoteEndpoint};
use crate::link::LinkError;
use crate::links::LinksOptions;

pub(super) type Told = Arc<Mutex<Vec<EndedLink>>>;

pub(super) fn listen(endpoint: &Endpoint) -> Told {
    let told = Told::default();
    let tell = Arc::clone(&told);
    endpoint.on_end(move |ended| tell.lock().unwrap().push(ended));
    told
}

pub(super) fn worlds() -> impl Iterator<Item = (Sim, LinksOptions)> {
    [Reliability::Reception, Reliability::Delivery].into_iter().map(|level| {
        let sim = Sim::new(1);
        if level == Reliability::Delivery {
            sim.links().loss(0.05).duplicate(0.05).reorder(0.05);
        }
        (sim, LinksOptions::default().reliability(level))
    })
}

pub(super) fn nodes(sim: &Sim, options: &LinksOptions, hosts: &[&str]) -> Vec<Node> {
    hosts.iter().map(|host| Node::new(sim, host, options, &Ledger::default())).collect()
}

pub(super) fn map(
    nodes: &[Node],
    [from, mine]: [usize; 2],
    [to, theirs]: [usize; 2],
) -> RemoteEndpoint {
    let (here, there) = (&nodes[from].endpoints[mine], &nodes[to].endpoints[theirs]);
    run(nodes, here.endpoint.map(&there.name, &[], Deadline::DEFAULT)).unwrap()
}

pub(super) fn go_on(sim: &Sim, nodes: &[Node], time: Duration) {
    let end = sim.elapsed() + time;
    while sim.elapsed() < end {
        step(nodes.iter());
    }
}

const LONG: Duration = Duration::from_secs(30);

#[test]
pub(super) fn the_end_of_a_mapping_is_reported_once() {
    for (sim, options) in worlds() {
        let mut all = nodes(&sim, &options, &["a", "b", "c"]);
        let ends = [0, 1].map(|at| listen(&all[0].endpoints[at].endpoint));
        let (one, two) = (map(&all, [0, 0], [1, 0]), map(&all, [0, 0], [1, 1]));
        drop(map(&all, [0, 1], [1, 0]));
        let from = map(&all, [2, 0], [0, 1]);
        let theirs = listen(&all[2].endpoints[0].endpoint);
        assert!(one.try_send((0, &[])).is_ok());
        go_on(&sim, &all, Duration::from_secs(1));
        sim.crash("b");
        go_on(&sim, &all, LONG);
        let [first, second] = ends.each_ref().map(|told| told.lock().unwrap().clone());
        assert_eq!((first.len(), second.len()), (1, 1), "{first:?} {second:?}");
        assert_eq!((&*first[0].host, first[0].peer), ("b", second[0].peer));
        assert_eq!(first[0].incarnation, second[0].incarnation);
        drop((one, two));
        let peer = all[0].links.core.state.with(|state| state.links.to_host("c").unwrap());
        drop(from);
        all.pop().unwrap().links.close();
        go_on(&sim, &all, LONG);
        let [first, second] = ends.each_ref().map(|told| told.lock().unwrap().clone());
        assert_eq!((first.len(), second.len()), (1, 2), "{first:?} {second:?}");
        assert_eq!((&*second[1].host, second[1].peer.link), ("c", peer));
        assert!(second[1].peer != second[0].peer);
        let theirs = theirs.lock().unwrap();
        assert!(matches!(&theirs[..], [EndedLink { why: LinkError::Closed, .. }]), "{theirs:?}");
    }
}

#[test]
fn a_closed_endpoint_is_told_nothing_and_all_handlers_are_dropped() {
    for (sim, options) in worlds() {
        let mut all = nodes(&sim, &options, &["a", "b"]);
        let [gone, stays] = [0, 1].map(|at| listen(&all[0].endpoints[at].endpoint));
        let remotes = [map(&all, [0, 0], [1, 0]), map(&all, [0, 1], [1, 0])];
        all[0].endpoints.remove(0);
        assert_eq!(Arc::strong_count(&gone), 1, "its handlers are gone");
        all[0].links.close();
        assert_eq!(Arc::strong_count(&stays), 1, "its handlers are gone");
        go_on(&sim, &all, LONG);
        assert!(gone.lock().unwrap().is_empty());
        let told = stays.lock().unwrap();
        assert!(matches!(&told[..], [EndedLink { why: LinkError::Closed, .. }]), "{told:?}");
        drop(remotes);
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("of a test");
    }
}

#[test]
fn handlers_that_panic_when_they_are_dropped_hold_nothing_up() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b"]);
        let seen = Arc::new(Mutex::new(0));
        // Both in one bundle.
        let [first, second] = [0, 0].map(|at| all[0].bundles[at].endpoint(0));
        for endpoint in [&first, &second] {
            let (bomb, held) = (Bomb, Arc::clone(&seen));
            endpoint.on(0, move |_| _ = (&bomb, &held));
        }
        let served = Arc::clone(&seen);
        let replaced = all[0].bundles[0].register("bomb", 0).unwrap();
        let (bomb, slot) = (Bomb, Arc::new(Mutex::new(None::<Endpoint>)));
        let inner = Arc::clone(&slot);
        replaced.on(0, move |_| {
            let _owned = &bomb;
            *served.lock().unwrap() += 1;
            // It drops this very handler, once it has run.
            drop(inner.lock().unwrap().take());
        });
        *slot.lock().unwrap() = Some(replaced);
        let name = crate::am::EndpointName::new("a", "bomb", 0);
        let mine = &all[1].endpoints[0].endpoint;
        let remote = run(&all, mine.map(&name, &[], Deadline::DEFAULT)).unwrap();
        remote.try_send(0).unwrap();
        go_on(&sim, &all, Duration::from_secs(1));
        assert_eq!(*seen.lock().unwrap(), 1);
        let other = map(&all, [1, 0], [0, 0]);
        assert!(run(&all, other.try_request((200, &[])).unwrap()).is_err(), "it is answered");
        all[0].links.close();
        assert_eq!(Arc::strong_count(&seen), 1, "all handlers are dropped");
        drop((first, second, remote, other));
    }
}

#[test]
fn what_a_handler_throws_holds_nothing_up_when_it_is_dropped() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b"]);
        all[0].endpoints[0].endpoint.on(0, |_| std::panic::panic_any(Bomb));
        let remote = map(&all, [1, 0], [0, 0]);
        let why = run(&all, remote.try_request(0).unwrap()).unwrap_err();
        assert_eq!(why, MessageError::Panicked);
        assert!(!crate::in_handler::in_handler(), "no handler runs");
        let why = run(&all, remote.try_request((200, &[])).unwrap()).unwrap_err();
        assert!(matches!(why, MessageError::NoHandler { .. }), "the bundle is served: {why}");
    }
}

#[test]
fn the_end_of_a_peer_is_reported_after_its_messages() {
    for (sim, options) in worlds() {
        let mut all = nodes(&sim, &options, &["a", "b"]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (served, told) = (Arc::clone(&seen), Arc::clone(&seen));
        let endpoint = &all[0].endpoints[0].endpoint;
        endpoint.on(0, move |request| served.lock().unwrap().push((request.peer(), false)));
        endpoint.on_end(move |ended| told.lock().unwrap().push((ended.peer, true)));
        let remote = map(&all, [1, 0], [0, 0]);
        (0..5).for_each(|_| remote.try_send(0).unwrap());
        go_on(&sim, &all[1..], Duration::from_secs(1));
        drop(remote);
        drop(all.remove(1));
        go_on(&sim, &all, LONG);
        let seen = seen.lock().unwrap();
        assert!(seen.len() > 1, "nothing came");
        let (peers, ends): (Vec<_>, Vec<_>) = seen.iter().copied().unzip();
        assert_eq!(ends.iter().position(|is_end| *is_end), Some(seen.len() - 1), "{seen:?}");
        assert!(peers.iter().all(|peer| *peer == peers[0]), "{seen:?}");
    }
}

#[test]
pub(super) fn an_endpoint_has_the_window_that_it_was_given() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options.window(7), &["a", "b"]);
        let before = map(&all, [0, 0], [1, 0]);
        all[1].endpoints[0].endpoint.set_window(3);
        let (after, other) = (map(&all, [0, 0], [1, 0]), map(&all, [0, 0], [1, 1]));
        assert_eq!([&before, &after, &other].map(RemoteEndpoint::window), [7, 3, 7]);
        let mut calls: Vec<_> = (0..3).map(|_| after.try_request(0).unwrap()).collect();
        let full = after.try_request(0).unwrap_err();
        assert_eq!(full.why, MessageError::Full { window: 3 });
        drop(run(&all, calls.remove(0)));
        assert!(after.try_request(0).is_ok());
    }
}

#[test]
fn a_request_has_the_same_number_on_both_sides() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b"]);
        let numbers = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&numbers);
        all[1].endpoints[0].endpoint.on(0, move |request| {
            let number = request.number();
            let slot = request.later();
            assert_eq!(number, slot.number());
            seen.lock().unwrap().push((number, slot));
        });
        let remote = map(&all, [0, 0], [1, 0]);
        let calls: Vec<_> = (0..4).map(|_| remote.try_request(0).unwrap()).collect();
        let large = remote.try_request(Message::to(0).data(vec![0_u8; 5000])).unwrap();
        remote.try_send(0).unwrap();
        go_on(&sim, &all, Duration::from_secs(2));
        let mut seen: Vec<_> = numbers.lock().unwrap().iter().map(|(number, _)| *number).collect();
        seen.sort_unstable();
        let mut mine: Vec<_> = calls.iter().chain([&large]).map(|call| call.number()).collect();
        mine.sort_unstable();
        assert_eq!(seen, [None].into_iter().chain(mine.into_iter().map(Some)).collect::<Vec<_>>());
        numbers.lock().unwrap().clear();
    }
}

#[test]
fn handlers_are_found_by_name_and_fingerprints() {
    for (sim, options) in worlds() {
        let all = nodes(&sim, &options, &["a", "b"]);
        let (mine, there) = (&all[0].endpoints[0].endpoint, &all[1].endpoints[0]);
        let name = |at: u64| format!("a method whose name is long, {at:10}");
        let needed = |at: u64| HandlerType::new(&name(at), (at, "Row"), (at + 1, "f64"));
        // Those of the node itself are taken.
        let count = 255 - 8;
        let numbers: Vec<u8> =
            (0..count).map(|at| there.endpoint.on_typed(&needed(at), |it| it.reply(&[]))).collect();
        let again = there.endpoint.on_typed(&needed(3), move |it| it.reply(&[3]));
        assert_eq!(again, numbers[3], "a name has one handler");
        let needs: Vec<_> = (0..count).map(needed).collect();
        let remote = run(&all, mine.map(&there.name, &needs, Deadline::DEFAULT)).unwrap();
        for (at, number) in (0..count).zip(numbers) {
            assert_eq!(remote.handler(&name(at)), Some(number));
        }
        assert_eq!(remote.handler("other"), None);
        let other = [HandlerType::new(&name(5), (5, "Column"), (7, &"long".repeat(5000)))];
        let refused = run(&all, mine.map(&there.name, &other, Deadline::DEFAULT)).unwrap_err();
        let MessageError::OtherTypes { handler, ours, theirs } = refused else {
            panic!("{refused}")
        };
        assert_eq!((handler, ours.starts_with("Column (")), (name(5), true));
        assert_eq!(theirs, "Row (0000000000000005) -> f64 (0000000000000006)");
        let long: Vec<_> = (0..500).map(needed).collect();
        let refused = run(&all, mine.map(&there.name, &long, Deadline::DEFAULT)).unwrap_err();
        assert!(matches!(refused, MessageError::MapTooLong { .. }), "{refused}");
        let again = run(&all, mine.map(&there.name, &[], Deadline::DEFAULT)).unwrap();
        drop((remote, again));
        go_on(&sim, &all, Duration::from_secs(2));
        assert!(all.iter().all(|node| node.links.account().is_settled()), "all is given back");
    }
}
