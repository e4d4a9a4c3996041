//! References and roots that lead nowhere, or elsewhere; slots that are none.

use std::mem::offset_of;

use egret_net::buf::Block;

use super::hostile::{Message, NODE, first, refuses};
use crate::graph::fuzzing::{Dot, Line, Node, World};
use crate::graph::{Graph, GraphDefect, GraphRefusal, Ref};

/// Writes a reference to the first node's first neighbour.
fn next(message: &mut Message, reference: Ref<Node>) -> usize {
    let at = message.value(first(message)) + offset_of!(Node, next);
    message.put_word(at, reference.to_bits());
    at
}

#[test]
pub(super) fn references_past_the_end_are_refused() {
    refuses(&[
        |message| {
            let reference = Ref::new(first(message).class(), 4, first(message).stamp()).unwrap();
            (next(message, reference), GraphDefect::Dangling { class: 1, index: 4 })
        },
        |message| {
            let reference =
                Ref::new(first(message).class(), u32::MAX, first(message).stamp()).unwrap();
            (next(message, reference), GraphDefect::Dangling { class: 1, index: u32::MAX })
        },
    ]);
}

#[test]
fn references_to_no_class_are_refused() {
    refuses(&[|message| {
        let reference = Ref::new(200, 0, first(message).stamp()).unwrap();
        (next(message, reference), GraphDefect::Dangling { class: 200, index: 0 })
    }]);
}

/// The stamp is that of an object that was there before, or will be.
#[test]
fn references_with_another_stamp_are_refused() {
    refuses(&[
        |message| {
            let reference = Ref::new(1, 0, first(message).stamp() - 1).unwrap();
            (next(message, reference), GraphDefect::Dangling { class: 1, index: 0 })
        },
        |message| {
            let at = message.value(message.graph.root_ref()) + offset_of!(World, numbers);
            message.bytes[at + 4] ^= 1;
            (at, GraphDefect::Dangling { class: 2, index: 0 })
        },
        // No stamp at all.
        |message| {
            let reference = Ref::from_bits(1 << 56 | 1).unwrap();
            (next(message, reference), GraphDefect::Dangling { class: 1, index: 1 })
        },
    ]);
}

#[test]
pub(super) fn references_to_another_type_are_refused() {
    fn other(found: &str, wanted: &str) -> GraphDefect {
        GraphDefect::OtherClass { found: found.into(), wanted: wanted.into() }
    }
    refuses(&[
        |message| {
            let dot = message.graph.refs::<Dot>().next().unwrap();
            (next(message, dot.cast()), other("Dot", "Node"))
        },
        |message| {
            let text = message.graph.refs::<str>().next().unwrap();
            (next(message, text.cast()), other("str", "Node"))
        },
        |message| {
            let at = message.value(first(message)) + offset_of!(Node, thing);
            message.put_word(at, first(message).to_bits());
            (at, other("Node", "dyn Thing"))
        },
        |message| {
            let line = message.graph.refs::<Line>().next().unwrap();
            let at = message.value(line) + offset_of!(Line, from);
            message.put_word(at, line.to_bits());
            (at, other("Line", "Node"))
        },
        |message| {
            let at = message.value(message.graph.root_ref()) + offset_of!(World, numbers);
            let text = message.graph.refs::<str>().next().unwrap();
            message.put_word(at, text.to_bits());
            (at, other("str", "[u16]"))
        },
    ]);
}

/// The message of a graph in which something refers to what was taken away.
#[test]
fn references_to_what_was_taken_away_are_refused() {
    let mut message = Message::new();
    let line = message.graph.refs::<Line>().next().unwrap();
    message.graph.remove(line).unwrap();
    message.bytes = message.graph.to_vec();
    let offset = message.value(first(&message)) + offset_of!(Node, thing);
    let reason = GraphDefect::Dangling { class: line.class(), index: 0 };
    assert_eq!(message.refusal(), GraphRefusal { offset, reason });
    // The same in a slice, and by a reference that is not optional.
    let mut message = Message::new();
    let node = message.graph.refs::<Node>().last().unwrap();
    message.graph.remove(node).unwrap();
    message.bytes = message.graph.to_vec();
    let offset = message.data(3) + 3 * 8;
    let reason = GraphDefect::Dangling { class: 1, index: 3 };
    assert_eq!(message.refusal(), GraphRefusal { offset, reason });
}

#[test]
fn slots_that_are_none_are_refused() {
    fn wrong() -> GraphDefect {
        GraphDefect::Header { name: "Node".into() }
    }
    // Nothing that is looked at before refers to this one.
    fn last(message: &Message) -> usize {
        message.slots(NODE) + 3 * (8 + size_of::<Node>())
    }
    refuses(&[
        |message| {
            let at = last(message);
            message.put_word(at, 0);
            (at, wrong())
        },
        // Another class, no stamp, bits that mean nothing.
        |message| {
            let at = last(message);
            message.bytes[at + 3] = 2;
            (at, wrong())
        },
        |message| {
            let at = last(message);
            message.put(at, &[0; 3]);
            (at, wrong())
        },
        |message| {
            let at = last(message);
            message.bytes[at + 4] = 2;
            (at, wrong())
        },
        |message| {
            let at = last(message);
            message.bytes[at + 7] = 1;
            (at, wrong())
        },
    ]);
}

/// The objects of a class are said to begin eight bytes later, in the middle of each.
#[test]
fn references_into_the_middle_are_refused() {
    refuses(&[|message| {
        let entry = Message::entry(NODE);
        message.put_word(entry + 8, message.slots(NODE) as u64 + 8);
        message.bytes[entry + 16] -= 1;
        let at = message.value(message.graph.root_ref()) + offset_of!(World, first);
        (at, GraphDefect::Dangling { class: 1, index: 0 })
    }]);
}

#[test]
pub(super) fn a_root_that_is_none_is_refused() {
    refuses(&[
        |message| {
            message.put_word(8, 0);
            (8, GraphDefect::Root)
        },
        |message| {
            message.put_word(8, first(message).to_bits());
            (8, GraphDefect::Root)
        },
        |message| {
            message.bytes[8] = 1;
            (8, GraphDefect::Root)
        },
        |message| {
            let root = message.graph.root_ref();
            message.graph.remove(root).unwrap();
            message.bytes = message.graph.to_vec();
            (8, GraphDefect::Root)
        },
    ]);
}

fn believed(message: &Message) -> Result<Graph<World>, GraphRefusal> {
    let words = message.bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    let block = Block::on_heap(words.collect());
    Graph::from_block(block, false).map_err(|refused| refused.0)
}

/// It can be sent on and compacted, so it has a root.
#[test]
fn a_graph_that_is_believed_has_a_root() {
    let mut message = Message::new();
    assert!(believed(&message).is_ok());
    message.put_word(8, 0);
    let refusal = GraphRefusal { offset: 8, reason: GraphDefect::Root };
    assert_eq!(believed(&message).unwrap_err(), refusal);
}

#[test]
fn a_graph_that_is_believed_may_lie_about_empty_places() {
    let mut message = Message::new();
    message.bytes[Message::entry(NODE) + 20] = 4;
    let mut graph = believed(&message).unwrap();
    assert_eq!(graph.len::<Node>(), 0, "as it says");
    let nodes: Vec<_> = graph.refs::<Node>().collect();
    assert_eq!(nodes.len(), 4);
    assert!(nodes.iter().all(|node| graph.remove(*node).is_some()));
    assert_eq!((graph.len::<Node>(), graph.refs::<Node>().count()), (0, 0));
    assert!(format!("{graph:?}").contains("Node: 0"));
}
