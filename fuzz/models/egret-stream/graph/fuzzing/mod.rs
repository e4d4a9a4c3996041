//! The fuzzer's entrance to graphs: whatever arrives is refused or can be used in every way,
//! believed unchecked too; and whatever a program does, the graph is what a model in `Rc`s is.

pub(crate) mod even;
mod model;
mod told;
mod world;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use egret_net::buf::{Block, Pool};

use self::told::Told;
use super::{Graph, Ref};

pub(crate) use model::{History, Step};
pub(crate) use world::{DOT_END, Dot, Kind, Line, Mark, Node, Sort, Thing, Way, World};

/// Bytes that arrive, changes of a message that is right (checked, or believed), or steps of a
/// history, by the first byte.
pub fn graphs(input: &[u8]) {
    static MESSAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(messages);
    static EVEN: LazyLock<Vec<u8>> = LazyLock::new(|| even::tree(5).to_vec());
    let Some((&way, rest)) = input.split_first() else { return };
    let (which, skip) = (usize::from(way >> 2 & 3), way >> 4);
    let patched = || words(&patch(MESSAGES[which].clone(), rest));
    match way % 4 {
        0 if which == 3 => even::arrive(words(&patch(EVEN.clone(), rest))),
        0 => {
            check(words(rest), skip);
            believe(words(rest), skip);
        }
        1 => check(patched(), skip),
        2 => believe(patched(), skip),
        _ => live(rest, which % 2 == 1),
    }
}

/// Inputs to begin with.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let whole = messages().into_iter().map(|message| [&[0], &message[..]].concat());
    let patched = [
        [5, 2, 9, 0, 40, 0, 17, 1, 3],
        [10, 3, 40, 0, 8, 1, 90, 0, 6],
        [12, 2, 0, 3, 9, 2, 0, 2, 7],
    ];
    let lived = (0..4_u8).map(|which| {
        let steps = (1..120_u8).map(|number| number.wrapping_mul(which * 26 + 77));
        std::iter::once(3 | which << 2).chain(steps).collect()
    });
    whole.chain(patched.map(Vec::from)).chain(lived).collect()
}

/// Steps, on the heap or in small buffers of a pool.
fn live(steps: &[u8], is_pooled: bool) {
    thread_local! {
        static POOL: Pool = pool();
    }
    let mut history = POOL.with(|pool| History::new(pool, is_pooled));
    Step::read(steps).take(STEPS_MAX).for_each(|step| history.take(step));
    history.check();
}

/// One from which graphs soon grow to larger buffers, and then to the heap.
pub(crate) fn pool() -> Pool {
    let pool = Pool::builder().class(512, 2).class(8192, 2).class(20_000, 1);
    pool.build().expect("some pages")
}

/// A message that is refused, or is a graph.
fn check(words: Vec<u64>, skip: u8) {
    if let Ok(graph) = Graph::<World>::from_words(words) {
        use_all(graph, true, skip);
    }
}

/// A message that is believed, whatever it is.
fn believe(words: Vec<u64>, skip: u8) {
    if let Ok(graph) = Graph::<World>::from_block(Block::on_heap(words), false) {
        use_all(graph, false, skip);
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Uses a graph in every way but those to `skip`. One that was checked has nothing that is not
/// found.
fn use_all(mut graph: Graph<World>, is_sound: bool, skip: u8) {
    let arrives = |message: &[u8]| Graph::<World>::from_bytes(message).is_ok() || !is_sound;
    walk(&graph, is_sound);
    assert!(graph.check().is_ok() || !is_sound);
    let objects = objects(&graph, is_sound);
    if skip & 1 == 0 {
        let message = graph.to_vec();
        assert_eq!(message.len(), graph.byte_len());
        assert_eq!(graph.clone().to_vec(), message);
        assert!(arrives(&message));
    }
    if skip & 2 == 0 {
        grow(&mut graph);
        for (sort, link, told) in &objects {
            let found = told::tell(&graph, *sort, *link);
            assert_eq!(found.as_ref(), Some(told), "growing moves it only");
        }
        overwrite(&mut graph, &objects);
        assert!(arrives(graph.clone().into_segment().bytes()));
    }
    if skip & 4 == 0 {
        assert!(graph.compact().is_ok() || !is_sound);
        assert!(arrives(&graph.to_vec()));
    }
    if skip & 8 == 0 {
        thin(&mut graph, is_sound);
    }
}

/// Writes what is there already, and changes what can be changed by a trait.
fn overwrite(graph: &mut Graph<World>, objects: &[(Sort, u64, Told)]) {
    for (sort, link, told) in objects {
        assert!(told::overwrite(graph, *sort, *link, told));
        let link = Ref::from_bits(*link);
        if let Some(thing) = link.and_then(|link| graph.get_mut::<dyn Thing>(link)) {
            thing.resize(DOT_END + 1);
        }
    }
}

/// Takes away every third object, and has others take their places.
fn thin(graph: &mut Graph<World>, is_sound: bool) {
    let gone: Vec<_> = objects(graph, is_sound).into_iter().step_by(3).collect();
    for (sort, link, _) in &gone {
        assert!(told::remove(graph, *sort, *link));
    }
    grow(graph);
    for (sort, link, _) in &gone {
        assert!(!told::has(graph, *sort, *link), "it was taken away");
    }
    walk(graph, false);
    let is_dense = graph.compact().is_ok();
    let again = Graph::<World>::from_bytes(&graph.to_vec());
    assert!(again.is_ok() || !is_dense || !is_sound);
}

/// All that iteration finds.
fn objects(graph: &Graph<World>, is_sound: bool) -> Vec<(Sort, u64, Told)> {
    let mut objects = Vec::new();
    for sort in Sort::ALL {
        let (links, count) = told::list(graph, sort);
        assert!(links.len() == count || !is_sound);
        for link in links {
            let told = told::tell(graph, sort, link);
            assert!(told.is_some() || !is_sound);
            objects.extend(told.map(|told| (sort, link, told)));
        }
    }
    objects
}

/// All that can be reached, without recursion.
fn walk(graph: &Graph<World>, is_sound: bool) {
    let mut open = vec![(Sort::World, graph.root_ref().to_bits())];
    let mut known = BTreeSet::new();
    while let Some((sort, link)) = open.pop() {
        if !known.insert(link) {
            continue;
        }
        let Some(told) = told::tell(graph, sort, link) else { continue };
        if let Some(thing) = Ref::from_bits(link).and_then(|link| graph.get::<dyn Thing>(link)) {
            let _ = thing.size();
        }
        for (which, link) in told.links.iter().enumerate() {
            let Some(link) = *link else { continue };
            let sorts = Sort::ALL.into_iter().filter(|to| sort.refers(which, *to));
            let found = sorts.filter(|to| told::has(graph, *to, link));
            let before = open.len();
            open.extend(found.map(|to| (to, link)));
            assert!(open.len() == before + 1 || !is_sound, "it leads to one object, of one sort");
        }
    }
}

/// Inserts some of every sort.
fn grow(graph: &mut Graph<World>) {
    told::insert(graph, Sort::Numbers, &Told::plain(Sort::Numbers, 5));
    told::insert(graph, Sort::Node, &Told { links: vec![None; 5], ..Told::plain(Sort::Node, 7) });
    for round in 0..3 {
        let node = graph.refs::<Node>().last().map(Ref::to_bits);
        let numbers = graph.refs::<[u16]>().last().map(Ref::to_bits);
        for sort in Sort::ALL {
            let links = match sort {
                Sort::World => vec![node, numbers, None, None, None, None],
                Sort::Node => vec![node, None, None, None, None],
                Sort::Nodes => vec![node; round],
                Sort::Marks => vec![node; 3],
                Sort::Line => vec![node, None],
                _ => Vec::new(),
            };
            told::insert(graph, sort, &Told { links, ..Told::plain(sort, 3) });
        }
    }
}

/// Changes a message, four bytes for each change.
fn patch(mut message: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    let len = message.len();
    for &[how, low, high, value] in changes.as_chunks().0.iter().take(CHANGES_MAX) {
        let at = usize::from(u16::from_le_bytes([low, high])) % len;
        let word = at / 8 * 8;
        let number = u64::from_le_bytes(message[word..word + 8].try_into().expect("a word"));
        let put = match how % 6 {
            0 => {
                message[at] = value;
                continue;
            }
            1 => number ^ 1 << (value % 64),
            2 => {
                let from = usize::from(value) * 8 % len;
                u64::from_le_bytes(message[from..from + 8].try_into().expect("a word"))
            }
            3 => number.wrapping_add_signed(i64::from(value.cast_signed())),
            4 => u64::from(value),
            _ => [0, u64::MAX, len as u64, 1 << 32, u64::MAX << 32, !7][usize::from(value % 6)],
        };
        message[word..word + 8].copy_from_slice(&put.to_le_bytes());
    }
    message
}

/// Messages that are right: one small, one with much, one with empty places, and one as it lies
/// in memory. They are the same at every run.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let small = Graph::build(|graph| begin(graph, 0));
    let much = Graph::build(|graph| begin(graph, 3));
    let mut holes = much.clone();
    let nodes: Vec<_> = holes.refs::<Node>().collect();
    holes.store.set_seed(SEED);
    let node = holes.insert(holes[nodes[0]]);
    let text = holes.insert_text("to be taken away");
    holes.insert(holes[node]);
    holes.remove(node);
    holes.discard(text);
    let mut buf = pool().take(holes.byte_len()).expect("it is not in use");
    buf.bytes_mut().copy_from_slice(&holes.to_vec());
    let mut lies = Graph::<World>::from_buf(buf).expect("it is right");
    lies.store.set_seed(SEED);
    lies.insert(Dot(8));
    let lies = lies.into_segment().bytes().to_vec();
    vec![small.to_vec(), much.to_vec(), holes.to_vec(), lies]
}

/// A world with so many nodes beside the first.
fn begin(graph: &mut Graph<World>, more: u16) -> Ref<World> {
    graph.store.set_seed(SEED);
    let numbers = graph.insert_slice(&[1_u16, 2, 3]);
    let name = graph.insert_text("Brest");
    let node = |id, next, way| Node {
        id,
        letter: 'é',
        kind: Kind::Port,
        is_red: true,
        fill: [0; 6],
        next,
        name: Some(name),
        thing: None,
        way,
    };
    let first = graph.insert(node(1, [None; 2], Way::Nowhere { fill: 0 }));
    graph[first].next[1] = Some(first);
    let world = World { first, numbers, all: None, marks: None, title: None, thing: None };
    let root = graph.insert(world);
    let mut nodes = vec![first];
    for id in 0..more {
        let last = nodes[nodes.len() - 1];
        let next = [Some(first), Some(last)];
        let way = if id % 2 == 0 { Way::To(last) } else { Way::Said(name) };
        nodes.push(graph.insert(node(id.into(), next, way)));
    }
    if more > 0 {
        let dot = graph.insert(Dot(9));
        let line = graph.insert(Line { from: first, to: Some(dot.upcast()) });
        let mark = Mark { to: Some(nodes[1]), at: [1, 2, 3], is_red: false, kind: Kind::Town };
        let marks = graph.insert_slice(&[mark; 2]);
        let all = graph.insert_slice(&nodes);
        graph[first].thing = Some(line.upcast());
        let title = graph.insert_text("ß€😀");
        let (all, marks, title) = (Some(all), Some(marks), Some(title));
        graph[root] = World { all, marks, title, thing: Some(dot.upcast()), ..world };
    }
    root
}

/// The stamps of messages that are the same at every run.
pub(crate) const SEED: u32 = 0x12_3456;
/// Steps of a history.
const STEPS_MAX: usize = 64;
/// Changes of a message.
const CHANGES_MAX: usize = 16;
