//! Graphs over connections of every fabric.

use egret::buf::{Buf, Pool};
use egret::graph::{GraphDefect, GraphError, GraphTrust};
use egret::prelude::Graph;
use egret::rt;
use egret::vi::{Descriptor, Handed, ViError};

use crate::ends::{ALL, Ends, ends};
use crate::world::{Car, LONG, Ring, assert_car, assert_ring, car, ring};

/// Objects that fit a message of every fabric.
const FEW: u64 = 20;

#[test]
fn a_graph_is_posted_and_received() {
    for name in ALL {
        let counts = if name == "udp" { &[1, FEW][..] } else { &[1, FEW, 500, 3_000, 100_000] };
        for count in counts {
            let ends = ends(name);
            // The receive is there first: an unreliable connection drops what nobody waits for.
            ends.there.post_recv(Graph::<Ring>::descriptor(64 << 20)).unwrap();
            ends.here.post_send(ring(*count).into_descriptor().unwrap().with_tag(7)).unwrap();
            let got = ends.next(ends.there.recv_queue()).ok().unwrap();
            assert_eq!(got.tag, 7, "{name}");
            assert_ring(&Graph::from_words(got.into_vec()).unwrap(), *count);
        }
    }
}

#[test]
fn a_graph_is_sent_and_waited_for() {
    for name in ["shm", "shm cooperating", "tcp"] {
        let Ends { here, there, .. } = ends(name);
        let receives = rt::spawn("receives", move || {
            let first = Graph::<Ring>::recv(&there, 64 << 20, LONG).unwrap();
            let second = Graph::<Car>::recv(&there, 64 << 20, LONG).unwrap();
            // Until the other end is closed: what says that it has them goes meanwhile.
            let end = Graph::<Ring>::recv(&there, 64 << 20, LONG).unwrap_err();
            assert!(matches!(end, GraphError::Transfer(_) | GraphError::NotPosted(_)), "{end}");
            (first, second)
        });
        ring(30_000).send(&here, 3, LONG).unwrap();
        Graph::build(|graph| car(graph, 1948, 9)).send(&here, 4, LONG).unwrap();
        drop(here);
        let ((first, 3), (second, 4)) = receives.unwrap().join().unwrap() else {
            panic!("other tags")
        };
        assert_ring(&first, 30_000);
        assert_car(&second, 1948, 9);
    }
}

#[test]
fn a_receive_for_another_type_does_not_take_a_graph() {
    for name in ["shm", "shm cooperating", "tcp"] {
        let Ends { here, there, .. } = ends(name);
        let sends = rt::spawn("sends", move || (ring(3).send(&here, 0, LONG), here));
        let why = Graph::<Car>::recv(&there, 1 << 20, LONG).unwrap_err();
        let GraphError::Transfer(why) = why else { panic!("{name}: {why}") };
        assert!(matches!(why, ViError::TypeMismatch { .. }), "{name}: {why}");
        assert!(why.to_string().contains("Graph<Car>"), "{name}: {why}");
        assert!(why.to_string().contains("Graph<Ring>"), "{name}: {why}");
        drop(sends.unwrap().join().unwrap());
    }
}

#[test]
fn a_graph_that_is_larger_than_is_taken_is_not() {
    for name in ["shm", "tcp"] {
        let Ends { here, there, .. } = ends(name);
        let sends = rt::spawn("sends", move || (ring(3_000).send(&here, 0, LONG), here));
        let why = Graph::<Ring>::recv(&there, 1_000, LONG).unwrap_err();
        assert!(matches!(why, GraphError::Transfer(ViError::TooLong { .. })), "{name}: {why}");
        drop(sends.unwrap().join().unwrap());
    }
}

/// A graph in a buffer that can be handed over, and the pool.
fn handy(count: u64) -> (Graph<Ring>, Pool) {
    let pool = Pool::builder().class(1 << 20, 2).cooperating().build().unwrap();
    let graph = Graph::build_in(&pool, 1 << 20, |graph| {
        let first = graph.insert(Ring { number: 0, next: None, load: None });
        let last = (1..count).rev().fold(first, |next, number| {
            graph.insert(Ring { number, next: Some(next), load: None })
        });
        graph[first].next = Some(last);
        first
    });
    (graph.unwrap(), pool)
}

/// What comes next by a hand-over.
fn handed(ends: &Ends) -> Handed {
    ends.next(ends.there.recv_queue()).ok().unwrap().into_handed()
}

#[test]
fn a_graph_that_is_handed_over_stays_where_it_is() {
    let ends = ends("shm cooperating");
    let (graph, pool) = handy(1_000);
    let place = graph.buf().unwrap().offset_in_region();
    ends.there.post_recv(Descriptor::handed(1 << 20)).unwrap();
    graph.hand_over(&ends.here, 5).unwrap();
    assert_eq!(pool.available(1 << 20), 1, "it is not ours any more");
    let got = ends.next(ends.there.recv_queue()).ok().unwrap();
    assert_eq!(got.tag, 5);
    let mut graph =
        Graph::<Ring>::from_handed(got.into_handed(), &ends.there, GraphTrust::Checked).unwrap();
    assert_eq!(graph.buf().unwrap().offset_in_region(), place);
    assert_ring(&graph, 1_000);

    // It is written, grows in its buffer, and goes home.
    graph.root_mut().number = 77;
    let root = graph.root_ref();
    let more = graph.insert(Ring { number: 1_000, next: Some(root), load: None });
    assert_eq!(graph.buf().unwrap().offset_in_region(), place);
    ends.here.post_recv(Descriptor::handed(1 << 20)).unwrap();
    graph.hand_over(&ends.there, 6).unwrap();
    let got = ends.next(ends.here.recv_queue()).ok().unwrap().into_handed();
    let graph = Graph::<Ring>::from_handed(got, &ends.here, GraphTrust::SameProcessImage).unwrap();
    assert_eq!(graph.buf().unwrap().offset_in_region(), place);
    assert_eq!((graph.root().number, graph[more].next), (77, Some(graph.root_ref())));
    drop(graph);
    assert_eq!(pool.available(1 << 20), 2);
}

#[test]
fn a_graph_is_handed_over_by_a_copy_where_the_peer_does_not_cooperate() {
    for name in ["shm", "tcp", "sim"] {
        let ends = ends(name);
        let (graph, pool) = handy(1_000);
        ends.there.post_recv(Descriptor::handed(1 << 20)).unwrap();
        graph.hand_over(&ends.here, 0).unwrap();
        let got = handed(&ends);
        assert!(matches!(got, Handed::Copy(_)), "{name}");
        let graph =
            Graph::<Ring>::from_handed(got, &ends.there, GraphTrust::SameProcessImage).unwrap();
        assert_ring(&graph, 1_000);
        ends.next(ends.here.send_queue()).done().unwrap();
        assert_eq!(pool.available(1 << 20), 2, "{name}");
    }
}

#[test]
fn a_hand_over_says_what_it_is() {
    for name in ["shm", "shm cooperating", "tcp", "sim"] {
        for (kind, is_taken) in [(Graph::<Car>::kind(), false), (Graph::<Ring>::kind(), true)] {
            let ends = ends(name);
            let (graph, _pool) = handy(10);
            ends.there.post_recv(Descriptor::handed(1 << 20).of_kind(kind)).unwrap();
            graph.hand_over(&ends.here, 0).unwrap();
            match ends.next(ends.there.recv_queue()).ok() {
                Ok(got) => {
                    assert!(is_taken, "{name}");
                    let got = got.into_handed();
                    let graph = Graph::<Ring>::from_handed(got, &ends.there, GraphTrust::Checked);
                    assert_ring(&graph.unwrap(), 10);
                }
                Err(why) => {
                    assert!(!is_taken, "{name}: {why}");
                    assert!(matches!(why, ViError::TypeMismatch { .. }), "{name}: {why}");
                }
            }
        }
    }
}

/// Whether a receiver found a dangling reference.
fn is_dangling(why: &GraphError) -> bool {
    matches!(why, GraphError::Refused(refusal) if matches!(refusal.reason, GraphDefect::Dangling { .. }))
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
fn a_graph_with_a_dangling_reference_is_refused_at_the_sender() {
    let Ends { here, .. } = ends("shm");
    let is_named = |why: &GraphError| matches!(why, GraphError::Dangling { class, index: 3 } if class == "Ring");
    let why = dangling().send(&here, 0, LONG).unwrap_err();
    assert!(is_named(&why), "{why}");
    assert!(why.to_string().contains("object 3 of `Ring`"), "{why}");
    let refused = dangling().into_descriptor().unwrap_err();
    assert!(is_named(&refused.why), "{refused}");
    assert_eq!(refused.what.root().number, dangling().root().number, "the graph comes back");
    let refused = dangling().hand_over(&here, 0).unwrap_err();
    assert!(is_named(&refused.why), "{refused}");
    let graph = Graph::<Ring>::take_back(refused.what).unwrap();
    let why = graph.send(&here, 0, LONG).unwrap_err();
    assert!(is_named(&why), "{why}");
    // Without the reference the graph is sent.
    let mut graph = dangling();
    graph.root_mut().next = None;
    assert!(graph.into_descriptor().is_ok());
}

/// A graph in which the root's reference leads nowhere.
fn corrupt() -> (Buf, Pool) {
    let (mut graph, pool) = handy(3);
    let lost = graph.insert(Ring { number: 9, next: None, load: None });
    graph.root_mut().next = Some(lost);
    graph.remove(lost);
    (graph.into_segment().into_buf().unwrap(), pool)
}

#[test]
fn only_a_process_of_the_same_image_is_believed() {
    for (name, trust, is_believed) in [
        ("shm cooperating", GraphTrust::SameProcessImage, true),
        ("shm cooperating", GraphTrust::Checked, false),
        ("shm", GraphTrust::SameProcessImage, false),
        ("tcp", GraphTrust::SameProcessImage, false),
        ("sim", GraphTrust::SameProcessImage, false),
    ] {
        let ends = ends(name);
        let (buf, _pool) = corrupt();
        ends.there.post_recv(Descriptor::handed(1 << 20)).unwrap();
        ends.here.hand_over(buf, 0).unwrap();
        match Graph::<Ring>::from_handed(handed(&ends), &ends.there, trust) {
            Ok(graph) => {
                assert!(is_believed, "{name}, {trust:?}");
                // What is wrong with it is found at use.
                assert!(graph.get(graph.root().next.unwrap()).is_none());
            }
            Err(refused) => {
                assert!(!is_believed, "{name}, {trust:?}: {refused}");
                assert!(is_dangling(&refused.why), "{refused}");
                assert!(!refused.what.is_empty(), "the memory is given back");
            }
        }
    }
}

#[test]
fn a_buffer_of_a_peer_that_cooperates_is_believed_only_as_a_buffer() {
    // The peer posts memory of its own: what is copied to it is checked.
    let ends = ends("shm cooperating");
    let (buf, _pool) = corrupt();
    ends.there.post_recv(Graph::<Ring>::descriptor(1 << 20)).unwrap();
    ends.here.hand_over(buf, 0).unwrap();
    let got = ends.next(ends.there.recv_queue()).ok().unwrap();
    let why = Graph::<Ring>::from_words(got.into_vec()).unwrap_err();
    assert!(is_dangling(&why.why), "{why}");
}

#[test]
fn rewriting_memory_after_sending_gains_nothing() {
    for name in ALL {
        let ends = ends(name);
        let pool = Pool::new(1 << 16, 2).unwrap();
        let message = ring(FEW).to_vec();
        for _ in 0..20 {
            let mut buf = pool.take(message.len()).unwrap();
            buf.bytes_mut().copy_from_slice(&message);
            ends.there.post_recv(Graph::<Ring>::descriptor(1 << 20)).unwrap();
            ends.here.post_send(Descriptor::new(buf)).unwrap();
            // The memory is the sender's again, and full of nonsense, before anybody looks.
            let mut buf = ends.next(ends.here.send_queue()).ok().unwrap().into_buf();
            buf.bytes_mut().fill(0xff);
            let got = ends.next(ends.there.recv_queue()).ok().unwrap();
            let graph = Graph::<Ring>::from_words(got.into_vec()).unwrap();
            buf.bytes_mut().fill(0xee);
            assert_ring(&graph, FEW);
        }
    }
}
