//! What was posted and does not go is given back.

use egret::buf::Pool;
use egret::graph::{Graphs, GraphsOptions, RankGraphError, Sending};
use egret::prelude::{Graph, Ref};
use egret::rt::GivenBack;

use crate::world::{FABRICS, LONG, Ring, SHORT, assert_ring, pair, pool, ring};

/// Posts a ring; `check` is told what became of it, and has it back, to be used as before.
fn given_back(graphs: &mut Graphs<Ring>, graph: Graph<Ring>, to: u32) -> RankGraphError {
    let (root, count) = (graph.root_ref(), graph.len::<Ring>() as u64);
    graphs.set_current(graph);
    let mut posted = graphs.post_send_graph(to);
    let why = is_back(posted.wait(LONG).unwrap_err(), root, count);
    let again = posted.wait(LONG).unwrap_err();
    assert!(again.what.is_none() && again.why == why, "the same, and the graph but once");
    why
}

fn is_back(
    not_sent: GivenBack<Option<Box<Graph<Ring>>>, RankGraphError>,
    root: Ref<Ring>,
    count: u64,
) -> RankGraphError {
    let mut graph = not_sent.what.unwrap();
    assert_eq!(graph.root_ref(), root, "references are still right");
    assert_ring(&graph, count);
    let more = graph.insert(Ring { number: 1, next: None, load: None });
    assert_eq!(graph[more].number, 1);
    not_sent.why
}

#[test]
fn what_nobody_could_take_is_given_back() {
    for fabric in FABRICS {
        let (_registry, nodes) = pool(2, fabric);
        let options = GraphsOptions::default().bytes_max(100_000);
        let mut here = Graphs::<Ring>::join_with(&nodes[0], options.clone()).unwrap();
        let there = Graphs::<Ring>::join_with(&nodes[1], options).unwrap();
        for rank in [0, 1] {
            let why = given_back(&mut here, ring(10_000), rank);
            assert!(matches!(why, RankGraphError::TooLarge { most: 100_000, .. }), "{why}");
        }
        let why = given_back(&mut here, ring(10), 2);
        assert_eq!(why, RankGraphError::NoSuchRank { rank: 2, size: 2 });
        drop(there);
        let why = loop {
            let (graph, count) = (ring(3), 3);
            let root = graph.root_ref();
            here.set_current(graph);
            match here.post_send_graph(1).wait(SHORT) {
                Err(not) if matches!(not.why, RankGraphError::SendTimedOut { .. }) => {}
                Err(not) => break is_back(not, root, count),
                Ok(()) => {}
            }
        };
        assert_eq!(why, RankGraphError::Stopped { rank: 1 });
    }
}

#[test]
fn what_waits_for_a_node_that_goes_is_given_back_from_wherever_it_lay() {
    for fabric in FABRICS {
        let mut pair = pair::<Ring>(fabric);
        let buffers = Pool::new(4 << 20, 2).unwrap();
        // More than the other takes without receiving: some are there, some wait.
        let mut posted: Vec<(Sending<Ring>, Ref<Ring>)> = Vec::new();
        for at in 0..60 {
            let mut graph = ring(100_000);
            if at % 2 == 0
                && let Ok(mut buf) = buffers.take(graph.byte_len())
            {
                buf.bytes_mut().copy_from_slice(&graph.to_vec());
                graph = Graph::from_buf(buf).unwrap();
            }
            let root = graph.root_ref();
            pair.here.set_current(graph);
            posted.push((pair.here.post_send_graph(1), root));
        }
        posted[0].0.wait(LONG).unwrap();
        drop(pair.there);
        pair.nodes.remove(1).leave(LONG).unwrap();
        let mut back = 0;
        for (mut posted, root) in posted {
            if let Err(not_sent) = posted.wait(LONG) {
                let why = is_back(not_sent, root, 100_000);
                let is_gone =
                    matches!(why, RankGraphError::Gone { .. } | RankGraphError::Stopped { .. });
                assert!(is_gone, "{why}");
                back += 1;
            }
        }
        assert!(back > 0, "{fabric}: all of them went");
        let why = given_back(&mut pair.here, ring(10), 1);
        assert!(matches!(why, RankGraphError::Gone { rank: 1, .. }), "{why}");
        pair.nodes.remove(0).leave(LONG).unwrap();
        assert_eq!(given_back(&mut pair.here, ring(10), 1), RankGraphError::Closed);
    }
}
