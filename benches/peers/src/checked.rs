//! Graphs that arrived, up to the moment in which they can be used: egret's check beside the
//! checked access of rkyv, in place both.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use egret_stream::graph::{Graph, Object};
use rkyv::Portable;
use rkyv::api::high::HighValidator;
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error;

use crate::map::{self, ROADS, RoadMap};
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

/// The same for a map: egret's whole, rkyv's without cycles.
pub fn map(towns: usize, objects: usize, back: Back) -> [f64; 2] {
    let map = RoadMap::draw(towns, objects);
    let theirs = acyclic(&map, back);
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

/// What becomes of references that lead back to where one came from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Back {
    /// Nothing: half of all references are left.
    Dropped,
    /// They lead to another object of the same type farther on, if there is one.
    Turned,
}

/// The objects of the map, with references that lead away from the first town alone.
fn acyclic(map: &RoadMap, back: Back) -> Rc<Town> {
    let junctions = map.towns + map.crossroads;
    let mut roads_of = vec![Vec::new(); junctions];
    for (road, ends) in map.roads.iter().enumerate() {
        ends.iter().for_each(|end| roads_of[*end].push(junctions + road));
    }
    let links = |at: usize| match at.checked_sub(junctions) {
        None => &roads_of[at][..],
        Some(road) => &map.roads[road][..],
    };
    let order = order(junctions + map.roads.len(), links);
    let mut made = Made::default();
    for (rank, &at) in order.iter().enumerate().rev() {
        let onward = |to: &usize| match order[rank..].contains(to) {
            true => Some(*to),
            false if back == Back::Dropped => None,
            false => {
                let later = order[rank + 1..].iter().copied();
                let alike: Vec<_> =
                    later.filter(|other| map.kind(*other) == map.kind(*to)).collect();
                alike.get(to * 7919 % alike.len().max(1)).copied()
            }
        };
        let links: Vec<Option<usize>> = links(at).iter().map(onward).collect();
        made.add(map, at, &links);
    }
    made.towns.remove(&0).expect("it is the root")
}

/// All objects, as they are met from the first on.
fn order<'a>(count: usize, links: impl Fn(usize) -> &'a [usize]) -> Vec<usize> {
    let (mut order, mut met) = (vec![0], vec![false; count]);
    met[0] = true;
    for next in 0..count {
        for &link in links(order[next]) {
            if !std::mem::replace(&mut met[link], true) {
                order.push(link);
            }
        }
    }
    order
}

/// What is made already, by number.
#[derive(Default)]
struct Made {
    towns: BTreeMap<usize, Rc<Town>>,
    crossroads: BTreeMap<usize, Rc<Crossroads>>,
    roads: BTreeMap<usize, Rc<Road>>,
}

impl Made {
    fn add(&mut self, map: &RoadMap, at: usize, links: &[Option<usize>]) {
        let mut roads: [Option<Rc<Road>>; ROADS] = Default::default();
        for (road, link) in roads.iter_mut().zip(links) {
            *road = link.and_then(|link| self.roads.get(&link).cloned());
        }
        match map.kind(at) {
            Kind::Town => {
                self.towns.insert(at, Rc::new(Town { x: at as f32, y: 1.0, roads }));
            }
            Kind::Crossroads => {
                self.crossroads.insert(at, Rc::new(Crossroads { x: at as f32, y: 1.0, roads }));
            }
            Kind::Road => {
                let mut road = Road { length: at as f64, ..Road::default() };
                for (side, link) in links.iter().enumerate() {
                    road.towns[side] = link.and_then(|link| self.towns.get(&link).cloned());
                    road.crossroads[side] =
                        link.and_then(|link| self.crossroads.get(&link).cloned());
                }
                self.roads.insert(at, Rc::new(road));
            }
        }
    }
}

/// What an object is.
#[derive(PartialEq, Eq)]
enum Kind {
    Town,
    Crossroads,
    Road,
}

impl RoadMap {
    /// What the object with this number is: towns come first, and roads last.
    fn kind(&self, at: usize) -> Kind {
        match at {
            town if town < self.towns => Kind::Town,
            junction if junction < self.towns + self.crossroads => Kind::Crossroads,
            _ => Kind::Road,
        }
    }
}
