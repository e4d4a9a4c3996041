//! Peers that die, lie, or never come.

use egret::channel::ChannelWriter;
use egret::graph::{ANY, GraphDefect, GraphError, Graphs, GraphsOptions, RankGraphError, Source};
use egret::prelude::{Deadline, Graph, Object, Ref, Text};
use egret::rt;

use crate::world::{
    Car, FABRICS, LONG, Pair, Ring, SHORT, assert_car, car, pair, pool, ring, route,
};

/// A channel by which anything can be sent as a graph.
fn liar(pair: &Pair<Car>) -> ChannelWriter {
    let [from, to] = &pair.nodes[..] else { panic!("two nodes") };
    let route = route(from, to);
    route.links.wait_channel(&route.host, "Graph<Car>", LONG).unwrap()
}

#[test]
fn what_is_no_graph_is_refused_and_the_next_is_received() {
    for fabric in FABRICS {
        let mut pair = pair::<Car>(fabric);
        let mut liar = liar(&pair);
        let good = Graph::build(|graph| car(graph, 1948, 9)).to_vec();
        let mut bad = good.clone();
        let last = bad.len() - 1;
        bad[last] ^= 1;
        let texts = [&b"no graph at all"[..], &[], &[7; 100_000], &good[..good.len() - 8], &bad];
        for text in texts {
            liar.wait_send(text.to_vec(), LONG).unwrap();
            liar.wait_send(good.clone(), LONG).unwrap();
            let why = pair.there.recv_graph(ANY, LONG).unwrap_err();
            assert!(matches!(why, RankGraphError::Refused { from: 0, .. }), "{why}");
            assert_car(&pair.there.recv_graph(ANY, LONG).unwrap().0, 1948, 9);
        }
        // One in parts is none, whether its sender gives it up or not.
        let mut message = liar.message();
        message.wait_write(&[1_u8; 40], LONG).unwrap();
        message.wait_flush(LONG).unwrap();
        message.abort();
        let why = pair.there.recv_graph(0, SHORT).unwrap_err();
        assert!(matches!(
            why,
            RankGraphError::Refused { .. } | RankGraphError::RecvTimedOut { .. }
        ));
        liar.wait_send(good.clone(), LONG).unwrap();
        assert_car(&pair.there.recv_graph(0, LONG).unwrap().0, 1948, 9);
        let mut message = liar.message();
        message.wait_write_owned(good[..64].to_vec(), LONG).unwrap();
        message.wait_write_owned(good[64..].to_vec(), LONG).unwrap();
        message.wait_finish(LONG).unwrap();
        let why = pair.there.recv_graph(0, LONG).unwrap_err();
        assert!(matches!(why, RankGraphError::Refused { from: 0, .. }), "{why}");
    }
}

/// A graph whose root refers to object 3, which was removed.
fn dangling() -> Graph<Ring> {
    let mut graph = ring(3);
    let lost = graph.insert(Ring { number: 9, next: None, load: None });
    graph.root_mut().next = Some(lost);
    graph.remove(lost);
    graph
}

#[test]
fn a_refusal_names_sender_place_and_reason() {
    let mut pair = pair::<Ring>("shm");
    let route = route(&pair.nodes[0], &pair.nodes[1]);
    let mut liar = route.links.wait_channel(&route.host, "Graph<Ring>", LONG).unwrap();
    liar.wait_send(dangling().to_vec(), LONG).unwrap();
    let why = pair.there.recv_graph(ANY, LONG).unwrap_err();
    let RankGraphError::Refused { from: 0, why: GraphError::Refused(refusal) } = &why else {
        panic!("{why}")
    };
    assert!(matches!(refusal.reason, GraphDefect::Dangling { index: 3, .. }), "{refusal}");
    let text = "rank 0 sent no such graph: at byte ";
    assert!(why.to_string().starts_with(text), "{why}");
}

#[test]
fn a_graph_with_a_dangling_reference_is_refused_at_the_sender() {
    let is_named = |why: &RankGraphError| match why {
        RankGraphError::Dangling { why: GraphError::Dangling { class, index }, .. } => {
            class == "Ring" && *index == 3
        }
        _ => false,
    };
    let mut pair = pair::<Ring>("shm");
    for rank in [0, 1] {
        pair.here.set_current(dangling());
        let why = pair.here.send_graph(rank, LONG).unwrap_err();
        assert!(is_named(&why), "{why}");
        let mut not_sent = pair.here.post_send_graph(rank).wait(LONG).unwrap_err();
        assert!(is_named(&not_sent.why), "{not_sent}");
        let mut graph = not_sent.what.take().expect("the graph comes back");
        graph.root_mut().next = None;
        pair.here.set_current(*graph);
        pair.here.send_graph(rank, LONG).unwrap();
    }
    assert_eq!(pair.there.recv_graph(0, LONG).unwrap().1, 0);
}

#[test]
fn too_large_graphs_are_neither_sent_nor_taken() {
    for fabric in FABRICS {
        let (_registry, nodes) = pool(2, fabric);
        let mut here = Graphs::<Ring>::join(&nodes[0]).unwrap();
        let options = GraphsOptions::default().bytes_max(100_000);
        let mut there = Graphs::<Ring>::join_with(&nodes[1], options).unwrap();
        let route = route(&nodes[0], &nodes[1]);
        let mut liar = route.links.wait_channel(&route.host, "Graph<Ring>", LONG).unwrap();
        liar.wait_send(ring(10_000).into_segment(), LONG).unwrap();
        let why = there.recv_graph(0, LONG).unwrap_err();
        assert!(matches!(why, RankGraphError::TooLarge { most: 100_000, .. }), "{why}");
        liar.wait_send(ring(3).into_segment(), LONG).unwrap();
        drop(liar);
        here.set_current(ring(10_000));
        let why = here.send_graph(1, LONG).unwrap_err();
        assert!(matches!(why, RankGraphError::TooLarge { rank: 1, most: 100_000, .. }), "{why}");
        assert_eq!(here.post_send_graph(1).wait(LONG).unwrap_err().why, why);
        here.set_current(ring(4));
        here.send_graph(1, LONG).unwrap();
        let lens = [(); 2].map(|()| there.recv_graph(0, LONG).unwrap().0.len::<Ring>());
        assert_eq!(lens, [3, 4]);
    }
}

#[test]
fn an_absent_rank_is_waited_for_until_the_deadline() {
    let (_registry, nodes) = pool(2, "shm");
    let mut here = Graphs::<Ring>::join(&nodes[0]).unwrap();
    here.set_current(ring(1));
    let why = here.send_graph(1, SHORT).unwrap_err();
    assert!(matches!(why, RankGraphError::SendTimedOut { rank: 1, is_open: false, .. }), "{why}");
    let mut posted = here.post_send_graph(1);
    let not_yet = posted.wait(SHORT).unwrap_err();
    assert!(not_yet.what.is_none(), "it may still go");
    let why = not_yet.why;
    assert!(matches!(why, RankGraphError::SendTimedOut { rank: 1, is_open: false, .. }), "{why}");
    let why = here.recv_graph(1, SHORT).unwrap_err();
    assert!(matches!(why, RankGraphError::RecvTimedOut { from: Source::Rank(1), .. }), "{why}");
    here.set_current(ring(1));
    let none = RankGraphError::NoSuchRank { rank: 2, size: 2 };
    assert_eq!(here.send_graph(2, LONG).unwrap_err(), none);
    assert_eq!(here.recv_graph(2, LONG).unwrap_err(), none);
    assert_eq!(here.post_send_graph(2).wait(LONG).unwrap_err().why, none);
    // It comes after all: what was posted goes, what was not sent in time does not.
    let mut there = Graphs::<Ring>::join(&nodes[1]).unwrap();
    posted.wait(LONG).unwrap();
    assert_eq!(there.recv_graph(0, LONG).unwrap().0.len::<Ring>(), 1);
    assert!(there.try_recv_graph(0).unwrap().is_none());
}

#[test]
fn a_receiver_that_does_not_receive_ends_a_send_by_its_deadline() {
    for fabric in FABRICS {
        let mut pair = pair::<Ring>(fabric);
        let mut sent = 0;
        let why = loop {
            pair.here.set_current(ring(100_000));
            match pair.here.send_graph(1, SHORT) {
                Ok(()) => sent += 1,
                Err(why) => break why,
            }
            assert!(sent < 200, "nothing bounds what a rank takes");
        };
        assert!(
            matches!(why, RankGraphError::SendTimedOut { rank: 1, is_open: true, .. }),
            "{why}"
        );
        for _ in 0..sent {
            assert_eq!(pair.there.recv_graph(0, LONG).unwrap().0.len::<Ring>(), 100_000);
        }
        assert!(pair.there.try_recv_graph(0).unwrap().is_none(), "the last never arrives");
        pair.here.set_current(ring(5));
        pair.here.send_graph(1, LONG).unwrap();
        assert_eq!(pair.there.recv_graph(0, LONG).unwrap().0.len::<Ring>(), 5);
    }
}

#[test]
fn receive_ends_when_the_awaited_node_leaves() {
    for fabric in FABRICS {
        for has_sent in [false, true] {
            let mut pair = pair::<Ring>(fabric);
            pair.here.set_current(ring(1));
            if has_sent {
                pair.here.send_graph(1, LONG).unwrap();
                pair.there.recv_graph(0, LONG).unwrap();
            }
            let waits = rt::spawn("waits", move || {
                let of_rank = pair.there.recv_graph(0, LONG).unwrap_err();
                (of_rank, pair.there.recv_graph(ANY, LONG).unwrap_err(), pair.there)
            });
            drop(pair.here);
            pair.nodes.remove(0).leave(LONG).unwrap();
            let (of_rank, of_any, mut there) = waits.unwrap().join().unwrap();
            assert!(matches!(of_rank, RankGraphError::Gone { rank: 0, .. }), "{of_rank}");
            assert_eq!(of_any, RankGraphError::AllGone);
            there.set_current(ring(1));
            let why = there.send_graph(0, LONG).unwrap_err();
            assert_eq!(why, RankGraphError::Gone { rank: 0, why: "it has left".to_owned() });
        }
    }
}

#[test]
fn a_dropped_receiver_refuses_graphs_and_may_join_again() {
    let mut pair = pair::<Ring>("shm");
    pair.here.set_current(ring(1));
    pair.here.send_graph(1, LONG).unwrap();
    assert!(matches!(
        Graphs::<Ring>::join(&pair.nodes[1]).unwrap_err(),
        RankGraphError::Taken { .. }
    ));
    drop(pair.there);
    let mut told = || loop {
        match pair.here.send_graph(1, Deadline::In(std::time::Duration::from_secs(1))) {
            Ok(()) => {}
            Err(why) => break why,
        }
    };
    let why = told();
    assert!(matches!(why, RankGraphError::Stopped { rank: 1 }), "{why}");
    let mut there = Graphs::<Ring>::join(&pair.nodes[1]).unwrap();
    pair.here.set_current(ring(7));
    pair.here.send_graph(1, LONG).unwrap();
    assert_eq!(there.recv_graph(0, LONG).unwrap().0.len::<Ring>(), 7);
}

#[test]
fn the_same_name_for_another_type_is_an_error_of_the_sender() {
    #[derive(Debug, Clone, Copy, Object)]
    #[repr(C)]
    struct Car {
        name: Text,
        next: Option<Ref<Self>>,
    }
    let (_registry, nodes) = pool(2, "shm");
    let mut here = Graphs::<Car>::join(&nodes[0]).unwrap();
    let _there = Graphs::<crate::world::Car>::join(&nodes[1]).unwrap();
    here.build(|graph| {
        let name = graph.insert_text("another");
        graph.insert(Car { name, next: None })
    });
    let why = here.send_graph(1, LONG).unwrap_err();
    assert!(matches!(why, RankGraphError::OtherType { rank: 1, .. }), "{why}");
}

#[test]
fn graphs_of_a_node_that_has_left_are_closed() {
    let mut pair = pair::<Ring>("shm");
    let mut waits = pair.here.post_recv_graph(1);
    let waits = rt::spawn("waits", move || waits.wait(Deadline::UntilDead).unwrap_err());
    pair.nodes.remove(0).leave(LONG).unwrap();
    let why = waits.unwrap().join().unwrap();
    assert!(matches!(why, RankGraphError::Closed | RankGraphError::Gone { .. }), "{why}");
    pair.here.set_current(ring(1));
    assert_eq!(pair.here.send_graph(1, LONG).unwrap_err(), RankGraphError::Closed);
    assert_eq!(pair.here.recv_graph(ANY, LONG).unwrap_err(), RankGraphError::Closed);
}
