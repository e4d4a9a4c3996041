//! Graphs that arrived, up to the moment in which they can be used: egret's check beside the
//! checked access of rkyv, in place both.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use egret_stream::graph::{Graph, Object};
use rkyv::Portable;
use rkyv::api::high::HighValidator;
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error;

use crate::map::{self, Map, ROADS};
use crate::measure::{Round, medians};
use crate::peers::received;
use crate::values::{Node, nodes};

/// Nanoseconds of egret and of rkyv for a balanced tree.
pub fn tree(count: i32) -> [f64; 2] {
    let ours = map::tree(usize::try_from(count).expect("a number of nodes"));
    let theirs = nodes(count).expect("a tree has a node");
    compare::<_, <Node as rkyv::Archive>::Archived>(
        &ours,
        &rkyv::to_bytes::<Error>(&*theirs).expect("writes"),
    )
}

/// The same for a map: egret's whole, rkyv's without the references that close a cycle.
pub fn map(towns: usize, objects: usize) -> [f64; 2] {
    let map = Map::draw(towns, objects);
    let theirs = acyclic(&map);
    compare::<_, <Town as rkyv::Archive>::Archived>(
        &map.graph(),
        &rkyv::to_bytes::<Error>(&*theirs).expect("writes"),
    )
}

fn compare<Root, Theirs>(graph: &Graph<Root>, theirs: &[u8]) -> [f64; 2]
where
    Root: Object,
    Theirs: Portable + for<'a> CheckBytes<HighValidator<'a, Error>>,
{
    let as_rkyv = received(theirs);
    let bytes = graph.byte_len();
    let mut words = Graph::<Root>::from_bytes(&graph.to_vec()).map(words).expect("reads");
    let ours = move |count| {
        let mut nanos = 0;
        for _ in 0..count {
            let ready = std::mem::take(&mut words);
            let start = Instant::now();
            let graph = Graph::<Root>::from_words(std::hint::black_box(ready)).expect("reads");
            nanos += start.elapsed().as_nanos();
            words = self::words(graph);
        }
        nanos as f64 / count as f64
    };
    let theirs = Round::new(|| {
        let bytes = std::hint::black_box(as_rkyv.bytes());
        std::ptr::from_ref(rkyv::access::<Theirs, Error>(bytes).expect("reads")).addr()
    });
    medians([Round(Box::new(ours)), theirs], bytes)
}

/// The words that a graph lies in, to be checked again.
fn words<Root: Object>(graph: Graph<Root>) -> Vec<u64> {
    graph.into_segment().into_vec().expect("words")
}

macro_rules! shared {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty),* } $($link:ident: $to:ty),*) => {
        $(#[$doc])*
        #[derive(Debug, Default, rkyv::Archive, rkyv::Serialize)]
        #[rkyv(serialize_bounds(
            __S: rkyv::ser::Writer + rkyv::ser::Sharing,
            __S::Error: rkyv::rancor::Source
        ))]
        #[rkyv(bytecheck(bounds(
            __C: rkyv::validation::ArchiveContext + rkyv::validation::SharedContext,
            __C::Error: rkyv::rancor::Source
        )))]
        pub struct $name {
            $(pub $field: $ty,)*
            $(#[rkyv(omit_bounds)] pub $link: $to,)*
        }
    };
}

shared!(/// A town that others share.
    Town { x: f32, y: f32 } roads: [Option<Rc<Road>>; ROADS]);
shared!(/// Crossroads that others share.
    Crossroads { x: f32, y: f32 } roads: [Option<Rc<Road>>; ROADS]);
shared!(/// A road that others share.
    Road { length: f64 } towns: [Option<Rc<Town>>; 2], crossroads: [Option<Rc<Crossroads>>; 2]);

/// The objects of the map, each with the references that lead away from the first town.
fn acyclic(map: &Map) -> Rc<Town> {
    let junctions = map.towns + map.crossroads;
    let mut roads_of = vec![Vec::new(); junctions];
    for (road, ends) in map.roads.iter().enumerate() {
        ends.iter().for_each(|end| roads_of[*end].push(road));
    }
    // Junctions first, then roads.
    let mut rank = vec![usize::MAX; junctions + map.roads.len()];
    let (mut order, mut open) = (Vec::new(), VecDeque::from([0_usize]));
    rank[0] = 0;
    while let Some(at) = open.pop_front() {
        order.push(at);
        let next: Vec<usize> = match at.checked_sub(junctions) {
            None => roads_of[at].iter().map(|road| junctions + road).collect(),
            Some(road) => map.roads[road].to_vec(),
        };
        for next in next {
            if rank[next] == usize::MAX {
                rank[next] = order.len() + open.len();
                open.push_back(next);
            }
        }
    }
    assert_eq!(order.len(), rank.len(), "all can be reached");
    made(map, &roads_of, &rank, &order)
}

/// The last first: each is shared by some of those before it.
fn made(map: &Map, roads_of: &[Vec<usize>], rank: &[usize], order: &[usize]) -> Rc<Town> {
    let junctions = roads_of.len();
    let mut towns: Vec<Option<Rc<Town>>> = vec![None; map.towns];
    let mut crossroads: Vec<Option<Rc<Crossroads>>> = vec![None; map.crossroads];
    let mut roads: Vec<Option<Rc<Road>>> = vec![None; map.roads.len()];
    for &at in order.iter().rev() {
        let is_onward = |to: usize| rank[to] > rank[at];
        if let Some(number) = at.checked_sub(junctions) {
            let mut road = Road { length: number as f64, ..Road::default() };
            for (side, &end) in
                map.roads[number].iter().enumerate().filter(|(_, end)| is_onward(**end))
            {
                match end.checked_sub(map.towns) {
                    None => road.towns[side].clone_from(&towns[end]),
                    Some(end) => road.crossroads[side].clone_from(&crossroads[end]),
                }
            }
            roads[number] = Some(Rc::new(road));
            continue;
        }
        let onward =
            roads_of[at].iter().enumerate().filter(|(_, road)| is_onward(junctions + **road));
        let mut links: [Option<Rc<Road>>; ROADS] = Default::default();
        onward.for_each(|(slot, road)| links[slot].clone_from(&roads[*road]));
        match at.checked_sub(map.towns) {
            None => towns[at] = Some(Rc::new(Town { x: at as f32, y: 1.0, roads: links })),
            Some(at) => {
                crossroads[at] = Some(Rc::new(Crossroads { x: at as f32, y: 1.0, roads: links }));
            }
        }
    }
    towns.swap_remove(0).expect("it is the root")
}
