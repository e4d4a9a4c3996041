//! What is sent to a rank and received there when nothing goes wrong.

use egret::graph::{ANY, Graphs, GraphsOptions};
use egret::prelude::Graph;
use egret::rt;

use crate::world::{Car, FABRICS, LONG, Ring, assert_car, assert_ring, car, pair, pool, ring};

#[test]
fn the_current_graph_is_filled_sent_and_freed() {
    for fabric in FABRICS {
        let mut pair = pair::<Car>(fabric);
        assert!(!pair.here.has_current() && !pair.here.free_current());
        pair.here.build(|graph| car(graph, 1948, 9));
        pair.here.send_graph(1, LONG).unwrap();
        // It is ours still: it changes, and goes again.
        let engine = pair.here.current().root().engine.unwrap();
        pair.here.current_mut()[engine].power = 12;
        pair.here.send_graph(1, LONG).unwrap();
        assert!(pair.here.free_current());
        let (first, from) = pair.there.recv_graph(0, LONG).unwrap();
        assert_car(&first, 1948, 9);
        let (second, _) = pair.there.recv_graph(ANY, LONG).unwrap();
        assert_car(&second, 1948, 12);
        assert_eq!(from, 0);
        // What was received is a graph like any other: it grows, and goes back.
        pair.there.set_current(second);
        let at = pair.there.current().root_ref();
        pair.there.current_mut()[at].year = 1990;
        pair.there.send_graph(from, LONG).unwrap();
        assert_car(&pair.here.recv_graph(1, LONG).unwrap().0, 1990, 12);
    }
}

#[test]
fn graphs_of_all_sizes_land_in_buffers_and_can_be_used_there() {
    for fabric in FABRICS {
        let mut pair = pair::<Ring>(fabric);
        for count in [1, 2, 10, 300, 500, 1_000, 2_500, 40_000, 300_000] {
            pair.here.set_current(ring(count));
            let sent = rt::spawn("sends", move || {
                pair.here.send_graph(1, LONG).unwrap();
                pair.here
            });
            let (mut graph, _) = pair.there.recv_graph(0, LONG).unwrap();
            pair.here = sent.unwrap().join().unwrap();
            assert_ring(&graph, count);
            let is_small = graph.byte_len() < 100_000;
            assert!(graph.buf().is_some(), "{fabric}: {count} objects are not where they landed");
            let root = graph.root_ref();
            let more = graph.insert(Ring { number: 7, next: Some(root), load: None });
            assert_eq!(graph[more].next, Some(root));
            assert!(is_small || graph.len::<Ring>() > 1000);
        }
    }
}

#[test]
fn graphs_of_a_rank_come_in_the_order_sent_and_any_takes_from_all() {
    for fabric in FABRICS {
        let (_registry, nodes) = pool(3, fabric);
        let mut graphs: Vec<Graphs<Ring>> =
            nodes.iter().map(|node| Graphs::join(node).unwrap()).collect();
        for number in 0..20 {
            for graphs in &mut graphs {
                graphs.start(Ring { number, next: None, load: None });
                graphs.send_graph(0, LONG).unwrap();
            }
        }
        // Those of one rank, past the others, which wait.
        for number in 0..5 {
            let (graph, from) = graphs[0].recv_graph(2, LONG).unwrap();
            assert_eq!((graph.root().number, from), (number, 2));
        }
        let mut next = [0, 0, 5];
        for _ in 0..55 {
            let (graph, from) = graphs[0].recv_graph(ANY, LONG).unwrap();
            assert_eq!(graph.root().number, next[from as usize], "{fabric}: rank {from}");
            next[from as usize] += 1;
        }
        assert_eq!(next, [20; 3]);
        assert!(graphs[0].try_recv_graph(ANY).unwrap().is_none());
    }
}

#[test]
fn of_several_that_wait_for_graphs_each_graph_goes_to_one() {
    for fabric in FABRICS {
        let mut pair = pair::<Ring>(fabric);
        let waits = [ANY, 0.into(), ANY].map(|from| {
            let mut receiving = pair.there.post_recv_graph(from);
            let receive = move || {
                let next = || receiving.wait(LONG).unwrap().0.root().number;
                std::iter::repeat_with(next).take(100).collect::<Vec<_>>()
            };
            rt::spawn("waits", receive).unwrap()
        });
        for number in 0..300 {
            pair.here.start(Ring { number, next: None, load: None });
            drop(pair.here.post_send_graph(1));
        }
        let mut all: Vec<_> = waits
            .into_iter()
            .flat_map(|waits| {
                let numbers = waits.join().unwrap();
                assert!(numbers.is_sorted(), "{fabric}: not in their order");
                numbers
            })
            .collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..300), "{fabric}: not each once");
    }
}

#[test]
fn a_rank_sends_to_itself() {
    let (_registry, nodes) = pool(1, "shm");
    let mut graphs = Graphs::<Car>::join(&nodes[0]).unwrap();
    graphs.build(|graph| car(graph, 1948, 9));
    graphs.send_graph(0, LONG).unwrap();
    graphs.post_send_graph(0).wait(LONG).unwrap();
    for from in [0.into(), ANY] {
        let (graph, rank) = graphs.recv_graph(from, LONG).unwrap();
        assert_car(&graph, 1948, 9);
        assert_eq!(rank, 0);
    }
}

#[test]
fn types_and_names_have_their_own_traffic() {
    let mut cars = pair::<Car>("shm");
    let (here, there) = (&cars.nodes[0], &cars.nodes[1]);
    let (mut rings, mut rings_there) =
        (Graphs::<Ring>::join(here).unwrap(), Graphs::<Ring>::join(there).unwrap());
    let options = || GraphsOptions::default().name("spare cars");
    let mut spare = Graphs::<Car>::join_with(here, options()).unwrap();
    let mut spare_there = Graphs::<Car>::join_with(there, options()).unwrap();

    rings.set_current(ring(5));
    rings.send_graph(1, LONG).unwrap();
    spare.build(|graph| car(graph, 1, 1));
    spare.send_graph(1, LONG).unwrap();
    cars.here.build(|graph| car(graph, 2, 2));
    cars.here.send_graph(1, LONG).unwrap();

    assert_car(&cars.there.recv_graph(0, LONG).unwrap().0, 2, 2);
    assert_car(&spare_there.recv_graph(0, LONG).unwrap().0, 1, 1);
    assert_ring(&rings_there.recv_graph(0, LONG).unwrap().0, 5);
    assert!(cars.there.try_recv_graph(ANY).unwrap().is_none());
}

#[test]
fn what_was_sent_arrives_though_its_sender_leaves() {
    for fabric in FABRICS {
        for count in [3, 3, 3, 3, 3, 3, 3, 3, 30_000] {
            let mut pair = pair::<Ring>(fabric);
            pair.here.set_current(ring(count));
            let left = rt::spawn("leaves", move || {
                pair.here.send_graph(1, LONG).unwrap();
                drop(pair.here);
                pair.nodes.remove(0).leave(LONG).unwrap();
                pair.nodes
            });
            let left = left.unwrap();
            let (graph, _) = pair.there.recv_graph(0, LONG).unwrap();
            assert_ring(&graph, count);
            drop(left.join().unwrap());
        }
    }
}

#[test]
fn a_graph_that_is_mostly_unused_room_goes_without_it() {
    let mut pair = pair::<Ring>("shm");
    let mut graph = ring(3);
    graph.reserve::<Ring>(100_000);
    let used = graph.byte_len();
    pair.here.set_current(graph);
    pair.here.send_graph(1, LONG).unwrap();
    let (graph, _): (Graph<Ring>, _) = pair.there.recv_graph(0, LONG).unwrap();
    assert_eq!(graph.buf().unwrap().len(), used);
}
