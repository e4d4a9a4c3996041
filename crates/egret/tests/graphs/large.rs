//! Graphs that are larger than what a node holds for all that others send.

use egret::channel::ChannelWriter;
use egret::graph::{ANY, Graphs, GraphsOptions, RankGraphError};
use egret::prelude::Graph;
use egret::rt;

use crate::world::{FABRICS, LONG, Ring, SHORT, assert_ring, pair, pool, ring, route};

fn large() -> Graph<Ring> {
    loaded(LOAD)
}

/// Three objects and so many bytes.
fn loaded(bytes: usize) -> Graph<Ring> {
    let mut graph = ring(3);
    let mut bytes = vec![0; bytes];
    for (number, page) in bytes.chunks_mut(PAGE).enumerate() {
        page[..8].copy_from_slice(&number.to_le_bytes());
    }
    let load = graph.insert_slice(&bytes);
    graph.root_mut().load = Some(load);
    graph
}

fn assert_large(graph: &Graph<Ring>) {
    assert_loaded(graph, LOAD);
}

fn assert_loaded(graph: &Graph<Ring>, len: usize) {
    assert_ring(graph, 3);
    let bytes = &graph[graph.root().load.unwrap()];
    assert_eq!(bytes.len(), len);
    for (number, page) in bytes.chunks(PAGE).enumerate() {
        assert_eq!(page[..8], number.to_le_bytes());
    }
}

#[test]
fn one_that_no_node_would_hold_goes_while_it_is_received() {
    for fabric in FABRICS {
        let mut pair = pair::<Ring>(fabric);
        let sends = rt::spawn("sends", move || {
            pair.here.set_current(large());
            pair.here.send_graph(1, LONG).unwrap();
            let mut posted = pair.here.post_send_graph(1);
            pair.here.set_current(ring(5));
            pair.here.send_graph(1, LONG).unwrap();
            posted.wait(LONG).unwrap();
            pair.here
        });
        for _ in 0..2 {
            assert_large(&pair.there.recv_graph(ANY, LONG).unwrap().0);
        }
        assert_ring(&pair.there.recv_graph(0, LONG).unwrap().0, 5);
        pair.here = sends.unwrap().join().unwrap();
    }
}

#[test]
fn one_goes_in_parts_where_many_channels_leave_little_for_each() {
    let mut pair = pair::<Ring>("shm");
    let route = route(&pair.nodes[0], &pair.nodes[1]);
    let listeners = pair.nodes[1].links();
    let _listeners: Vec<_> =
        listeners.iter().map(|(_, links)| links.listen("many", CHANNELS).unwrap()).collect();
    let open = |_| route.links.wait_channel(&route.host, "many", LONG).unwrap();
    let _writers: Vec<_> = (0..CHANNELS).map(open).collect();
    let sends = rt::spawn("sends", move || {
        pair.here.set_current(loaded(60 << 20));
        pair.here.send_graph(1, LONG).unwrap();
        pair.here.post_send_graph(1).wait(LONG).unwrap();
        pair.here
    });
    for _ in 0..2 {
        let (graph, _) = pair.there.recv_graph(0, LONG).unwrap();
        assert_loaded(&graph, 60 << 20);
        assert!(graph.buf().is_none(), "it was put together");
    }
    pair.here = sends.unwrap().join().unwrap();
}

#[test]
fn one_that_is_not_received_ends_by_its_deadline_and_the_next_goes() {
    let mut pair = pair::<Ring>("shm");
    pair.here.set_current(large());
    let why = pair.here.send_graph(1, SHORT).unwrap_err();
    assert!(matches!(why, RankGraphError::SendTimedOut { rank: 1, is_open: true, .. }), "{why}");
    assert_large(pair.here.current());
    pair.here.set_current(ring(5));
    pair.here.send_graph(1, LONG).unwrap();
    assert_ring(&pair.there.recv_graph(0, LONG).unwrap().0, 5);
}

#[test]
fn one_that_has_begun_and_cannot_go_on_is_given_back() {
    for fabric in FABRICS {
        let mut pair = pair::<Ring>(fabric);
        pair.here.set_current(large());
        let mut posted = pair.here.post_send_graph(1);
        let not_yet = posted.wait(SHORT).unwrap_err();
        assert!(not_yet.what.is_none(), "it waits to be received");
        drop(pair.there);
        let not_sent = posted.wait(LONG).unwrap_err();
        assert_eq!(not_sent.why, RankGraphError::Stopped { rank: 1 });
        assert_large(&not_sent.what.unwrap());
    }
}

/// Announces so many bytes, and sends these parts.
fn lie(liar: &mut ChannelWriter, announced: u64, parts: &[&[u8]]) {
    let mut message = liar.message();
    message.wait_write_owned(announced.to_le_bytes().to_vec(), LONG).unwrap();
    for part in parts {
        message.wait_write_owned(part.to_vec(), LONG).unwrap();
    }
    message.wait_finish(LONG).unwrap();
}

#[test]
fn a_false_announced_size_is_refused_and_the_next_graph_received() {
    for fabric in FABRICS {
        let (_registry, nodes) = pool(2, fabric);
        let options = GraphsOptions::default().bytes_max(100_000);
        let mut there = Graphs::<Ring>::join_with(&nodes[1], options).unwrap();
        let route = route(&nodes[0], &nodes[1]);
        let mut liar = route.links.wait_channel(&route.host, "Graph<Ring>", LONG).unwrap();
        let good = ring(40).to_vec();
        let len = good.len() as u64;
        let (head, tail) = good.split_at(64);
        for most in [100_001, 1 << 40, u64::MAX] {
            lie(&mut liar, most, &[head, tail]);
            let why = there.recv_graph(ANY, LONG).unwrap_err();
            assert!(why.to_string().contains("`GraphsOptions::bytes_max`"), "{why}");
            assert_eq!(why, RankGraphError::TooLarge { rank: 1, bytes: most, most: 100_000 });
        }
        let lies: [(u64, &[&[u8]]); 8] = [
            (len, &[]),
            (0, &[]),
            (len, &[head]),
            (len, &[head, tail, head]),
            (len - 8, &[head, tail]),
            (len + 8, &[head, tail]),
            (len + 1, &[head, tail]),
            (len, &[&good[..63], &good[63..]]),
        ];
        for (announced, parts) in lies {
            lie(&mut liar, announced, parts);
            lie(&mut liar, len, &[head, tail]);
            let why = there.recv_graph(ANY, LONG).unwrap_err();
            assert!(matches!(why, RankGraphError::Refused { from: 0, .. }), "{announced}: {why}");
            assert_ring(&there.recv_graph(ANY, LONG).unwrap().0, 40);
        }
        let mut message = liar.message();
        message.wait_write_owned(len.to_le_bytes().to_vec(), LONG).unwrap();
        message.wait_write_owned(head.to_vec(), LONG).unwrap();
        message.wait_flush(LONG).unwrap();
        let why = there.recv_graph(ANY, SHORT).unwrap_err();
        assert!(matches!(why, RankGraphError::RecvTimedOut { .. }), "{why}");
        message.abort();
        lie(&mut liar, len, &[&good]);
        assert_ring(&there.recv_graph(ANY, LONG).unwrap().0, 40);
    }
}

/// More than any part of a message may have: three eighths of 256 MiB.
const LOAD: usize = 120 << 20;
const PAGE: usize = 4096;
/// Each is sure of 16 KiB of 256 MiB, which leaves less than 60 MiB for one part.
const CHANNELS: usize = 5000;
