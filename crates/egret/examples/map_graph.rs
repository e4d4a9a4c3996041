//! A map of towns, crossroads and roads, as a graph that can travel, and with `Rc`.
//!
//! Roads lead both ways, so the map is full of cycles. With `Rc` these need `Weak`, or leak; in
//! a graph they are references like any other, and the map goes to another process as it is.

use std::cell::RefCell;
use std::error::Error;
use std::io::{self, Write};
use std::rc::{Rc, Weak};

use egret::prelude::{Graph, Object, Ref, Slice, Text};

/// From where to where, and how far. What has no name is a crossroad.
const ROADS: [(&str, &str, u32); 7] = [
    ("Brest", "Quimper", 71),
    ("Brest", "x1", 60),
    ("x1", "Rennes", 182),
    ("Quimper", "Vannes", 119),
    ("Vannes", "Rennes", 113),
    ("Vannes", "x2", 70),
    ("x2", "Nantes", 41),
];

#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Map {
    towns: Slice<Ref<Place>>,
}

/// A town, or a crossroad if it has no name.
#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Place {
    name: Option<Text>,
    /// At most four lead there.
    roads: [Option<Ref<Road>>; 4],
}

#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Road {
    ends: [Ref<Place>; 2],
    km: u64,
}

fn build() -> Graph<Map> {
    Graph::build(|graph| {
        let mut known: Vec<(&str, Ref<Place>)> = Vec::new();
        for (from, to, km) in ROADS {
            let ends = [from, to].map(|name| place(graph, &mut known, name));
            let road = graph.insert(Road { ends, km: km.into() });
            for end in ends {
                let roads = &mut graph[end].roads;
                let free = roads.iter_mut().find(|road| road.is_none()).expect("at most four");
                *free = Some(road);
            }
        }
        let towns = known.iter().map(|(_, place)| *place);
        let towns: Vec<_> = towns.filter(|place| graph[*place].name.is_some()).collect();
        let towns = graph.insert_slice(&towns);
        graph.insert(Map { towns })
    })
}

fn place<'a>(
    graph: &mut Graph<Map>,
    known: &mut Vec<(&'a str, Ref<Place>)>,
    name: &'a str,
) -> Ref<Place> {
    if let Some((_, place)) = known.iter().find(|(other, _)| *other == name) {
        return *place;
    }
    let text = is_town(name).then(|| graph.insert_text(name));
    let place = graph.insert(Place { name: text, roads: [None; 4] });
    known.push((name, place));
    place
}

/// The shortest way between two towns, in kilometres.
fn distance(map: &Graph<Map>, from: &str, to: &str) -> Option<u64> {
    let town = |name: &str| {
        let towns = map[map.root().towns].iter().copied();
        towns.into_iter().find(|town| map[*town].name.is_some_and(|text| &map[text] == name))
    };
    let (from, to) = (town(from)?, town(to)?);
    let mut open = vec![(0, from)];
    let mut seen: Vec<Ref<Place>> = Vec::new();
    while let Some(next) = (0..open.len()).min_by_key(|at| open[*at].0) {
        let (km, here) = open.swap_remove(next);
        if here == to {
            return Some(km);
        }
        if !seen.contains(&here) {
            seen.push(here);
            for road in map[here].roads.iter().flatten().map(|road| map[*road]) {
                open.extend(road.ends.map(|end| (km + road.km, end)));
            }
        }
    }
    None
}

/// The same with `Rc`: one of the two directions must be weak.
struct RcMap {
    places: Vec<Rc<RcPlace>>,
}

struct RcPlace {
    name: String,
    roads: RefCell<Vec<Rc<RcRoad>>>,
}

struct RcRoad {
    ends: [Weak<RcPlace>; 2],
    km: u64,
}

fn rc_build() -> RcMap {
    let mut places: Vec<Rc<RcPlace>> = Vec::new();
    for (from, to, km) in ROADS {
        let ends = [from, to].map(|name| rc_place(&mut places, name));
        let weak = ends.each_ref().map(Rc::downgrade);
        let road = Rc::new(RcRoad { ends: weak, km: km.into() });
        ends.iter().for_each(|end| end.roads.borrow_mut().push(Rc::clone(&road)));
    }
    RcMap { places }
}

fn rc_place(places: &mut Vec<Rc<RcPlace>>, name: &str) -> Rc<RcPlace> {
    if let Some(place) = places.iter().find(|place| place.name == name) {
        return Rc::clone(place);
    }
    let place = Rc::new(RcPlace { name: name.to_owned(), roads: RefCell::default() });
    places.push(Rc::clone(&place));
    place
}

fn rc_distance(map: &RcMap, from: &str, to: &str) -> Option<u64> {
    let town = |name: &str| map.places.iter().find(|place| place.name == name).cloned();
    let (from, to) = (town(from)?, town(to)?);
    let mut open = vec![(0, from)];
    let mut seen: Vec<Rc<RcPlace>> = Vec::new();
    while let Some(next) = (0..open.len()).min_by_key(|at| open[*at].0) {
        let (km, here) = open.swap_remove(next);
        if Rc::ptr_eq(&here, &to) {
            return Some(km);
        }
        if !seen.iter().any(|place| Rc::ptr_eq(place, &here)) {
            for road in &*here.roads.borrow() {
                let ends = road.ends.iter().filter_map(Weak::upgrade);
                open.extend(ends.map(|end| (km + road.km, end)));
            }
            seen.push(here);
        }
    }
    None
}

fn is_town(name: &str) -> bool {
    !name.starts_with('x')
}

fn main() -> Result<(), Box<dyn Error>> {
    let (map, rc_map) = (build(), rc_build());
    // This is all that it takes to send it.
    let there = Graph::<Map>::from_bytes(&map.to_vec())?;
    for (from, to, km) in [("Brest", "Nantes", 301), ("Brest", "Rennes", 242)] {
        assert_eq!(distance(&map, from, to), Some(km));
        assert_eq!(distance(&there, from, to), Some(km));
        assert_eq!(rc_distance(&rc_map, from, to), Some(km));
        writeln!(io::stdout(), "from {from} to {to} it is {km} km")?;
    }
    let (places, roads) = (there.len::<Place>(), there.len::<Road>());
    assert_eq!((places, roads, there.len::<str>()), (7, 7, 5));
    let bytes = there.byte_len();
    writeln!(io::stdout(), "{places} places and {roads} roads are {bytes} bytes")?;
    Ok(())
}
