//! A graph and a model of it in `Rc`s, which have the same history.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use egret_net::buf::Pool;

use super::told::{self, Told, WAY};
use super::world::{Sort, World};
use crate::graph::{Graph, GraphDefect, GraphError, GraphRefusal, Ref};

/// What an object of the graph is in the model.
#[derive(Debug)]
struct Item {
    sort: Sort,
    /// How the graph knows it.
    link: Cell<u64>,
    is_alive: Cell<bool>,
    plain: RefCell<Vec<u8>>,
    links: RefCell<Vec<Option<Rc<Item>>>>,
}

impl Item {
    /// What the graph should have.
    fn told(&self) -> Told {
        let links = self.links.borrow();
        let links = links.iter().map(|to| to.as_ref().map(|to| to.link.get())).collect();
        Told { plain: self.plain.borrow().clone(), links }
    }

    /// Whether it refers to what is not there any more: at all, or where it must not.
    fn dangles(&self, must: bool) -> bool {
        let links = self.links.borrow();
        let mut links = links.iter().enumerate();
        let is_dead = |to: &Option<Rc<Self>>| to.as_ref().is_some_and(|to| !to.is_alive.get());
        self.is_alive.get()
            && links.any(|(which, to)| is_dead(to) && (!must || self.sort.needs(which)))
    }
}

/// One thing that happens to both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) what: u8,
    pub(crate) one: u8,
    pub(crate) other: u8,
    pub(crate) value: u16,
}

impl Step {
    /// The steps that bytes are.
    pub(crate) fn read(bytes: &[u8]) -> impl Iterator<Item = Self> {
        let step = |&[what, one, other, low, high]: &[u8; 5]| Self {
            what,
            one,
            other,
            value: u16::from_le_bytes([low, high]),
        };
        bytes.as_chunks().0.iter().map(step)
    }
}

/// Both, and what must not be found.
#[derive(Debug)]
pub(crate) struct History {
    graph: Graph<World>,
    root: Rc<Item>,
    items: Vec<Rc<Item>>,
    /// References that were right once.
    stale: Vec<(Sort, u64)>,
    stranger: Graph<World>,
    pool: Pool,
}

impl History {
    /// One in a buffer of `pool`, or on the heap.
    pub(crate) fn new(pool: &Pool, is_pooled: bool) -> Self {
        let mut items = Vec::new();
        let make = |graph: &mut Graph<World>| begin(graph, &mut items);
        let graph = match is_pooled {
            true => Graph::build_in(pool, 400, make).unwrap_or_else(|_| small()),
            false => Graph::build(make),
        };
        if items.is_empty() {
            return Self::new(pool, false);
        }
        let root = Rc::clone(&items[2]);
        Self { graph, root, items, stale: Vec::new(), stranger: small(), pool: pool.clone() }
    }

    /// Does it to both.
    pub(crate) fn take(&mut self, step: Step) {
        let Step { what, one, other, value } = step;
        let sort = Sort::ALL[usize::from(what % 8)];
        match what >> 3 {
            0..12 => self.insert(sort, value, [one, other]),
            12..18 => self.link(one, other, usize::from(value % 8)),
            18..21 => self.change(one, value),
            21..25 => self.remove(one),
            25 => self.compact(),
            26 | 27 => self.again(value),
            28 => (0..value % 32).for_each(|value| self.insert(sort, value, [one, other])),
            29 => self.graph.reserve::<super::world::Node>(usize::from(value % 64)),
            30 => self.set_root(one),
            _ => {}
        }
    }

    /// An item that is alive, of a sort that a reference may lead to.
    fn pick(&self, from: u8, fits: impl Fn(Sort) -> bool) -> Option<Rc<Item>> {
        let fitting = self.items.iter().filter(|item| item.is_alive.get() && fits(item.sort));
        let fitting: Vec<_> = fitting.collect();
        fitting.get(usize::from(from) % fitting.len().max(1)).map(|item| Rc::clone(item))
    }

    fn insert(&mut self, sort: Sort, value: u16, picks: [u8; 2]) {
        let plain = told::plain(sort, value);
        let count = match sort {
            Sort::World => 6,
            Sort::Node => 5,
            Sort::Line => 2,
            Sort::Nodes => usize::from(value % 8),
            Sort::Marks => plain.len() / 8,
            _ => 0,
        };
        let links: Vec<_> = (0..count)
            .map(|which| {
                let is_wanted = sort.needs(which) || value >> (which % 16) & 1 == 1;
                let is_wanted = is_wanted && !(sort == Sort::Node && which == 4);
                let fits = |to| is_wanted && sort.refers(which, to);
                self.pick(picks[which % 2].wrapping_add(value.to_le_bytes()[which % 2]), fits)
            })
            .collect();
        let lacks = |(which, to): (usize, &Option<_>)| {
            to.is_none() && sort.needs(which) && sort != Sort::Node
        };
        if self.items.len() < ITEMS_MAX && !links.iter().enumerate().any(lacks) {
            let item = Item {
                sort,
                link: Cell::new(0),
                is_alive: Cell::new(true),
                plain: RefCell::new(plain),
                links: RefCell::new(links),
            };
            item.link.set(told::insert(&mut self.graph, sort, &item.told()));
            self.items.push(Rc::new(item));
        }
    }

    /// Sets a reference of an item, or takes it away.
    fn link(&mut self, one: u8, other: u8, which: usize) {
        let Some(item) = self.pick(one, |_| true) else { return };
        let count = item.links.borrow().len();
        if count == 0 {
            return;
        }
        let which = which % count;
        let to = self.pick(other, |to| item.sort.refers(which, to));
        let is_way = item.sort == Sort::Node && which == 4;
        let to = to.filter(|_| !other.is_multiple_of(5) || (item.sort.needs(which) && !is_way));
        if to.is_none() && item.sort.needs(which) && !is_way {
            return;
        }
        if is_way {
            let tag = to.as_ref().map_or(0, |to| if to.sort == Sort::Node { 1 } else { 2 });
            item.plain.borrow_mut()[WAY] = tag;
        }
        item.links.borrow_mut()[which] = to;
        self.write(&item);
    }

    /// Changes what an item has beside references.
    fn change(&mut self, one: u8, value: u16) {
        let Some(item) = self.pick(one, |_| true) else { return };
        let mut plain = item.plain.borrow_mut();
        match item.sort {
            Sort::Text => plain.make_ascii_uppercase(),
            Sort::Node => {
                let way = plain[WAY];
                *plain = told::plain(Sort::Node, value);
                plain[WAY] = way;
            }
            Sort::Dot => *plain = told::plain(Sort::Dot, value),
            Sort::Numbers => plain.fill(value.to_le_bytes()[0]),
            _ => {}
        }
        drop(plain);
        self.write(&item);
    }

    fn write(&mut self, item: &Item) {
        let told = item.told();
        assert!(told::overwrite(&mut self.graph, item.sort, item.link.get(), &told));
    }

    fn remove(&mut self, one: u8) {
        let Some(item) = self.pick(one, |_| true) else { return };
        let is_kept = Rc::ptr_eq(&item, &self.root) && !one.is_multiple_of(4);
        if !is_kept {
            assert!(told::remove(&mut self.graph, item.sort, item.link.get()));
            assert!(!told::remove(&mut self.graph, item.sort, item.link.get()), "only once");
            item.is_alive.set(false);
        }
    }

    fn set_root(&mut self, one: u8) {
        if let Some(item) = self.pick(one, |sort| sort == Sort::World) {
            let link = Ref::from_bits(item.link.get());
            self.graph.set_root(link.expect("it was inserted"));
            self.root = item;
        }
    }

    fn compact(&mut self) {
        let before = Sort::ALL.map(|sort| told::list(&self.graph, sort).0);
        let bytes = self.graph.to_vec();
        let is_wrong =
            !self.root.is_alive.get() || self.items.iter().any(|item| item.dangles(true));
        let compacted = self.graph.compact();
        assert_eq!(compacted.is_err(), is_wrong, "{compacted:?}");
        if compacted.is_err() {
            assert_eq!(self.graph.to_vec(), bytes, "it is as it was");
            return;
        }
        let after = Sort::ALL.map(|sort| told::list(&self.graph, sort).0);
        let moved: BTreeMap<_, _> = before.concat().into_iter().zip(after.concat()).collect();
        for item in &self.items {
            self.stale.push((item.sort, item.link.get()));
            let is_dead = |to: &Option<Rc<Item>>| to.as_ref().is_some_and(|to| !to.is_alive.get());
            item.links.borrow_mut().iter_mut().filter(|to| is_dead(to)).for_each(|to| *to = None);
            if item.is_alive.get() {
                item.link.set(moved[&item.link.get()]);
            }
        }
        let late = self.stale.len().saturating_sub(ITEMS_MAX);
        self.stale.drain(..late);
        let needed: usize = self.graph.to_vec().len();
        assert!(needed <= bytes.len() && needed == self.graph.byte_len());
    }

    /// The graph by a way that it can be sent, saved or copied.
    fn again(&mut self, way: u16) {
        let received = match way % 6 {
            0 => Ok(self.graph.clone()),
            1 => Graph::from_bytes(&self.graph.to_vec()),
            2 => {
                let bytes = self.graph.to_vec();
                let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
                Graph::from_words(words.collect()).map_err(|refused| refused.why)
            }
            3 => Graph::from_bytes(self.graph.clone().into_segment().bytes()),
            4 => match self.pool.take(self.graph.byte_len()) {
                Err(_) => return,
                Ok(mut buf) => {
                    buf.bytes_mut().copy_from_slice(&self.graph.to_vec());
                    Graph::from_buf(buf).map_err(|refused| refused.why)
                }
            },
            _ => self.handed(),
        };
        self.adopt(received, way.is_multiple_of(6));
    }

    /// The graph from a file.
    #[cfg(test)]
    pub(crate) fn save_and_load(&mut self, path: &std::path::Path) {
        self.graph.save(path).unwrap();
        self.adopt(Graph::load(path), false);
    }

    /// Goes on with what arrived, which is refused if something in it leads nowhere, unless it
    /// is a copy.
    fn adopt(&mut self, received: Result<Graph<World>, GraphError>, is_copy: bool) {
        let is_wrong = self.is_wrong();
        match received {
            Ok(graph) => {
                assert!(!is_wrong || is_copy);
                assert_eq!(graph.to_vec(), self.graph.to_vec());
                self.graph = graph;
                self.graph.grow_in(&self.pool);
            }
            Err(GraphError::Refused(GraphRefusal { reason, .. })) => {
                assert!(
                    is_wrong && matches!(reason, GraphDefect::Dangling { .. } | GraphDefect::Root)
                );
            }
            Err(why) => panic!("{why}"),
        }
    }

    /// Whether something leads nowhere.
    fn is_wrong(&self) -> bool {
        !self.root.is_alive.get() || self.items.iter().any(|item| item.dangles(false))
    }

    /// The graph in the very buffer that it lies in, as it is handed over.
    fn handed(&mut self) -> Result<Graph<World>, GraphError> {
        let graph = std::mem::replace(&mut self.graph, small());
        let (copy, segment) = (graph.clone(), graph.into_segment());
        self.graph = copy;
        match segment.into_buf() {
            Ok(buf) => Graph::from_buf(buf).map_err(|refused| refused.why),
            Err(segment) => Graph::from_words(segment.into_vec().expect("it is words"))
                .map_err(|refused| refused.why),
        }
    }

    /// Whether both are the same, as far as anybody can see.
    pub(crate) fn check(&self) {
        self.walk();
        assert_eq!(self.graph.check().is_err(), self.is_wrong(), "what would be refused");
        for item in &self.items {
            let found = told::tell(&self.graph, item.sort, item.link.get());
            assert_eq!(found, item.is_alive.get().then(|| item.told()), "{:?}", item.sort);
        }
        let strange = Sort::ALL.map(|sort| (sort, told::list(&self.stranger, sort).0));
        for (sort, links) in &strange {
            let found = links.iter().any(|link| told::tell(&self.graph, *sort, *link).is_some());
            assert!(!found, "a {sort:?} of another graph");
        }
        for (sort, link) in &self.stale {
            assert_eq!(told::tell(&self.graph, *sort, *link), None, "it was moved");
        }
        for sort in Sort::ALL {
            let (mut links, count) = told::list(&self.graph, sort);
            let alive = self.items.iter().filter(|item| item.is_alive.get() && item.sort == sort);
            let mut expected: Vec<_> = alive.map(|item| item.link.get()).collect();
            assert_eq!(count, expected.len(), "{sort:?}");
            links.sort_unstable();
            expected.sort_unstable();
            assert_eq!(links, expected, "{sort:?}");
            let strange = |link: &u64| told::tell(&self.stranger, sort, *link).is_some();
            assert!(!links.iter().any(strange), "another graph has none of these");
        }
    }

    /// What can be reached from the root has the same shape: a reference for each item, and an
    /// item for each reference.
    fn walk(&self) {
        let mut items: BTreeMap<u64, *const Item> = BTreeMap::new();
        let mut links: BTreeMap<*const Item, u64> = BTreeMap::new();
        let mut open = vec![(self.graph.root_ref().to_bits(), Rc::clone(&self.root))];
        while let Some((link, item)) = open.pop() {
            let known = items.insert(link, Rc::as_ptr(&item));
            assert!(known.is_none_or(|known| known == Rc::as_ptr(&item)), "two items, one object");
            let before = links.insert(Rc::as_ptr(&item), link);
            assert!(before.is_none_or(|before| before == link), "one item, two objects");
            let found = told::tell(&self.graph, item.sort, link);
            assert_eq!(found.is_some(), item.is_alive.get());
            let Some(found) = found.filter(|_| known.is_none()) else { continue };
            assert_eq!(found.plain, *item.plain.borrow());
            let expected = item.links.borrow();
            assert_eq!(found.links.len(), expected.len());
            for pair in found.links.iter().zip(&*expected) {
                match pair {
                    (None, None) => {}
                    (Some(link), Some(item)) => open.push((*link, Rc::clone(item))),
                    _ => panic!("{pair:?}: a reference here and none there"),
                }
            }
        }
    }
}

/// Opens the cycles.
impl Drop for History {
    fn drop(&mut self) {
        self.items.iter().for_each(|item| item.links.borrow_mut().clear());
    }
}

/// Inserts what every world has, in both; gives the root.
fn begin(graph: &mut Graph<World>, items: &mut Vec<Rc<Item>>) -> Ref<World> {
    let mut add = |sort, links: Vec<Option<Rc<Item>>>| {
        let (plain, links) = (RefCell::new(told::plain(sort, 3)), RefCell::new(links));
        let item = Item { sort, link: Cell::new(0), is_alive: Cell::new(true), plain, links };
        item.link.set(told::insert(graph, sort, &item.told()));
        items.push(Rc::new(item));
        Rc::clone(&items[items.len() - 1])
    };
    let node = add(Sort::Node, vec![None; 5]);
    let numbers = add(Sort::Numbers, Vec::new());
    let world = add(Sort::World, vec![Some(node), Some(numbers), None, None, None, None]);
    Ref::from_bits(world.link.get()).expect("it was inserted")
}

/// A graph that has nothing to do with any other.
fn small() -> Graph<World> {
    Graph::build(|graph| begin(graph, &mut Vec::new()))
}

/// Items of a history, dead ones too.
const ITEMS_MAX: usize = 200;
