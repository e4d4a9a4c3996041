//! Types of graphs, and nodes that send them.

use std::time::Duration;

use egret::graph::Graphs;
use egret::node::registry::{Registry, RegistryOptions};
use egret::node::{Node, NodeError, Route};
use egret::prelude::{Graph, Object, Ref, Slice, Text};
use egret::rt::{self, Deadline};

#[derive(Debug, Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct Car {
    pub(crate) year: u64,
    pub(crate) name: Text,
    pub(crate) engine: Option<Ref<Engine>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Object)]
#[repr(C)]
pub(crate) struct Engine {
    pub(crate) power: u64,
    pub(crate) car: Option<Ref<Car>>,
}

/// A ring of any length.
#[derive(Debug, Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct Ring {
    pub(crate) number: u64,
    pub(crate) next: Option<Ref<Self>>,
    pub(crate) load: Option<Slice<u8>>,
}

pub(crate) fn car(graph: &mut Graph<Car>, year: u64, power: u64) -> Ref<Car> {
    let name = graph.insert_text("2 CV");
    let engine = graph.insert(Engine { power, car: None });
    let car = graph.insert(Car { year, name, engine: Some(engine) });
    graph[engine].car = Some(car);
    car
}

pub(crate) fn assert_car(graph: &Graph<Car>, year: u64, power: u64) {
    let car = graph.root();
    assert_eq!((car.year, &graph[car.name]), (year, "2 CV"));
    let engine = graph[car.engine.unwrap()];
    assert_eq!(engine, Engine { power, car: Some(graph.root_ref()) });
}

pub(crate) fn ring(count: u64) -> Graph<Ring> {
    Graph::build(|graph| {
        let first = graph.insert(Ring { number: 0, next: None, load: None });
        let last = (1..count).rev().fold(first, |next, number| {
            graph.insert(Ring { number, next: Some(next), load: None })
        });
        graph[first].next = Some(last);
        first
    })
}

pub(crate) fn assert_ring(graph: &Graph<Ring>, count: u64) {
    let mut at = graph.root_ref();
    for number in 0..count {
        assert_eq!(graph[at].number, number);
        at = graph[at].next.unwrap();
    }
    assert_eq!(at, graph.root_ref());
    assert_eq!(graph.len::<Ring>() as u64, count);
}

pub(crate) fn pool(size: u32, fabrics: &str) -> (Registry, Vec<Node>) {
    let options = RegistryOptions::new("graphs", size).secret("hush".into());
    let registry = Registry::open(options).unwrap();
    let nodes = (0..size).map(|_| {
        let config = registry.config();
        Node::join(config.fabrics(fabrics)).unwrap()
    });
    let nodes = nodes.collect();
    (registry, nodes)
}

/// The way from one node to another, once that is heard of.
pub(crate) fn route(from: &Node, to: &Node) -> Route {
    let until = LONG.until().unwrap();
    loop {
        match from.route(to.id()) {
            Err(NodeError::Unknown { .. }) if rt::now() < until => {
                rt::park(Some(rt::now() + Duration::from_millis(1)));
            }
            route => return route.unwrap(),
        }
    }
}

/// Graphs on each of two nodes; they are dropped before the nodes.
pub(crate) struct Pair<Root: Object> {
    pub(crate) here: Graphs<Root>,
    pub(crate) there: Graphs<Root>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) _registry: Registry,
}

pub(crate) fn pair<Root: Object>(fabrics: &str) -> Pair<Root> {
    let (registry, nodes) = pool(2, fabrics);
    let (here, there) = (Graphs::join(&nodes[0]).unwrap(), Graphs::join(&nodes[1]).unwrap());
    Pair { here, there, nodes, _registry: registry }
}

pub(crate) const FABRICS: [&str; 2] = ["shm", "tcp"];
/// Long enough for anything that comes to an end.
pub(crate) const LONG: Deadline = Deadline::In(Duration::from_secs(30));
/// For what does not come.
pub(crate) const SHORT: Deadline = Deadline::In(Duration::from_millis(200));
