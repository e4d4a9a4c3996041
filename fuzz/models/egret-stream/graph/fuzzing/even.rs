//! A graph whose classes are looked at by columns, and what is found in it one by one.

use crate::graph::check::{self, Check};
use crate::graph::class::GraphClasses;
use crate::graph::head::GraphHead;
use crate::graph::{Graph, Object, Ref};

#[derive(Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct Tree {
    number: u64,
    children: [Option<Ref<Self>>; 2],
    leaf: Ref<Leaf>,
}

#[derive(Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct Leaf {
    tree: Option<Ref<Tree>>,
    is_green: bool,
    _reserved: [u8; 7],
}

/// A tree of this depth, and a leaf for each of its nodes.
pub(crate) fn tree(depth: u64) -> Graph<Tree> {
    Graph::build(|graph| {
        graph.store.set_seed(super::SEED);
        grow(graph, depth)
    })
}

fn grow(graph: &mut Graph<Tree>, depth: u64) -> Ref<Tree> {
    let children = [(); 2].map(|()| (depth > 1).then(|| grow(graph, depth - 1)));
    let leaf = graph.insert(Leaf { tree: children[0], is_green: true, _reserved: [0; 7] });
    graph.insert(Tree { number: depth, children, leaf })
}

/// What is found of each class by columns, and one by one.
pub(crate) fn verdicts(words: &[u64]) -> Option<[[Result<u32, String>; 2]; 2]> {
    let head = GraphHead::read(GraphClasses::of::<Tree>(), bytemuck::cast_slice(words)).ok()?;
    let look = |class: usize| {
        let mut check = Check { words, arenas: &head.arenas };
        let found = (head.arenas[class].class.check)(&mut check, class);
        let slots = bytemuck::cast_slice(&words[head.arenas[class].slots.words()]);
        let singly = match class {
            0 => check::each::<Tree>(&mut check, class, slots),
            _ => check::each::<Leaf>(&mut check, class, slots),
        };
        [found, singly].map(|found| found.map_err(|refusal| refusal.to_string()))
    };
    (head.arenas.len() == 2).then(|| [look(0), look(1)])
}

/// A message of it, right or not: columns find what one by one finds, and in what is accepted
/// every reference leads somewhere.
pub(super) fn arrive(words: Vec<u64>) {
    for [found, singly] in verdicts(&words).into_iter().flatten() {
        assert_eq!(found, singly);
    }
    let Ok(graph) = Graph::<Tree>::from_words(words) else { return };
    for (_, tree) in graph.iter::<Tree>() {
        let reached = tree.children.into_iter().flatten().all(|child| graph.get(child).is_some());
        assert!(reached && graph.get(tree.leaf).is_some());
    }
    let is_reached = |(_, leaf): (_, &Leaf)| leaf.tree.is_none_or(|tree| graph.get(tree).is_some());
    assert!(graph.iter::<Leaf>().all(is_reached));
}
