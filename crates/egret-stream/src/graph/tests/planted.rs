//! Each fault is found by a check that exists.

use super::{hostile, lying, stray};
use crate::graph::fault::{Fault, caught};
use crate::graph::{Graph, Object, Ref};

#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Pair {
    number: u64,
    other: Option<Ref<Pair>>,
}

fn pairs(count: u64) -> (Graph<Pair>, Vec<Ref<Pair>>) {
    let mut graph = Graph::new(Pair { number: 0, other: None });
    let more = (1..count).map(|number| graph.insert(Pair { number, other: None }));
    let more: Vec<_> = more.collect();
    let root = graph.root_ref();
    (graph, [vec![root], more].concat())
}

/// What was taken away is not found, nor is what got its place.
fn what_is_gone_is_gone() {
    let (mut graph, refs) = pairs(3);
    assert!(graph.remove(refs[1]).is_some());
    assert!(graph.get(refs[1]).is_none() && graph.remove(refs[1]).is_none());
}

fn a_place_is_used_again_by_another_name() {
    let (mut graph, refs) = pairs(3);
    graph.remove(refs[1]);
    let new = graph.insert(Pair { number: 9, other: None });
    assert_eq!(new.index(), refs[1].index(), "the place is used again");
    assert!(graph.get(refs[1]).is_none());
    assert_eq!(graph[new].number, 9);
}

fn graphs_know_their_own() {
    let ((one, ours), (other, theirs)) = (pairs(3), pairs(3));
    assert!(theirs.iter().all(|reference| one.get(*reference).is_none()));
    assert!(ours.iter().all(|reference| other.get(*reference).is_none()));
}

fn growing_keeps_what_there_is() {
    let mut graph = Graph::<[Option<Ref<[u64]>>; 1]>::new([None]);
    let lists: Vec<_> = (0..100_u64).map(|number| graph.insert_slice(&[number; 9])).collect();
    assert!(lists.iter().zip(0..).all(|(list, number)| graph[*list] == [number; 9]));
}

fn compaction_renews_references() {
    let (mut graph, refs) = pairs(4);
    graph[refs[0]].other = Some(refs[3]);
    graph[refs[3]].other = Some(refs[0]);
    graph.remove(refs[1]);
    graph.compact().unwrap();
    let there = graph[graph.root_ref()].other.unwrap();
    assert_eq!((graph[there].number, graph[there].other), (3, Some(graph.root_ref())));
    assert_eq!(graph.len::<Pair>(), 3);
}

#[test]
fn every_planted_fault_is_caught() {
    let checks: [(Fault, fn()); 12] = [
        (Fault::Stale, what_is_gone_is_gone),
        (Fault::SameStamp, a_place_is_used_again_by_another_name),
        (Fault::SameSeed, graphs_know_their_own),
        (Fault::LeftBehind, growing_keeps_what_there_is),
        (Fault::Unrenewed, compaction_renews_references),
        (Fault::AnyClass, stray::references_to_another_type_are_refused),
        (Fault::PastTheEnd, stray::references_past_the_end_are_refused),
        (Fault::AnyRoot, stray::a_root_that_is_none_is_refused),
        (Fault::AnyBits, hostile::values_that_are_none_are_refused),
        (Fault::Unchecked, hostile::what_a_type_says_of_itself_counts),
        (Fault::Overlapping, lying::slices_on_each_other_are_refused),
        (Fault::PartsOverlap, lying::parts_on_each_other_are_refused),
    ];
    for (fault, check) in checks {
        check();
        assert!(caught(fault, check), "{fault:?}");
    }
}
