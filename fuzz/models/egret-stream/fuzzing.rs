//! The entrances of the fuzzers: whatever the bytes, no panic, no memory out of
//! proportion, and what can be read can be written and read again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::num::NonZero;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use egret_net::buf::Plain;

pub use crate::graph::fuzzing::graphs;
use crate::{
    Dynamic, FromWire, Names, ReadPlan, Reader, Schema, Serde, Wire, WireError, Writer, dynamic,
    register,
};

/// Values of several types, by the first byte.
pub fn values(input: &[u8]) {
    let Some((&which, bytes)) = input.split_first() else { return };
    match which % 8 {
        0 => again::<Vec<Everything>>(bytes),
        1 => again::<BTreeMap<String, Vec<Complex>>>(bytes),
        2 => again::<Tree>(bytes),
        3 => again::<(Vec<()>, Vec<[bool; 3]>, BTreeSet<u16>, VecDeque<Option<char>>)>(bytes),
        4 => again::<Vec<Serde<Foreign>>>(bytes),
        5 => again::<(SystemTime, Duration, SocketAddr, Result<NonZero<u8>, Box<str>>)>(bytes),
        6 => again::<Vec<Vec<Vec<u128>>>>(bytes),
        _ => {
            let _ = Reader::new(bytes).read::<(&str, &[f64], &Complex, &[u16])>();
        }
    }
}

/// Shared values and cycles.
pub fn shared(input: &[u8]) {
    let Some((&which, bytes)) = input.split_first() else { return };
    match which % 4 {
        0 => same::<Vec<Rc<Family>>>(bytes),
        1 => same::<Ring>(bytes),
        2 => same::<Vec<Arc<Mutex<Option<Arc<[u16]>>>>>>(bytes),
        _ => same::<(Vec<Weak<Family>>, Rc<str>, Rc<str>)>(bytes),
    }
}

/// Objects of which only a trait is known, with names explained and announced.
pub fn objects(input: &[u8]) {
    let Some((&news, bytes)) = input.split_first() else { return };
    let _ = Reader::new(bytes).read::<Vec<Box<dyn Shape>>>();
    let _ = Reader::new(bytes).read::<Vec<Rc<dyn Shape>>>();
    let _ = Reader::new(bytes).read::<Box<dyn Other>>();
    let (news, bytes) = bytes.split_at(bytes.len().min(usize::from(news)));
    let mut names = known_names();
    let _ = names.learn(news);
    let mut reader = Reader::new(bytes).with_names(names);
    while reader.left() > 0 && reader.read::<Box<dyn Shape>>().is_ok() {}
    let names = reader.take_names().expect("they were given");
    let _ = Reader::new(bytes).with_names(names).read::<Vec<Arc<dyn Shape>>>();
}

/// The same bytes whole and in chunks give the same.
pub fn chunks(input: &[u8]) {
    let Some((cuts, bytes)) = input.split_at_checked(4) else { return };
    let (sizes, which) = (&cuts[..3], cuts[3]);
    let mut list = Vec::new();
    let mut rest = bytes;
    for size in sizes.iter().cycle().map(|&size| usize::from(size)) {
        let (chunk, more) = rest.split_at(size.min(rest.len()));
        list.push(chunk);
        rest = more;
        if rest.is_empty() || list.len() > 4 * bytes.len() {
            break;
        }
    }
    list.push(rest);
    match which % 4 {
        0 => alike::<Vec<Everything>>(bytes, &list),
        1 => alike::<Vec<(String, Vec<Complex>, Vec<u16>)>>(bytes, &list),
        2 => alike::<Tree>(bytes, &list),
        _ => alike::<(Vec<u128>, Serde<Foreign>, [f32; 3])>(bytes, &list),
    }
}

/// The same bytes whole, and while they arrive in pieces whose sizes the first bytes say; a stream
/// that breaks off is an error.
pub fn pulled(input: &[u8]) {
    let Some((head, bytes)) = input.split_at_checked(5) else { return };
    let (sizes, which, is_broken) = (&head[..3], head[3], head[4] % 4 == 0);
    match which % 6 {
        0 => arriving::<Vec<Everything>>(bytes, sizes, is_broken),
        1 => arriving::<Vec<(String, Vec<Complex>, Vec<u16>)>>(bytes, sizes, is_broken),
        2 => arriving::<Tree>(bytes, sizes, is_broken),
        3 => arriving::<(Vec<u128>, Serde<Foreign>, [f32; 3])>(bytes, sizes, is_broken),
        4 => arriving::<(BTreeMap<u16, BTreeSet<u8>>, Vec<(u8, u32)>)>(bytes, sizes, is_broken),
        _ => arriving::<Vec<Box<dyn Shape>>>(bytes, sizes, is_broken),
    }
}

/// Bytes of a writer whose types are what its schema says, whatever that is: a schema, the byte 0,
/// and a value.
pub fn schemas(input: &[u8]) {
    let Some((&which, input)) = input.split_first() else { return };
    let end = input.iter().position(|&byte| byte == 0).unwrap_or(input.len());
    let (text, bytes) = (String::from_utf8_lossy(&input[..end]), input.get(end + 1..));
    let (theirs, bytes) = (Schema::from_text(&text), bytes.unwrap_or_default());
    match which % 5 {
        0 => as_planned::<Vec<Everything>>(&theirs, bytes),
        1 => as_planned::<Versioned>(&theirs, bytes),
        2 => as_planned::<Tree>(&theirs, bytes),
        3 => as_planned::<(Vec<Rc<Family>>, Versioned)>(&theirs, bytes),
        _ => as_planned::<BTreeMap<u8, Vec<Kind>>>(&theirs, bytes),
    }
}

/// What a plan reads is a value, and the same while it arrives.
fn as_planned<T: Wire + for<'a> FromWire<'a>>(theirs: &Schema, bytes: &[u8]) {
    let Ok(plan) = ReadPlan::of(theirs, &Schema::of::<T>()) else { return };
    let whole = Reader::new(bytes).read_planned::<T>(&plan);
    let mut rest = bytes;
    let mut source = |to: &mut [u8]| {
        let (now, later) = rest.split_at(rest.len().min(to.len()).min(5));
        to[..now.len()].copy_from_slice(now);
        rest = later;
        Ok(now.len())
    };
    let arriving = Reader::pulling(&mut source).read_planned::<T>(&plan);
    match (&whole, &arriving) {
        (Ok(_), Err(WireError::Memory { .. })) => {}
        _ => assert_eq!(whole.is_ok(), arriving.is_ok(), "{:?}, {:?}", whole.err(), arriving.err()),
    }
}

fn arriving<T: Wire + for<'a> FromWire<'a>>(bytes: &[u8], sizes: &[u8], is_broken: bool) {
    let mut rest = bytes;
    let mut sizes = sizes.iter().map(|&size| usize::from(size).max(1)).cycle();
    let mut source = |to: &mut [u8]| {
        let count = sizes.next().unwrap_or(1).min(to.len()).min(rest.len());
        let (now, later) = rest.split_at(count);
        to[..count].copy_from_slice(now);
        rest = later;
        if is_broken && count == 0 { Err("broken".to_owned()) } else { Ok(count) }
    };
    let parts = Reader::pulling(&mut source).read::<T>();
    match (Reader::new(bytes).read::<T>(), parts) {
        (Ok(whole), Ok(parts)) => assert_eq!(written(&whole), written(&parts)),
        // A whole stream shows beforehand what does not fit; one that arrives has memory for what
        // has arrived, and shows first what is wrong in that.
        (Err(WireError::End { .. } | WireError::Memory { .. }), Err(_)) => {}
        (Ok(_), Err(WireError::Memory { .. })) => {}
        (Err(whole), Err(parts)) => assert_eq!(kind(&whole), kind(&parts)),
        (whole, parts) => panic!("{:?} whole, {:?} arriving", whole.err(), parts.err()),
    }
}

/// What can be read can be written, and read again; wherever it lies, and by one value
/// as by a reader.
fn again<T: Wire + for<'a> FromWire<'a>>(bytes: &[u8]) {
    let aligned = bytes.to_vec();
    let (one, other) = (Reader::new(bytes).read_last::<T>(), crate::read::<T>(&aligned));
    if let (Err(one), Err(other)) = (&one, &other) {
        assert_eq!(one, other);
    }
    assert_eq!(one.is_ok(), other.is_ok());
    let Ok(value) = Reader::new(bytes).read::<T>() else { return };
    let first = written(&value);
    let back: T = Reader::new(&first).read_last().expect("it was written");
    assert_eq!(written(&back), first);
    let mut slice = vec![0; first.len()];
    assert_eq!(crate::write(&value, &mut slice), Ok(first.len()));
    assert_eq!(slice, first);
}

/// As `again`, for values that may hold themselves: what cannot be written is let go.
fn same<T: Wire + for<'a> FromWire<'a>>(bytes: &[u8]) {
    let Ok(value) = Reader::new(bytes).read::<T>() else { return };
    let mut writer = Writer::new();
    if writer.write(&value).is_ok() {
        let first = writer.to_vec();
        let back: T = Reader::new(&first).read_last().expect("it was written");
        assert_eq!(written(&back), first);
    }
}

fn alike<T: Wire + for<'a> FromWire<'a>>(bytes: &[u8], list: &[&[u8]]) {
    let (whole, parts) = (Reader::new(bytes).read::<T>(), Reader::chunks(list).read::<T>());
    match (whole, parts) {
        (Ok(whole), Ok(parts)) => assert_eq!(written(&whole), written(&parts)),
        (Err(whole), Err(parts)) => assert_eq!(kind(&whole), kind(&parts)),
        (whole, parts) => panic!("{:?} whole, {:?} in chunks", whole.err(), parts.err()),
    }
}

fn kind(error: &WireError) -> std::mem::Discriminant<WireError> {
    std::mem::discriminant(error)
}

fn written<T: Wire>(value: &T) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.write(value).expect("it can be written");
    writer.to_vec()
}

/// Names as a sender that knows two types announces them.
fn known_names() -> Names {
    let both: [Box<dyn Shape>; 2] = [Box::new(Dot(1)), Box::new(Line { from: 1, to: vec![2] })];
    let mut writer = Writer::new().with_names(Names::new());
    writer.write(&both).expect("it can be written");
    let mut names = Names::new();
    let news = writer.take_names().and_then(|mut names| names.news()).expect("two are new");
    names.learn(&news).expect("they follow");
    names
}

#[derive(Wire, Debug)]
struct Everything {
    number: u32,
    flag: bool,
    kind: Kind,
    text: String,
    list: Vec<f64>,
    pair: Option<Box<(u8, u64)>>,
    wide: Vec<i128>,
    #[wire(skip)]
    _memory: [u64; 4],
}

/// Of which writers have other versions.
#[derive(Wire, Debug)]
struct Versioned {
    #[wire(default)]
    list: Vec<Kind>,
    kept: u32,
    #[wire(default)]
    map: BTreeMap<u16, Option<Box<Versioned>>>,
}

#[derive(Wire, Debug)]
enum Kind {
    Plain,
    Named { name: String, at: [u16; 2] },
    Deep(Vec<Kind>),
}

#[derive(Wire, Debug)]
struct Tree {
    value: i32,
    left: Option<Box<Tree>>,
    right: Option<Box<Tree>>,
}

#[derive(Clone, Copy, Plain, Wire, Debug)]
#[repr(C)]
#[wire(plain)]
struct Complex {
    re: f64,
    im: f64,
}

#[derive(::serde::Serialize, ::serde::Deserialize, Debug)]
enum Foreign {
    Unit,
    List(Vec<Foreign>),
    Map { entries: BTreeMap<u8, String>, flag: Option<bool> },
}

#[derive(Wire, Debug)]
#[wire(check = is_small)]
struct Family {
    name: u16,
    parent: Weak<Family>,
    children: Vec<Rc<Family>>,
}

fn is_small(family: &Family) -> bool {
    family.name < 60_000
}

#[derive(Wire, Debug, Default)]
struct Link {
    value: u8,
    next: Vec<Rc<RefCell<Link>>>,
}

/// A ring that is opened when it is dropped, so that the fuzzer finds real leaks.
#[derive(Wire, Debug)]
struct Ring(Vec<Rc<RefCell<Link>>>);

impl Drop for Ring {
    fn drop(&mut self) {
        let mut open = std::mem::take(&mut self.0);
        while let Some(link) = open.pop() {
            if let Ok(mut link) = link.try_borrow_mut() {
                open.append(&mut link.next);
            }
        }
    }
}

trait Shape: Dynamic {}
trait Other: Dynamic {}
dynamic!(Shape, Other);

#[derive(Wire)]
struct Dot(u8);
#[derive(Wire)]
struct Line {
    from: u8,
    to: Vec<u32>,
}
#[derive(Wire)]
struct Nest(Vec<Box<dyn Shape>>);

impl Shape for Dot {}
impl Shape for Line {}
impl Shape for Nest {}
impl Other for Dot {}
register!(Dot as dyn Shape, Line as dyn Shape, Nest as dyn Shape, Dot as dyn Other);

/// Schemas of other versions, with values.
fn schema_seeds(tree: &Tree) -> Vec<(&'static str, Vec<u8>)> {
    let seed = |which: u8, text: &str, value: Vec<u8>| {
        ("schemas", [&[which], text.as_bytes(), &[0], &value].concat())
    };
    let versioned = "struct Versioned\n  old: shared\n    list\n      f64\n  kept: u32\n  \
                     gone: tuple\n    0: string\n    1: set\n      enum Kind\n        Plain\n        \
                     Other\n          at: struct Versioned again (0)\n";
    let value = written(&(Rc::new(vec![1.0]), 7_u32, ("text", vec![0_u8])));
    let empty = "map\n  key: u8\n  value: list\n    enum Kind\n      Deep\n        0: list\n          \
                 enum Kind again (0)\n      Gone\n        a: array of 3\n          nothing\n";
    let kinds = written(&BTreeMap::from([(1_u8, vec![(0_u8, vec![(0_u8, Vec::<u8>::new())])])]));
    is_read::<Versioned>(versioned, &value);
    is_read::<BTreeMap<u8, Vec<Kind>>>(empty, &kinds);
    vec![
        seed(1, versioned, value),
        seed(4, empty, kinds),
        seed(2, Schema::of::<Tree>().as_str(), written(tree)),
        seed(3, Schema::of::<(Vec<Rc<Family>>, Versioned)>().as_str(), vec![0; 9]),
    ]
}

fn is_read<T: Wire + for<'a> FromWire<'a>>(theirs: &str, bytes: &[u8]) {
    let plan = ReadPlan::of(&Schema::from_text(theirs), &Schema::of::<T>()).expect("a version");
    assert!(!plan.is_same());
    Reader::new(bytes).read_planned::<T>(&plan).map(drop).expect("a value of it");
}

/// Inputs that reach deep, for the fuzzers to begin with.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let tree = |left| Tree { value: 7, left, right: None };
    let tree = tree(Some(Box::new(tree(None))));
    let everything = Everything {
        number: 1,
        flag: true,
        kind: Kind::Deep(vec![Kind::Plain, Kind::Named { name: "n".into(), at: [1, 2] }]),
        text: "text".into(),
        list: vec![1.0, 2.0],
        pair: Some(Box::new((1, 2))),
        wide: vec![3],
        _memory: [0; 4],
    };
    let foreign = Foreign::Map { entries: BTreeMap::from([(1, "x".into())]), flag: Some(true) };
    let foreign = Foreign::List(vec![Foreign::Unit, foreign]);
    let family = Rc::new_cyclic(|parent: &Weak<Family>| {
        let child = Family { name: 2, parent: parent.clone(), children: Vec::new() };
        Family { name: 1, parent: Weak::new(), children: vec![Rc::new(child)] }
    });
    let link = Rc::new(RefCell::new(Link::default()));
    link.borrow_mut().next.push(Rc::clone(&link));
    let ring = Ring(vec![link]);
    let shapes: Vec<Box<dyn Shape>> =
        vec![Box::new(Dot(1)), Box::new(Nest(vec![Box::new(Line { from: 2, to: vec![3] })]))];
    let sets = BTreeMap::from([(1_u16, BTreeSet::from([2_u8, 3]))]);
    let begun = |start: &[u8], bytes: Vec<u8>| [start, &bytes].concat();
    let graphs = crate::graph::fuzzing::seeds().into_iter().map(|seed| ("graphs", seed));
    let mut seeds = vec![
        ("values", begun(&[0], written(&vec![everything]))),
        ("values", begun(&[2], written(&tree))),
        ("values", begun(&[4], written(&vec![Serde(&foreign)]))),
        ("chunks", begun(&[3, 5, 7, 2], written(&tree))),
        ("chunks", begun(&[1, 8, 2, 3], written(&(vec![1_u128], Serde(&foreign), [0_f32; 3])))),
        ("pulled", begun(&[3, 5, 7, 2, 1], written(&tree))),
        ("pulled", begun(&[1, 8, 2, 5, 1], written(&shapes))),
        ("pulled", begun(&[1, 8, 2, 3, 1], written(&(vec![1_u128], Serde(&foreign), [0_f32; 3])))),
        ("pulled", begun(&[9, 9, 1, 4, 0], written(&(sets, vec![(1_u8, 2_u32); 3])))),
        ("shared", begun(&[0], written(&vec![Rc::clone(&family), family]))),
        ("shared", begun(&[1], written(&ring))),
        ("objects", begun(&[0], written(&shapes))),
    ];
    seeds.extend(schema_seeds(&tree));
    seeds.extend(graphs);
    seeds
}
