//! The graphs that `egret bench graph` and `benches/peers` measure: a map of towns, crossroads
//! and roads, and a tree.
//!
//! A map is drawn once, as a list of who is joined with whom, and then made of objects of one
//! kind or another by the same steps.

use crate::stream::graph::{Graph, Object, Ref};

/// The roads between junctions. A junction is a town, if its number is less than the count of towns, or else
/// crossroads.
#[derive(Debug, Clone)]
pub(crate) struct RoadMap {
    pub(crate) towns: usize,
    pub(crate) crossroads: usize,
    /// The junctions at the two ends of each road.
    pub(crate) roads: Vec<[usize; 2]>,
}

impl RoadMap {
    /// Five of eight objects are roads, so that of the four references of an object two and a
    /// half lead somewhere. One can go from the first town to everywhere.
    pub(crate) fn draw(towns: usize, objects: usize) -> Self {
        let roads = objects * 5 / 8;
        let crossroads = objects - roads - towns;
        let mut random = Random(objects as u64);
        let mut order: Vec<usize> = (1..towns + crossroads).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last + 1));
        }
        let mut free = Free { junctions: vec![0], used: vec![0; towns + crossroads] };
        let mut ends = Vec::with_capacity(roads);
        for junction in order {
            let met = free.claim(random.below(free.junctions.len()));
            free.junctions.push(junction);
            free.claim(free.junctions.len() - 1);
            ends.push([met, junction]);
        }
        while ends.len() < roads {
            let one = free.claim(random.below(free.junctions.len()));
            let other = free.claim(random.below(free.junctions.len()));
            ends.push([one, other]);
        }
        Self { towns, crossroads, roads: ends }
    }

    /// Makes its objects in a `world`: first the junctions, then each road, which is joined with
    /// both ends.
    pub(crate) fn make<W: MapMemory>(&self, world: &mut W) -> (Vec<W::Town>, Vec<W::Crossroads>) {
        let towns: Vec<_> = (0..self.towns).map(|at| world.town(at as f32)).collect();
        let crossroads: Vec<_> =
            (0..self.crossroads).map(|at| world.crossroads(at as f32)).collect();
        for (at, ends) in self.roads.iter().enumerate() {
            let road = world.road(at as f64);
            for (side, &end) in ends.iter().enumerate() {
                match end.checked_sub(self.towns) {
                    None => world.join_town(&road, side, &towns[end]),
                    Some(at) => world.join_crossroads(&road, side, &crossroads[at]),
                }
            }
        }
        (towns, crossroads)
    }

    /// As a graph, whose root is the first town.
    pub(crate) fn graph(&self) -> Graph<Town> {
        Graph::build(|graph| self.make(graph).0[0])
    }
}

/// The junctions at which fewer than four roads end.
struct Free {
    junctions: Vec<usize>,
    /// How many end at each.
    used: Vec<u8>,
}

impl Free {
    fn claim(&mut self, at: usize) -> usize {
        let junction = self.junctions[at];
        self.used[junction] += 1;
        if usize::from(self.used[junction]) == ROADS {
            self.junctions.swap_remove(at);
        }
        junction
    }
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}

/// Where the objects of a map are made.
pub(crate) trait MapMemory {
    type Town;
    type Crossroads;
    type Road;

    fn town(&mut self, x: f32) -> Self::Town;
    fn crossroads(&mut self, x: f32) -> Self::Crossroads;
    fn road(&mut self, length: f64) -> Self::Road;
    /// Lets one side of a road end at a town, and the town know it.
    fn join_town(&mut self, road: &Self::Road, side: usize, town: &Self::Town);
    fn join_crossroads(&mut self, road: &Self::Road, side: usize, crossroads: &Self::Crossroads);
}

/// A town of a graph.
#[derive(Debug, Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct Town {
    pub(crate) x: f32,
    pub(crate) y: f32,
    pub(crate) roads: [Option<Ref<Road>>; ROADS],
}

/// Crossroads of a graph.
#[derive(Debug, Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct Crossroads {
    pub(crate) x: f32,
    pub(crate) y: f32,
    pub(crate) roads: [Option<Ref<Road>>; ROADS],
}

/// A road of a graph, with what it ends at.
#[derive(Debug, Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct Road {
    pub(crate) length: f64,
    pub(crate) towns: [Option<Ref<Town>>; 2],
    pub(crate) crossroads: [Option<Ref<Crossroads>>; 2],
}

impl MapMemory for Graph<Town> {
    type Town = Ref<Town>;
    type Crossroads = Ref<Crossroads>;
    type Road = Ref<Road>;

    fn town(&mut self, x: f32) -> Ref<Town> {
        self.insert(Town { x, y: 1.0, roads: [None; ROADS] })
    }

    fn crossroads(&mut self, x: f32) -> Ref<Crossroads> {
        self.insert(Crossroads { x, y: 1.0, roads: [None; ROADS] })
    }

    fn road(&mut self, length: f64) -> Ref<Road> {
        self.insert(Road { length, towns: [None; 2], crossroads: [None; 2] })
    }

    fn join_town(&mut self, road: &Ref<Road>, side: usize, town: &Ref<Town>) {
        self[*road].towns[side] = Some(*town);
        *first_free(&mut self[*town].roads) = Some(*road);
    }

    fn join_crossroads(&mut self, road: &Ref<Road>, side: usize, crossroads: &Ref<Crossroads>) {
        self[*road].crossroads[side] = Some(*crossroads);
        *first_free(&mut self[*crossroads].roads) = Some(*road);
    }
}

/// Where the next road goes.
pub(crate) fn first_free<T>(roads: &mut [Option<T>; ROADS]) -> &mut Option<T> {
    roads.iter_mut().find(|road| road.is_none()).expect("no more roads than a junction has")
}

/// A tree of a graph.
#[derive(Debug, Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct Tree {
    pub(crate) values: [i32; 4],
    pub(crate) children: [Option<Ref<Tree>>; 2],
}

/// A balanced tree.
pub(crate) fn tree(count: usize) -> Graph<Tree> {
    Graph::build(|graph| grow(graph, count))
}

/// A balanced tree of a graph, or a part of it, that has so many nodes.
pub(crate) fn grow(graph: &mut Graph<Tree>, count: usize) -> Ref<Tree> {
    let children = halves(count).map(|half| (half > 0).then(|| grow(graph, half)));
    graph.insert(Tree { values: [number(count); 4], children })
}

/// How many nodes of so many are below the root, on either side.
pub(crate) fn halves(count: usize) -> [usize; 2] {
    [(count - 1) / 2, count / 2]
}

/// What stands in the root of so many nodes.
pub(crate) fn number(count: usize) -> i32 {
    i32::try_from(count).expect("a few million at most")
}

/// How many roads may end at a junction.
pub(crate) const ROADS: usize = 4;
