//! A graph whose objects hold each other. Who has no shared values writes a list of
//! objects that know each other by number, made and unmade here by hand.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::rc::Rc;

use bincode::{Decode, Encode};
use egret_stream::{Reader, Wire, Writer};
use rkyv::rancor::Error;
use serde::{Deserialize, Serialize};
use speedy::{Readable, Writable};

use crate::measure::{Round, medians};
use crate::peers::BINCODE;

/// Two numbers, and others that it knows.
#[derive(Debug, Default, Wire)]
struct Object {
    values: [i32; 2],
    known: Vec<Link>,
}

type Link = Rc<RefCell<Object>>;

/// The same with numbers for objects.
#[derive(
    Debug,
    Encode,
    Decode,
    Readable,
    Writable,
    Serialize,
    Deserialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
struct Numbered {
    values: [i32; 2],
    known: Vec<u32>,
}

/// A graph that is taken apart when it is dropped.
#[derive(Debug, Wire)]
struct Graph(Link);

impl Drop for Graph {
    fn drop(&mut self) {
        let mut open = std::mem::take(&mut self.0.borrow_mut().known);
        while let Some(object) = open.pop() {
            open.append(&mut object.borrow_mut().known);
        }
    }
}

/// Each knows the two below it, the one above, and one of the first.
fn graph(count: usize) -> Graph {
    let objects: Vec<Link> = (0..count).map(|_| Rc::default()).collect();
    for (at, object) in objects.iter().enumerate() {
        let known = [2 * at + 1, 2 * at + 2, at.saturating_sub(1) / 2, at / 8];
        let known = known.iter().filter_map(|&known| objects.get(known)).map(Rc::clone).collect();
        *object.borrow_mut() = Object { values: [1, 2], known };
    }
    Graph(Rc::clone(&objects[0]))
}

/// The objects in the order in which they are met.
fn numbered(root: &Link) -> Vec<Numbered> {
    let mut numbers = BTreeMap::from([(Rc::as_ptr(root), 0)]);
    let mut found = vec![Rc::clone(root)];
    let mut all = Vec::new();
    while let Some(object) = found.get(all.len()).map(Rc::clone) {
        let object = object.borrow();
        let number = |link: &Link| {
            *numbers.entry(Rc::as_ptr(link)).or_insert_with(|| {
                found.push(Rc::clone(link));
                found.len() as u32 - 1
            })
        };
        all.push(Numbered {
            values: object.values,
            known: object.known.iter().map(number).collect(),
        });
    }
    all
}

/// The graph again.
fn linked(all: Vec<Numbered>) -> Graph {
    let objects: Vec<Link> = all.iter().map(|_| Rc::default()).collect();
    for (object, Numbered { values, known }) in objects.iter().zip(all) {
        let known = known.iter().map(|&at| Rc::clone(&objects[at as usize])).collect();
        *object.borrow_mut() = Object { values, known };
    }
    Graph(Rc::clone(&objects[0]))
}

/// As [`peers::compare`](crate::peers::compare).
pub fn compare(count: usize) -> [[f64; 6]; 2] {
    let graph = graph(count);
    let (graph, root) = (&graph, &graph.0);
    let mut writer = Writer::new();
    writer.write(graph).expect("writes");
    let as_egret = writer.to_vec();
    let as_bincode = bincode::encode_to_vec(numbered(root), BINCODE).expect("writes");
    let as_speedy = numbered(root).write_to_vec().expect("writes");
    let as_postcard = postcard::to_stdvec(&numbered(root)).expect("writes");
    let as_rkyv = rkyv::to_bytes::<Error>(&numbered(root)).expect("writes");
    let memory = RefCell::new(vec![0; 4 * as_egret.len()]);
    let memory = &memory;
    let writes = [
        Round::new(move || {
            writer.clear();
            writer.write(black_box(graph)).expect("writes");
            writer.len()
        }),
        Round::on(memory, |to| egret_stream::write(black_box(graph), to).expect("writes")),
        Round::on(memory, |to| {
            let all = numbered(black_box(root));
            bincode::encode_into_slice(&all, to, BINCODE).expect("writes")
        }),
        Round::on(memory, |to| {
            let all = numbered(black_box(root));
            all.write_to_buffer(to).expect("writes");
            all.len()
        }),
        Round::on(memory, |to| {
            postcard::to_slice(&numbered(black_box(root)), to).expect("writes").len()
        }),
        Round::new(|| rkyv::to_bytes::<Error>(&numbered(black_box(root))).expect("writes").len()),
    ];
    let writes = medians(writes, as_egret.len());
    let reads = [
        Round::new(|| Reader::new(black_box(&as_egret)).read::<Graph>().expect("reads")),
        Round::new(|| egret_stream::read::<Graph>(black_box(&as_egret)).expect("reads")),
        Round::new(|| {
            linked(bincode::decode_from_slice(black_box(&as_bincode), BINCODE).expect("reads").0)
        }),
        Round::new(|| linked(Vec::read_from_buffer(black_box(&as_speedy)).expect("reads"))),
        Round::new(|| linked(postcard::from_bytes(black_box(&as_postcard)).expect("reads"))),
        Round::new(|| linked(rkyv::from_bytes::<_, Error>(black_box(&as_rkyv)).expect("reads"))),
    ];
    [writes, medians(reads, as_egret.len())]
}
