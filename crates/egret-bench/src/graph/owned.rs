//! The graphs as programs have them without egret: of counted references, of numbers of places
//! in vectors, and of boxes.

use std::cell::RefCell;
use std::rc::Rc;

use super::map::{MapMemory, ROADS, RoadMap, first_free, halves, number};

/// A map of counted references, taken apart when it is dropped.
pub(crate) struct CountedMap {
    towns: Vec<Rc<RefCell<CountedTown>>>,
    crossroads: Vec<Rc<RefCell<CountedCrossroads>>>,
}

struct CountedTown {
    _place: [f32; 2],
    roads: [Option<Rc<RefCell<CountedRoad>>>; ROADS],
}

struct CountedCrossroads {
    _place: [f32; 2],
    roads: [Option<Rc<RefCell<CountedRoad>>>; ROADS],
}

struct CountedRoad {
    _length: f64,
    towns: [Option<Rc<RefCell<CountedTown>>>; 2],
    crossroads: [Option<Rc<RefCell<CountedCrossroads>>>; 2],
}

impl CountedMap {
    pub(crate) fn new(map: &RoadMap) -> Self {
        let (towns, crossroads) = map.make(&mut Counting);
        Self { towns, crossroads }
    }
}

impl Drop for CountedMap {
    fn drop(&mut self) {
        for town in &self.towns {
            town.borrow_mut().roads = Default::default();
        }
        for crossroads in &self.crossroads {
            crossroads.borrow_mut().roads = Default::default();
        }
    }
}

struct Counting;

impl MapMemory for Counting {
    type Town = Rc<RefCell<CountedTown>>;
    type Crossroads = Rc<RefCell<CountedCrossroads>>;
    type Road = Rc<RefCell<CountedRoad>>;

    fn town(&mut self, x: f32) -> Self::Town {
        Rc::new(RefCell::new(CountedTown { _place: [x, 1.0], roads: Default::default() }))
    }

    fn crossroads(&mut self, x: f32) -> Self::Crossroads {
        Rc::new(RefCell::new(CountedCrossroads { _place: [x, 1.0], roads: Default::default() }))
    }

    fn road(&mut self, length: f64) -> Self::Road {
        let (towns, crossroads) = Default::default();
        Rc::new(RefCell::new(CountedRoad { _length: length, towns, crossroads }))
    }

    fn join_town(&mut self, road: &Self::Road, side: usize, town: &Self::Town) {
        road.borrow_mut().towns[side] = Some(Rc::clone(town));
        *first_free(&mut town.borrow_mut().roads) = Some(Rc::clone(road));
    }

    fn join_crossroads(&mut self, road: &Self::Road, side: usize, crossroads: &Self::Crossroads) {
        road.borrow_mut().crossroads[side] = Some(Rc::clone(crossroads));
        *first_free(&mut crossroads.borrow_mut().roads) = Some(Rc::clone(road));
    }
}

/// A map whose objects know each other by their places in vectors.
#[derive(Default)]
pub(crate) struct Indexed {
    pub(crate) towns: Vec<IndexedJunction>,
    pub(crate) crossroads: Vec<IndexedJunction>,
    pub(crate) roads: Vec<IndexedRoad>,
}

pub(crate) struct IndexedJunction {
    pub(crate) place: [f32; 2],
    pub(crate) roads: [Option<u32>; ROADS],
}

pub(crate) struct IndexedRoad {
    pub(crate) length: f64,
    pub(crate) towns: [Option<u32>; 2],
    pub(crate) crossroads: [Option<u32>; 2],
}

impl Indexed {
    pub(crate) fn new(map: &RoadMap) -> Self {
        let mut indexed = Self::default();
        map.make(&mut indexed);
        indexed
    }
}

impl MapMemory for Indexed {
    type Town = u32;
    type Crossroads = u32;
    type Road = u32;

    fn town(&mut self, x: f32) -> u32 {
        push(&mut self.towns, IndexedJunction { place: [x, 1.0], roads: [None; ROADS] })
    }

    fn crossroads(&mut self, x: f32) -> u32 {
        push(&mut self.crossroads, IndexedJunction { place: [x, 1.0], roads: [None; ROADS] })
    }

    fn road(&mut self, length: f64) -> u32 {
        push(&mut self.roads, IndexedRoad { length, towns: [None; 2], crossroads: [None; 2] })
    }

    fn join_town(&mut self, road: &u32, side: usize, town: &u32) {
        self.roads[*road as usize].towns[side] = Some(*town);
        *first_free(&mut self.towns[*town as usize].roads) = Some(*road);
    }

    fn join_crossroads(&mut self, road: &u32, side: usize, crossroads: &u32) {
        self.roads[*road as usize].crossroads[side] = Some(*crossroads);
        *first_free(&mut self.crossroads[*crossroads as usize].roads) = Some(*road);
    }
}

/// Where `item` is from now on.
fn push<T>(to: &mut Vec<T>, item: T) -> u32 {
    to.push(item);
    u32::try_from(to.len() - 1).expect("a few million at most")
}

/// A tree of counted references.
pub(crate) struct CountedTree {
    _values: [i32; 4],
    _children: [Option<Rc<RefCell<CountedTree>>>; 2],
}

pub(crate) fn counted_tree(count: usize) -> Rc<RefCell<CountedTree>> {
    let children = halves(count).map(|half| (half > 0).then(|| counted_tree(half)));
    let values = [number(count); 4];
    Rc::new(RefCell::new(CountedTree { _values: values, _children: children }))
}

/// A tree of boxes.
pub(crate) struct BoxedTree {
    pub(crate) values: [i32; 4],
    pub(crate) children: [Option<Box<BoxedTree>>; 2],
}

pub(crate) fn boxed_tree(count: usize) -> Box<BoxedTree> {
    let children = halves(count).map(|half| (half > 0).then(|| boxed_tree(half)));
    Box::new(BoxedTree { values: [number(count); 4], children })
}

/// A node of a tree in a vector.
pub(crate) struct IndexedTree {
    pub(crate) values: [i32; 4],
    pub(crate) children: [Option<u32>; 2],
}

/// Adds a tree; gives where its root is.
pub(crate) fn indexed_tree(nodes: &mut Vec<IndexedTree>, count: usize) -> u32 {
    let children = halves(count).map(|half| (half > 0).then(|| indexed_tree(nodes, half)));
    push(nodes, IndexedTree { values: [number(count); 4], children })
}
