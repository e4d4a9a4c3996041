//! Many objects, and nothing that is as deep as they are many.

use crate::graph::{Graph, Object, Ref};

#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Bead {
    number: u64,
    next: Option<Ref<Bead>>,
}

const MANY: u64 = 1_000_000;

/// The numbers from the root on.
fn numbers(graph: &Graph<Bead>) -> impl Iterator<Item = u64> {
    let first = Some(graph.root());
    std::iter::successors(first, |bead| bead.next.map(|next| &graph[next]))
        .map(|reference| reference.number)
}

#[test]
fn a_million_objects_in_a_row() {
    let graph = Graph::build(|graph| {
        let mut next = None;
        for number in (0..MANY).rev() {
            next = Some(graph.insert(Bead { number, next }));
        }
        next.unwrap()
    });
    let message = graph.to_vec();
    drop(graph);
    let words = message.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    drop(message);
    let mut there = Graph::<Bead>::from_words(words).unwrap();
    assert!(numbers(&there).eq(0..MANY));

    // Every second one is taken out of the row.
    let mut last = there.root_ref();
    while let Some(odd) = there[last].next {
        there[last].next = there[odd].next;
        there.remove(odd).unwrap();
        last = match there[last].next {
            Some(next) => next,
            None => break,
        };
    }
    there.compact().unwrap();
    assert_eq!(there.len::<Bead>() as u64, MANY / 2);
    assert!(numbers(&there).eq((0..MANY).step_by(2)));
}

#[test]
#[should_panic(expected = "no memory has room for so many objects")]
fn more_than_memory_is_not_reserved() {
    let mut graph = Graph::new(Bead { number: 1, next: None });
    graph.reserve::<Bead>(usize::MAX / 24 + 2);
}
