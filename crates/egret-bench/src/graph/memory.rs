//! What a graph costs in the memory of one process.

use std::hint::black_box;

use egret::rt;

use super::map::{Town, tree};
use super::owned::{CountedMap, Indexed, boxed_tree, counted_tree, indexed_tree};
use super::shape::GraphShape;
use super::walk::{Walk, over_boxes, over_graph, over_indices};
use crate::measure::Probe;
use crate::measure::probe::Batches;
use crate::serialize::{memcpy, repeat};
use crate::stream::graph::{Graph, Object};

/// Something to measure, and what to hold it against.
pub(crate) struct GraphComparison {
    pub(crate) subject: Box<dyn Probe>,
    pub(crate) limit: &'static str,
    pub(crate) least: Box<dyn Probe>,
    /// Of a message with the graph.
    pub(crate) bytes: usize,
}

/// Beside the same of counted references. That either is dropped is in no time.
pub(crate) fn build(which: GraphShape) -> GraphComparison {
    let objects = which.objects();
    let Some(map) = which.map() else {
        let bytes = tree(objects).byte_len();
        let subject = repeat(bytes, move || tree(black_box(objects)));
        let least = repeat(bytes, move || counted_tree(black_box(objects)));
        return GraphComparison { subject, limit: "rc", least, bytes };
    };
    let (bytes, other) = (map.graph().byte_len(), map.clone());
    let subject = repeat(bytes, move || black_box(&map).graph());
    let least = repeat(bytes, move || CountedMap::new(black_box(&other)));
    GraphComparison { subject, limit: "rc", least, bytes }
}

/// Beside copying the message.
pub(crate) fn validate(which: GraphShape) -> GraphComparison {
    match which.map() {
        None => validated(&tree(which.objects())),
        Some(map) => validated(&map.graph()),
    }
}

fn validated<Root: Object>(graph: &Graph<Root>) -> GraphComparison {
    let message: &'static [u8] = Box::leak(graph.to_vec().into_boxed_slice());
    let (limit, least) = memcpy(message);
    GraphComparison { subject: checks::<Root>(message), limit, least, bytes: message.len() }
}

/// The words of a message become a graph, and off the clock words again.
pub(crate) fn checks<Root: Object>(message: &[u8]) -> Box<dyn Probe> {
    let size = (BATCH_BYTES / message.len()).clamp(1, BATCH);
    let graph = Graph::<Root>::from_bytes(message).expect("it was a graph");
    let mut graphs = vec![graph; size];
    Box::new(Batches::new(size, move |_| {
        let words = |graph: Graph<Root>| graph.into_segment().into_vec::<u64>().expect("words");
        let ready: Vec<Vec<u64>> = graphs.drain(..).map(words).collect();
        let start = rt::now();
        for words in ready {
            graphs.push(Graph::from_words(black_box(words)).expect("it was a graph"));
        }
        rt::now() - start
    }))
}

/// Beside the same walk over objects in vectors.
pub(crate) fn visit(which: GraphShape) -> GraphComparison {
    let objects = which.objects();
    let Some(map) = which.map() else { return visit_tree(objects) };
    let (graph, indexed) = (map.graph(), Indexed::new(&map));
    let bytes = graph.byte_len();
    let (mut walk, mut other) = (Walk::<Graph<Town>>::new(objects), Walk::new(objects));
    assert_eq!(walk.visit(&graph), other.visit(&indexed), "they are the same map");
    let subject = repeat(bytes, move || walk.visit(black_box(&graph)));
    let least = repeat(bytes, move || other.visit(black_box(&indexed)));
    GraphComparison { subject, limit: "index", least, bytes }
}

fn visit_tree(objects: usize) -> GraphComparison {
    let (graph, mut nodes) = (tree(objects), Vec::new());
    let root = indexed_tree(&mut nodes, objects);
    let (bytes, mut open, mut other) = (graph.byte_len(), Vec::new(), Vec::new());
    let sums = [over_graph(&graph, &mut open), over_indices(&nodes, root, &mut other)];
    assert_eq!(sums[0], sums[1], "they are the same tree");
    let subject = repeat(bytes, move || over_graph(black_box(&graph), &mut open));
    let least = repeat(bytes, move || over_indices(black_box(&nodes), root, &mut other));
    GraphComparison { subject, limit: "index", least, bytes }
}

/// Of the tree, beside the same walk over boxes.
pub(crate) fn visit_boxes(which: GraphShape) -> GraphComparison {
    let graph = tree(which.objects());
    let root: &'static _ = Box::leak(boxed_tree(which.objects()));
    let (bytes, mut open, mut other) = (graph.byte_len(), Vec::new(), Vec::new());
    assert_eq!(over_graph(&graph, &mut open), over_boxes(root, &mut Vec::new()));
    let subject = repeat(bytes, move || over_graph(black_box(&graph), &mut open));
    let least = repeat(bytes, move || over_boxes(black_box(root), &mut other));
    GraphComparison { subject, limit: "box", least, bytes }
}

/// A large block given back teaches the allocator to keep what it has: what follows is not
/// about new pages.
pub(crate) fn settle_heap() {
    drop(black_box(vec![1_u8; 24 << 20]));
}

/// How many in a batch, and the bytes of all.
const BATCH: usize = 100;
const BATCH_BYTES: usize = 100_000;
