//! Bytes that are no graph: each refused where it is wrong, and harmless if believed.

use std::mem::offset_of;

use crate::graph::fuzzing::{DOT_END, Dot, Mark, Node, World, graphs, messages};
use crate::graph::{Graph, GraphDefect, GraphError, GraphRefusal, Object, Ref};

/// A message that is right, to be made wrong.
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    /// The graph that it is.
    pub(super) graph: Graph<World>,
}

/// Classes of a world, in the order of a walk over the types.
pub(super) const WORLD: usize = 0;
pub(super) const NODE: usize = 1;
pub(super) const NUMBERS: usize = 2;
pub(super) const NODES: usize = 3;
pub(super) const MARKS: usize = 4;
pub(super) const TEXT: usize = 5;
pub(super) const DOT: usize = 6;

impl Message {
    /// One with some objects of every type.
    pub(super) fn new() -> Self {
        let bytes = messages().swap_remove(1);
        let graph = Graph::from_bytes(&bytes).unwrap();
        Self { bytes, graph }
    }

    pub(super) fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn put_word(&mut self, at: usize, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    /// Where the head tells about a class.
    pub(super) fn entry(class: usize) -> usize {
        32 + class * 40
    }

    /// Where the slots of a class begin.
    pub(super) fn slots(&self, class: usize) -> usize {
        usize::try_from(self.word(Self::entry(class) + 8)).unwrap()
    }

    /// Where the elements of a class begin.
    pub(super) fn data(&self, class: usize) -> usize {
        usize::try_from(self.word(Self::entry(class) + 24)).unwrap()
    }

    /// Where the slot of a slice or text begins.
    pub(super) fn span(&self, class: usize, index: usize) -> usize {
        self.slots(class) + index * 16
    }

    /// Where the value of an object begins.
    pub(super) fn value<T: Object>(&self, reference: Ref<T>) -> usize {
        let stride = 8 + size_of::<T>();
        self.slots(reference.class().into()) + reference.index() as usize * stride + 8
    }

    pub(super) fn refusal(&self) -> GraphRefusal {
        graphs(&[&[0], &self.bytes[..]].concat());
        refusal(Graph::<World>::from_bytes(&self.bytes).unwrap_err())
    }
}

/// Changes a message; gives where it is to be refused, and why.
/// The refusal in an error.
pub(super) fn refusal(error: GraphError) -> GraphRefusal {
    match error {
        GraphError::Refused(refusal) => refusal,
        other => panic!("{other}"),
    }
}

pub(super) type Change = fn(&mut Message) -> (usize, GraphDefect);

pub(super) fn refuses(changes: &[Change]) {
    for (number, change) in changes.iter().enumerate() {
        let mut message = Message::new();
        let (offset, reason) = change(&mut message);
        assert_eq!(message.refusal(), GraphRefusal { offset, reason }, "change {number}");
    }
}

pub(super) fn first(message: &Message) -> Ref<Node> {
    message.graph.root().first
}

#[test]
fn other_beginnings_are_refused() {
    refuses(&[
        |message| {
            message.bytes[3] = b'g';
            (0, GraphDefect::NoGraph)
        },
        |message| {
            message.bytes[4] = 2;
            (4, GraphDefect::Version { found: 2 })
        },
        |message| {
            message.bytes[6] = 9;
            (6, GraphDefect::Classes { graph: "Graph<World>".into(), here: 8, there: 9 })
        },
        |message| {
            message.bytes[Message::entry(NODES)] ^= 1;
            let name = "[Ref<Node>]".into();
            (Message::entry(NODES), GraphDefect::Class { number: NODES, name })
        },
    ]);
}

#[test]
fn every_beginning_of_a_message_is_refused() {
    let message = Message::new();
    let said = message.bytes.len() as u64;
    for len in 0..message.bytes.len() {
        let refusal = refusal(Graph::<World>::from_bytes(&message.bytes[..len]).unwrap_err());
        let there = len as u64 / 8 * 8;
        let (offset, reason) = match len {
            ..32 => (0, GraphDefect::NoGraph),
            _ => (16, GraphDefect::Length { said, there }),
        };
        assert_eq!(refusal, GraphRefusal { offset, reason }, "{len} bytes");
    }
}

/// What stands behind the graph is not part of it, also when it grows.
#[test]
fn what_follows_a_graph_is_nothing() {
    let mut message = Message::new();
    let len = message.bytes.len();
    message.bytes.resize(len + 4096, 0xff);
    let mut graph = Graph::<World>::from_bytes(&message.bytes).unwrap();
    assert_eq!(graph.to_vec(), message.bytes[..len]);
    let dot = graph.insert(Dot(7));
    let text = graph.insert_text("behind");
    assert_eq!((graph[dot].0, &graph[text]), (7, "behind"));
    assert_eq!(graph.get(graph.root_ref()).map(|root| root.first), Some(first(&message)));
    Graph::<World>::from_bytes(graph.into_segment().bytes()).unwrap();
    graphs(&[&[0], &message.bytes[..]].concat());
}

#[test]
pub(super) fn values_that_are_none_are_refused() {
    fn wrong(name: &str, what: &'static str) -> GraphDefect {
        GraphDefect::Value { name: name.into(), what }
    }
    refuses(&[
        |message| {
            let at = message.value(first(message)) + offset_of!(Node, kind);
            message.bytes[at] = 1;
            (at, wrong("Node", "a variant of `Kind`"))
        },
        |message| {
            let at = message.value(first(message)) + offset_of!(Node, is_red);
            message.bytes[at] = 2;
            (at, wrong("Node", "a `bool`, which is 0 or 1"))
        },
        |message| {
            let at = message.value(first(message)) + offset_of!(Node, letter);
            message.put(at, &0xd800_u32.to_le_bytes());
            (at, wrong("Node", "a `char`"))
        },
        |message| {
            let at = message.value(first(message)) + offset_of!(Node, way);
            message.bytes[at] = 3;
            (at, wrong("Node", "a variant of `Way`"))
        },
        |message| {
            let at = message.value(first(message)) + offset_of!(Node, way);
            message.bytes[at] = 1;
            (at + 8, wrong("Node", "a reference, which is not 0"))
        },
        |message| {
            let at = message.value(message.graph.root_ref()) + offset_of!(World, first);
            message.put_word(at, 0);
            (at, wrong("World", "a reference, which is not 0"))
        },
        |message| {
            let at = message.data(MARKS) + size_of::<Mark>() + offset_of!(Mark, is_red);
            message.bytes[at] = 0xff;
            (at, wrong("Mark", "a `bool`, which is 0 or 1"))
        },
        |message| {
            let at = message.data(NODES) + 16;
            message.put_word(at, 0);
            (at, wrong("Ref<Node>", "a reference, which is not 0"))
        },
    ]);
}

#[test]
fn texts_that_are_none_are_refused() {
    refuses(&[
        |message| {
            let at = message.data(TEXT) + 3;
            message.bytes[at] = 0xff;
            (at, GraphDefect::Text)
        },
        // The last character is cut.
        |message| {
            let at = message.span(TEXT, 1);
            message.bytes[at + 12] -= 1;
            (message.data(TEXT) + 8 + 5, GraphDefect::Text)
        },
    ]);
}

#[test]
pub(super) fn what_a_type_says_of_itself_counts() {
    refuses(&[|message| {
        let dot = message.graph.refs::<Dot>().next().unwrap();
        assert_eq!(usize::from(dot.class()), DOT);
        let at = message.value(dot);
        message.put_word(at, DOT_END);
        (at, GraphDefect::Check { name: "Dot".into(), why: "it says no".into() })
    }]);
}

/// Every bit of a small message and of one with much: refused, or a graph that can be used in
/// every way; and believed, one that can be used without harm.
#[test]
fn any_bit_may_be_wrong() {
    let message = messages().swap_remove(0);
    let mut input = [&[0], &message[..]].concat();
    for bit in 0..message.len() * 8 {
        let (at, bit) = (1 + bit / 8, 1 << (bit % 8));
        input[at] ^= bit;
        graphs(&input);
        input[at] ^= bit;
    }
}
