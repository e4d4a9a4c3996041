//! A binary tree, as a graph that can travel, and with `Rc`.
//!
//! The two read alike. The graph is one piece of memory: it is sent as it is, and whoever gets it
//! uses it where it lies. That of `Rc`s is a thousand pieces, and stays in this process.

use std::cell::RefCell;
use std::error::Error;
use std::io::{self, Write};
use std::rc::Rc;

use egret::prelude::{Graph, Object, Ref};

const DEPTH: u64 = 10;

#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Tree {
    value: u64,
    left: Option<Ref<Tree>>,
    right: Option<Ref<Tree>>,
}

fn grow(graph: &mut Graph<Tree>, depth: u64) -> Ref<Tree> {
    let left = (depth > 1).then(|| grow(graph, depth - 1));
    let right = (depth > 1).then(|| grow(graph, depth - 1));
    graph.insert(Tree { value: depth, left, right })
}

fn sum(graph: &Graph<Tree>, tree: Ref<Tree>) -> u64 {
    let tree = &graph[tree];
    let left = tree.left.map_or(0, |left| sum(graph, left));
    let right = tree.right.map_or(0, |right| sum(graph, right));
    tree.value + left + right
}

/// Without recursion: a list, or a tree of a million nodes, is no deeper than others.
fn mirror(graph: &mut Graph<Tree>) {
    let mut open = vec![graph.root_ref()];
    while let Some(at) = open.pop() {
        let tree = &mut graph[at];
        std::mem::swap(&mut tree.left, &mut tree.right);
        open.extend(tree.left.into_iter().chain(tree.right));
    }
}

/// The same with `Rc`.
struct RcTree {
    value: u64,
    left: Option<Rc<RefCell<RcTree>>>,
    right: Option<Rc<RefCell<RcTree>>>,
}

fn rc_grow(depth: u64) -> Rc<RefCell<RcTree>> {
    let left = (depth > 1).then(|| rc_grow(depth - 1));
    let right = (depth > 1).then(|| rc_grow(depth - 1));
    Rc::new(RefCell::new(RcTree { value: depth, left, right }))
}

fn rc_sum(tree: &Rc<RefCell<RcTree>>) -> u64 {
    let tree = tree.borrow();
    let left = tree.left.as_ref().map_or(0, rc_sum);
    let right = tree.right.as_ref().map_or(0, rc_sum);
    tree.value + left + right
}

fn rc_mirror(root: &Rc<RefCell<RcTree>>) {
    let mut open = vec![Rc::clone(root)];
    while let Some(at) = open.pop() {
        let tree = &mut *at.borrow_mut();
        std::mem::swap(&mut tree.left, &mut tree.right);
        open.extend(tree.left.iter().chain(&tree.right).cloned());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut graph = Graph::build(|graph| grow(graph, DEPTH));
    graph.root_mut().left = None;
    mirror(&mut graph);
    let of_graph = sum(&graph, graph.root_ref());

    let tree = rc_grow(DEPTH);
    tree.borrow_mut().left = None;
    rc_mirror(&tree);
    assert_eq!(of_graph, rc_sum(&tree));
    assert!(graph.root().right.is_none() && tree.borrow().right.is_none());

    // What is not referred to is still there until it is removed.
    let reached = of_graph;
    let all: u64 = graph.iter::<Tree>().map(|(_, tree)| tree.value).sum();
    assert_eq!(graph.len::<Tree>(), (1 << DEPTH) - 1);
    assert!(all > reached);

    // This is all that it takes to send it.
    let there = Graph::<Tree>::from_bytes(&graph.to_vec())?;
    assert_eq!(sum(&there, there.root_ref()), of_graph);
    let (trees, bytes) = (there.len::<Tree>(), there.byte_len());
    writeln!(io::stdout(), "{trees} nodes in {bytes} bytes, whose sum is {of_graph}")?;
    Ok(())
}
