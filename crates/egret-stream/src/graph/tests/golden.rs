//! The bytes of a graph, for ever.

use crate::graph::fuzzing::SEED;
use crate::graph::{Graph, Object, Ref, Slice, Text};

#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Town {
    name: Text,
    people: u32,
    kind: Kind,
    is_port: bool,
    fill: [u8; 2],
    next: Option<Ref<Town>>,
    years: Slice<u16>,
}

#[derive(Clone, Copy, Object)]
#[repr(u8)]
enum Kind {
    Village,
    City,
}

/// Two towns that refer to each other, one text, one slice and an empty place.
fn towns() -> Graph<Town> {
    Graph::build(|graph| {
        graph.store.set_seed(SEED);
        let name = graph.insert_text("Brest");
        let years = graph.insert_slice(&[1342_u16, 1683, 1961]);
        let town = Town {
            name,
            people: 139_619,
            kind: Kind::City,
            is_port: true,
            fill: [0; 2],
            next: None,
            years,
        };
        let first = graph.insert(town);
        let gone = graph.insert(Town { next: Some(first), ..town });
        let small = Town { people: 7, kind: Kind::Village, is_port: false, ..town };
        let other = graph.insert(Town { next: Some(first), ..small });
        graph[first].next = Some(other);
        graph.remove(gone);
        first
    })
}

#[test]
fn the_bytes_are_these_for_ever() {
    let bytes = towns().to_vec();
    let words = bytes.as_chunks().0.iter().map(|word| u64::from_be_bytes(*word));
    let words: Vec<_> = words.map(|word| format!("{word:016x}")).collect();
    assert_eq!(words, WORDS);
    let there = Graph::<Town>::from_bytes(&bytes).unwrap();
    assert_eq!(there.len::<Town>(), 2);
}

/// Eight bytes each, as they follow one another.
const WORDS: [&str; 40] = [
    // The mark, the version, three classes; the root: the first of class 0; bytes of all.
    "4547524701000300",
    "0000000056341200",
    "4001000000000000",
    "0000000000000000",
    // `Town`: fingerprint, where its slots are, three of them, one empty; no elements.
    "937413353098b509",
    "9800000000000000",
    "0300000001000000",
    "1001000000000000",
    "0000000000000000",
    // `str`: one slot, and eight bytes of elements.
    "ba5f9c784890ac6b",
    "1001000000000000",
    "0100000000000000",
    "2001000000000000",
    "0800000000000000",
    // `[u16]`.
    "f72994c992a29e41",
    "2801000000000000",
    "0100000000000000",
    "3801000000000000",
    "0800000000000000",
    // The first town: header, name, people, kind and port, next, years.
    "5634120000000000",
    "0000000056341201",
    "6321020001010000",
    "0200000056341200",
    "0000000056341202",
    // An empty place.
    "5634120001000000",
    "0000000000000000",
    "0000000000000000",
    "0000000000000000",
    "0000000000000000",
    // The other town.
    "5634120000000000",
    "0000000056341201",
    "0700000000000000",
    "0000000056341200",
    "0000000056341202",
    // The text: header, where and how long; its bytes.
    "5634120100000000",
    "0000000005000000",
    "4272657374000000",
    // The slice.
    "5634120200000000",
    "0000000003000000",
    "3e059306a9070000",
];
