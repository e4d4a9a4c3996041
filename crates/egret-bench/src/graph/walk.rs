//! Visiting every object of a graph, by the same steps whatever the objects are.

use super::map::{Crossroads, ROADS, Road, Town, Tree};
use super::owned::{BoxedTree, Indexed, IndexedTree};
use crate::stream::graph::{Graph, Ref};

/// A map whose objects can be looked at.
pub(crate) trait Land {
    type Town: GraphEdge;
    type Crossroads: GraphEdge;
    type Road: GraphEdge;

    fn start(&self) -> Self::Town;
    fn town(&self, town: Self::Town) -> (f32, &[Option<Self::Road>; ROADS]);
    fn crossroads(&self, crossroads: Self::Crossroads) -> (f32, &[Option<Self::Road>; ROADS]);
    fn road(&self, road: Self::Road) -> (f64, Ends<'_, Self::Town, Self::Crossroads>);
}

/// What a road ends at.
pub(crate) type Ends<'a, T, C> = (&'a [Option<T>; 2], &'a [Option<C>; 2]);

/// What leads to an object.
pub(crate) trait GraphEdge: Copy {
    /// Which of its type the object is.
    fn number(self) -> usize;
}

/// What a walk over a map needs to remember; used again for the next one.
pub(crate) struct Walk<L: Land> {
    open: Vec<OpenObject<L>>,
    towns: SeenObjects,
    crossroads: SeenObjects,
    roads: SeenObjects,
}

enum OpenObject<L: Land> {
    Town(L::Town),
    Crossroads(L::Crossroads),
    Road(L::Road),
}

impl<L: Land> Walk<L> {
    pub(crate) fn new(objects: usize) -> Self {
        let [towns, crossroads, roads] = [(); 3].map(|()| SeenObjects::new(objects));
        Self { open: Vec::with_capacity(objects), towns, crossroads, roads }
    }

    /// Visits all that can be reached; the sum of what is there.
    pub(crate) fn visit(&mut self, land: &L) -> f64 {
        for seen in [&mut self.towns, &mut self.crossroads, &mut self.roads] {
            seen.0.fill(0);
        }
        let start = land.start();
        self.towns.is_new(start);
        self.open.push(OpenObject::Town(start));
        let mut sum = 0.0;
        while let Some(place) = self.open.pop() {
            match place {
                OpenObject::Town(town) => {
                    let (x, roads) = land.town(town);
                    sum += f64::from(x);
                    self.open_roads(roads);
                }
                OpenObject::Crossroads(crossroads) => {
                    let (x, roads) = land.crossroads(crossroads);
                    sum += f64::from(x);
                    self.open_roads(roads);
                }
                OpenObject::Road(road) => {
                    let (length, (towns, crossroads)) = land.road(road);
                    sum += length;
                    for &town in towns.iter().flatten() {
                        if self.towns.is_new(town) {
                            self.open.push(OpenObject::Town(town));
                        }
                    }
                    for &crossroads in crossroads.iter().flatten() {
                        if self.crossroads.is_new(crossroads) {
                            self.open.push(OpenObject::Crossroads(crossroads));
                        }
                    }
                }
            }
        }
        sum
    }

    #[inline]
    fn open_roads(&mut self, roads: &[Option<L::Road>; ROADS]) {
        for &road in roads.iter().flatten() {
            if self.roads.is_new(road) {
                self.open.push(OpenObject::Road(road));
            }
        }
    }
}

/// A bit for each object of a type.
struct SeenObjects(Vec<u64>);

impl SeenObjects {
    fn new(objects: usize) -> Self {
        Self(vec![0; objects.div_ceil(64)])
    }

    /// Whether it was not seen before.
    #[inline]
    fn is_new(&mut self, link: impl GraphEdge) -> bool {
        let (word, bit) = (&mut self.0[link.number() / 64], 1 << (link.number() % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

impl<T> GraphEdge for Ref<T> {
    #[inline]
    fn number(self) -> usize {
        self.index() as usize
    }
}

impl GraphEdge for u32 {
    #[inline]
    fn number(self) -> usize {
        self as usize
    }
}

impl Land for Graph<Town> {
    type Town = Ref<Town>;
    type Crossroads = Ref<Crossroads>;
    type Road = Ref<Road>;

    fn start(&self) -> Ref<Town> {
        self.root_ref()
    }

    #[inline]
    fn town(&self, town: Ref<Town>) -> (f32, &[Option<Ref<Road>>; ROADS]) {
        let town = &self[town];
        (town.x, &town.roads)
    }

    #[inline]
    fn crossroads(&self, crossroads: Ref<Crossroads>) -> (f32, &[Option<Ref<Road>>; ROADS]) {
        let crossroads = &self[crossroads];
        (crossroads.x, &crossroads.roads)
    }

    #[inline]
    fn road(&self, road: Ref<Road>) -> (f64, Ends<'_, Ref<Town>, Ref<Crossroads>>) {
        let road = &self[road];
        (road.length, (&road.towns, &road.crossroads))
    }
}

impl Land for Indexed {
    type Town = u32;
    type Crossroads = u32;
    type Road = u32;

    fn start(&self) -> u32 {
        0
    }

    #[inline]
    fn town(&self, town: u32) -> (f32, &[Option<u32>; ROADS]) {
        let town = &self.towns[town as usize];
        (town.place[0], &town.roads)
    }

    #[inline]
    fn crossroads(&self, crossroads: u32) -> (f32, &[Option<u32>; ROADS]) {
        let crossroads = &self.crossroads[crossroads as usize];
        (crossroads.place[0], &crossroads.roads)
    }

    #[inline]
    fn road(&self, road: u32) -> (f64, Ends<'_, u32, u32>) {
        let road = &self.roads[road as usize];
        (road.length, (&road.towns, &road.crossroads))
    }
}

/// Visits the nodes of a tree, `open` used again for the next one; the sum of what is there.
/// `see` gives the value of a node and its children.
#[inline]
pub(crate) fn over_tree<L, C: IntoIterator<Item = L>>(
    open: &mut Vec<L>,
    root: L,
    see: impl Fn(L) -> (i32, C),
) -> i64 {
    let mut sum = 0;
    open.push(root);
    while let Some(node) = open.pop() {
        let (value, children) = see(node);
        sum += i64::from(value);
        for child in children {
            open.push(child);
        }
    }
    sum
}

pub(crate) fn over_graph(graph: &Graph<Tree>, open: &mut Vec<Ref<Tree>>) -> i64 {
    over_tree(open, graph.root_ref(), |node| {
        let node = &graph[node];
        (node.values[0], node.children.iter().flatten().copied())
    })
}

pub(crate) fn over_boxes<'a>(root: &'a BoxedTree, open: &mut Vec<&'a BoxedTree>) -> i64 {
    over_tree(open, root, |node| (node.values[0], node.children.iter().flatten().map(|b| &**b)))
}

pub(crate) fn over_indices(nodes: &[IndexedTree], root: u32, open: &mut Vec<u32>) -> i64 {
    over_tree(open, root, |node| {
        let node = &nodes[node as usize];
        (node.values[0], node.children.iter().flatten().copied())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::map::{RoadMap, tree};

    #[test]
    fn a_map_has_its_objects_and_all_can_be_reached() {
        for (towns, objects) in [(10, 29), (100, 355), (500, 1760), (28_400, 100_000)] {
            let map = RoadMap::draw(towns, objects);
            let graph = map.graph();
            let counts = [graph.len::<Town>(), graph.len::<Crossroads>(), graph.len::<Road>()];
            assert_eq!((counts[0], counts.iter().sum()), (towns, objects));
            let links = 4.0 * map.roads.len() as f64 / objects as f64;
            assert!((2.4..2.6).contains(&links), "{links}");
            let mut walk = Walk::new(objects);
            let sum = |count: usize| count as f64 * (count - 1) as f64 / 2.0;
            assert_eq!(walk.visit(&graph), counts.map(sum).iter().sum::<f64>());
        }
        assert_eq!(tree(1023).len::<Tree>(), 1023);
    }
}
