//! Messages whose head or slices lie about places and lengths.

use super::hostile::{DOT, MARKS, Message, NODE, NODES, NUMBERS, TEXT, WORLD, refuses};
use crate::graph::fuzzing::{Dot, Node, World, messages};
use crate::graph::{Graph, GraphDefect, GraphRefusal};

const SLOTS: usize = 8;
const COUNT: usize = 16;
const EMPTY: usize = 20;
const DATA: usize = 24;
const DATA_LEN: usize = 32;

const NAMES: [&str; 8] = ["World", "Node", "[u16]", "[Ref<Node>]", "[Mark]", "str", "Dot", "Line"];

/// Where the head tells about a part, and that it is misplaced.
fn misplaced(class: usize, part: usize) -> (usize, GraphDefect) {
    let what = if part == SLOTS { "objects" } else { "elements" };
    let (number, name) = (class, NAMES[class].to_owned());
    (Message::entry(class) + part, GraphDefect::Misplaced { what, number, name })
}

#[test]
fn lengths_of_all_that_lie_are_refused() {
    fn lie(message: &mut Message, said: u64) -> (usize, GraphDefect) {
        let there = message.bytes.len() as u64;
        message.put_word(16, said);
        (16, GraphDefect::Length { said, there })
    }
    refuses(&[
        |message| lie(message, message.bytes.len() as u64 + 8),
        |message| lie(message, message.bytes.len() as u64 - 4),
        |message| lie(message, 0),
        |message| lie(message, 32 + 8 * 40 - 8),
        |message| lie(message, u64::MAX),
        // Shorter, and still longer than the head: the last part is outside.
        |message| {
            message.put_word(16, message.bytes.len() as u64 - 8);
            misplaced(7, SLOTS)
        },
    ]);
}

#[test]
pub(super) fn parts_on_each_other_are_refused() {
    refuses(&[
        |message| {
            let at = message.slots(WORLD) + 8;
            message.put_word(Message::entry(NODE) + SLOTS, at as u64);
            misplaced(NODE, SLOTS)
        },
        |message| {
            let at = message.data(NUMBERS) as u64;
            message.put_word(Message::entry(TEXT) + DATA, at - 8);
            misplaced(TEXT, DATA)
        },
    ]);
}

/// The head that says where parts are is one of them, and slices are part of themselves.
#[test]
fn parts_on_what_describes_them_are_refused() {
    refuses(&[
        |message| {
            message.put_word(Message::entry(NODE) + SLOTS, 0);
            misplaced(NODE, SLOTS)
        },
        |message| {
            message.put_word(Message::entry(NODE) + SLOTS, Message::entry(NODE) as u64);
            misplaced(NODE, SLOTS)
        },
        |message| {
            message.put_word(Message::entry(TEXT) + DATA, Message::entry(TEXT) as u64);
            misplaced(TEXT, DATA)
        },
        |message| {
            let at = message.slots(TEXT) as u64 + 8;
            message.put_word(Message::entry(TEXT) + DATA, at);
            misplaced(TEXT, DATA)
        },
    ]);
}

#[test]
fn parts_outside_are_refused() {
    refuses(&[
        |message| {
            message.put_word(Message::entry(NODE) + SLOTS, message.bytes.len() as u64 - 8);
            misplaced(NODE, SLOTS)
        },
        |message| {
            message.put_word(Message::entry(NODE) + SLOTS, u64::MAX - 7);
            misplaced(NODE, SLOTS)
        },
        |message| {
            let at = message.slots(NODE) as u64;
            message.put_word(Message::entry(NODE) + SLOTS, at + 4);
            misplaced(NODE, SLOTS)
        },
        |message| {
            message.put_word(Message::entry(TEXT) + DATA, 1 << 40);
            misplaced(TEXT, DATA)
        },
    ]);
}

#[test]
fn numbers_of_objects_that_lie_are_refused() {
    refuses(&[
        |message| {
            message.put(Message::entry(NODE) + COUNT, &u32::MAX.to_le_bytes());
            misplaced(NODE, SLOTS)
        },
        |message| {
            message.bytes[Message::entry(NODE) + COUNT] += 1;
            misplaced(NUMBERS, SLOTS)
        },
        |message| {
            message.bytes[Message::entry(NODE) + COUNT] -= 1;
            let class = u8::try_from(NODE).unwrap();
            (message.data(NODES) + 3 * 8, GraphDefect::Dangling { class, index: 3 })
        },
        |message| {
            message.bytes[Message::entry(NODE) + EMPTY] = 5;
            misplaced(NODE, SLOTS)
        },
    ]);
}

/// How many places are empty is counted, not believed.
#[test]
fn empty_places_are_counted() {
    let mut message = Message::new();
    message.bytes[Message::entry(NODE) + EMPTY] = 4;
    let graph = Graph::<World>::from_bytes(&message.bytes).unwrap();
    assert_eq!(graph.len::<Node>(), 4);
    assert_eq!(graph.to_vec(), Message::new().bytes);
}

#[test]
fn lengths_of_elements_that_lie_are_refused() {
    fn lie(message: &mut Message, class: usize, len: impl Fn(u64) -> u64) {
        let at = Message::entry(class) + DATA_LEN;
        message.put_word(at, len(message.word(at)));
    }
    refuses(&[
        |message| {
            lie(message, TEXT, |len| len + 8);
            misplaced(DOT, SLOTS)
        },
        |message| {
            lie(message, TEXT, |_| u64::MAX - 7);
            misplaced(TEXT, DATA)
        },
        |message| {
            lie(message, TEXT, |len| len - 1);
            misplaced(TEXT, DATA)
        },
        |message| {
            lie(message, TEXT, |len| len - 8);
            (message.span(TEXT, 1) + 8, GraphDefect::Span { count: 9 })
        },
        |message| {
            lie(message, TEXT, |_| 0);
            (message.span(TEXT, 0) + 8, GraphDefect::Span { count: 5 })
        },
        // Objects that are no slices have no elements.
        |message| {
            let at = message.data(TEXT) as u64;
            lie(message, TEXT, |_| 0);
            message.put_word(Message::entry(DOT) + DATA, at);
            lie(message, DOT, |_| 8);
            misplaced(DOT, DATA)
        },
    ]);
}

#[test]
fn lengths_of_slices_that_lie_are_refused() {
    fn lie(message: &mut Message, class: usize, index: usize, count: u32) -> (usize, GraphDefect) {
        let at = message.span(class, index) + 8;
        message.put(at + 4, &count.to_le_bytes());
        (at, GraphDefect::Span { count })
    }
    refuses(&[
        |message| lie(message, MARKS, 0, 3),
        |message| lie(message, MARKS, 0, u32::MAX),
        |message| lie(message, TEXT, 1, 17),
        // It begins outside.
        |message| {
            let at = message.span(TEXT, 1) + 8;
            message.put(at, &u32::MAX.to_le_bytes());
            (at, GraphDefect::Span { count: 9 })
        },
    ]);
}

#[test]
pub(super) fn slices_on_each_other_are_refused() {
    refuses(&[
        |message| {
            let at = message.span(TEXT, 1) + 8;
            message.put(at, &0_u32.to_le_bytes());
            (at, GraphDefect::Span { count: 9 })
        },
        // The first reaches into the second.
        |message| {
            let at = message.span(TEXT, 0) + 8;
            message.put(at + 4, &10_u32.to_le_bytes());
            (message.span(TEXT, 1) + 8, GraphDefect::Span { count: 9 })
        },
    ]);
}

/// What was taken away stays in messages as an empty place, which nobody looks into.
#[test]
fn empty_places_travel() {
    let mut graph = Graph::<World>::from_bytes(&messages()[2]).unwrap();
    let (count, texts) = (graph.len::<Node>(), graph.len::<str>());
    let next = graph.to_vec();
    let node = *graph.get(graph.root().first).unwrap();
    let reused = graph.insert(node);
    assert_eq!((reused.index(), graph.len::<Node>()), (4, count + 1), "the empty place");
    assert_eq!(graph.to_vec().len(), next.len(), "and no other");

    graph.compact().unwrap();
    assert_eq!((graph.len::<Node>(), graph.len::<str>()), (count + 1, texts));
    assert!(graph.to_vec().len() < next.len());
    assert!(graph.refs::<Dot>().count() == 1);

    // No value has to be in it.
    let mut message = Message { bytes: next, graph };
    let at = message.slots(NODE) + 4 * (8 + size_of::<Node>());
    message.bytes[at + 8..at + 8 + size_of::<Node>()].fill(0xff);
    assert_eq!(Graph::<World>::from_bytes(&message.bytes).unwrap().len::<Node>(), count);
    // But a slice that was taken away may not lie where others do.
    let at = message.span(TEXT, 2) + 8;
    message.put(at, &0_u32.to_le_bytes());
    let reason = GraphDefect::Span { count: 16 };
    assert_eq!(message.refusal(), GraphRefusal { offset: at, reason });
}
