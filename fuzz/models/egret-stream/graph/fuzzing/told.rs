//! The objects of a world, told alike whatever their type.

use egret_net::buf::flat;

use super::world::{DOT_END, Dot, Kind, Line, Mark, Node, Sort, Way, World};
use crate::graph::{Graph, Object, Ref, Target};

/// An object without its type: what is in it beside references, and those.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Told {
    pub(crate) plain: Vec<u8>,
    pub(crate) links: Vec<Option<u64>>,
}

impl Told {
    /// What such an object could be without references, by a number.
    pub(crate) fn plain(sort: Sort, value: u16) -> Self {
        Self { plain: plain(sort, value), links: Vec::new() }
    }

    fn link<T: ?Sized>(&self, which: usize) -> Option<Ref<T>> {
        Ref::from_bits((*self.links.get(which)?)?)
    }

    fn needed<T: ?Sized>(&self, which: usize) -> Ref<T> {
        self.link(which).expect("it is given")
    }

    fn byte(&self, at: usize) -> u8 {
        self.plain.get(at).copied().unwrap_or_default()
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_le_bytes([0, 1, 2, 3].map(|more| self.byte(at + more)))
    }
}

fn bits<T: ?Sized>(link: Option<Ref<T>>) -> Option<u64> {
    link.map(Ref::to_bits)
}

/// The object at `link`, if it is there and of that sort.
pub(crate) fn tell(graph: &Graph<World>, sort: Sort, link: u64) -> Option<Told> {
    let (mut plain, mut links) = (Vec::new(), Vec::new());
    match sort {
        Sort::World => {
            let World { first, numbers, all, marks, title, thing } = *find::<World>(graph, link)?;
            links.extend([Some(first.to_bits()), Some(numbers.to_bits()), bits(all), bits(marks)]);
            links.extend([bits(title), bits(thing)]);
        }
        Sort::Node => {
            let Node { id, letter, kind, is_red, next, name, thing, way, .. } = find(graph, link)?;
            plain.extend([id.to_le_bytes(), u32::from(*letter).to_le_bytes()].concat());
            let (tag, way) = match way {
                Way::Nowhere { .. } => (0, None),
                Way::To(node) => (1, Some(node.to_bits())),
                Way::Said(text) => (2, Some(text.to_bits())),
            };
            plain.extend([*kind as u8, u8::from(*is_red), tag]);
            links.extend([bits(next[0]), bits(next[1]), bits(*name), bits(*thing), way]);
        }
        Sort::Dot => plain.extend(find::<Dot>(graph, link)?.0.to_le_bytes()),
        Sort::Line => {
            let line = find::<Line>(graph, link)?;
            links.extend([Some(line.from.to_bits()), bits(line.to)]);
        }
        Sort::Text => plain.extend(find::<str>(graph, link)?.as_bytes()),
        Sort::Numbers => plain.extend(flat::bytes_of(find::<[u16]>(graph, link)?)),
        Sort::Nodes => {
            links.extend(find::<[Ref<Node>]>(graph, link)?.iter().map(|node| Some(node.to_bits())));
        }
        Sort::Marks => {
            let slice = Ref::<[Mark]>::from_bits(link)?;
            assert!(graph.at(slice, find::<[Mark]>(graph, link)?.len()).is_none());
            for at in 0..find::<[Mark]>(graph, link)?.len() {
                let mark = graph.at(slice, at)?;
                plain.extend([u8::from(mark.is_red), mark.kind as u8]);
                plain.extend(flat::bytes_of(&mark.at));
                links.push(bits(mark.to));
            }
        }
    }
    Some(Told { plain, links })
}

/// Whether there is such an object at `link`.
pub(crate) fn has(graph: &Graph<World>, sort: Sort, link: u64) -> bool {
    match sort {
        Sort::World => find::<World>(graph, link).is_some(),
        Sort::Node => find::<Node>(graph, link).is_some(),
        Sort::Dot => find::<Dot>(graph, link).is_some(),
        Sort::Line => find::<Line>(graph, link).is_some(),
        Sort::Text => find::<str>(graph, link).is_some(),
        Sort::Numbers => find::<[u16]>(graph, link).is_some(),
        Sort::Nodes => find::<[Ref<Node>]>(graph, link).is_some(),
        Sort::Marks => find::<[Mark]>(graph, link).is_some(),
    }
}

fn find<T: Target + ?Sized>(graph: &Graph<World>, link: u64) -> Option<&T> {
    graph.get(Ref::from_bits(link)?)
}

fn find_mut<T: Target + ?Sized>(graph: &mut Graph<World>, link: u64) -> Option<&mut T> {
    graph.get_mut(Ref::from_bits(link)?)
}

/// Adds an object.
pub(crate) fn insert(graph: &mut Graph<World>, sort: Sort, told: &Told) -> u64 {
    match sort {
        Sort::World => graph.insert(world(told)).to_bits(),
        Sort::Node => graph.insert(node(told)).to_bits(),
        Sort::Dot => graph.insert(dot(told)).to_bits(),
        Sort::Line => graph.insert(line(told)).to_bits(),
        Sort::Text => graph.insert_text(text(told)).to_bits(),
        Sort::Numbers => graph.insert_slice(&numbers(told)).to_bits(),
        Sort::Nodes => graph.insert_slice(&nodes(told)).to_bits(),
        Sort::Marks => graph.insert_slice(&marks(told)).to_bits(),
    }
}

/// Writes over an object with one that is as long; `false` if it is not there.
pub(crate) fn overwrite(graph: &mut Graph<World>, sort: Sort, link: u64, told: &Told) -> bool {
    fn put<T: Target + Copy>(graph: &mut Graph<World>, link: u64, value: T) -> bool {
        find_mut(graph, link).map(|place| *place = value).is_some()
    }
    fn put_all<T: Object>(graph: &mut Graph<World>, link: u64, values: &[T]) -> bool {
        find_mut::<[T]>(graph, link).map(|place| place.copy_from_slice(values)).is_some()
    }
    match sort {
        Sort::World => put(graph, link, world(told)),
        Sort::Node => put(graph, link, node(told)),
        Sort::Dot => put(graph, link, dot(told)),
        Sort::Line => put(graph, link, line(told)),
        Sort::Text => find_mut::<str>(graph, link).map(str::make_ascii_uppercase).is_some(),
        Sort::Numbers => put_all(graph, link, &numbers(told)),
        Sort::Nodes => put_all(graph, link, &nodes(told)),
        Sort::Marks => put_all(graph, link, &marks(told)),
    }
}

/// Takes an object out; `false` if it is not there.
pub(crate) fn remove(graph: &mut Graph<World>, sort: Sort, link: u64) -> bool {
    fn take<T: Object>(graph: &mut Graph<World>, link: u64) -> bool {
        Ref::from_bits(link).is_some_and(|link: Ref<T>| graph.remove(link).is_some())
    }
    fn take_all<T: Target + ?Sized>(graph: &mut Graph<World>, link: u64) -> bool {
        Ref::from_bits(link).is_some_and(|link: Ref<T>| graph.discard(link))
    }
    match sort {
        Sort::World => take::<World>(graph, link),
        Sort::Node => take::<Node>(graph, link),
        Sort::Dot => take::<Dot>(graph, link),
        Sort::Line => take::<Line>(graph, link),
        Sort::Text => take_all::<str>(graph, link),
        Sort::Numbers => take_all::<[u16]>(graph, link),
        Sort::Nodes => take_all::<[Ref<Node>]>(graph, link),
        Sort::Marks => take_all::<[Mark]>(graph, link),
    }
}

/// References to all objects of a sort, as iteration finds them, and how many are said to be.
pub(crate) fn list(graph: &Graph<World>, sort: Sort) -> (Vec<u64>, usize) {
    fn all<T: Target + ?Sized>(graph: &Graph<World>) -> (Vec<u64>, usize) {
        (graph.refs::<T>().map(Ref::to_bits).collect(), graph.len::<T>())
    }
    fn each<T: Object>(graph: &Graph<World>) -> (Vec<u64>, usize) {
        (graph.iter::<T>().map(|(link, _)| link.to_bits()).collect(), graph.len::<T>())
    }
    match sort {
        Sort::World => each::<World>(graph),
        Sort::Node => each::<Node>(graph),
        Sort::Dot => each::<Dot>(graph),
        Sort::Line => each::<Line>(graph),
        Sort::Text => all::<str>(graph),
        Sort::Numbers => all::<[u16]>(graph),
        Sort::Nodes => all::<[Ref<Node>]>(graph),
        Sort::Marks => all::<[Mark]>(graph),
    }
}

fn world(told: &Told) -> World {
    World {
        first: told.needed(0),
        numbers: told.needed(1),
        all: told.link(2),
        marks: told.link(3),
        title: told.link(4),
        thing: told.link(5),
    }
}

fn node(told: &Told) -> Node {
    let way = match (told.byte(WAY), told.link(4)) {
        (1, Some(node)) => Way::To(node),
        (2, Some(text)) => Way::Said(text.cast()),
        _ => Way::Nowhere { fill: 0 },
    };
    Node {
        id: told.number(0),
        letter: char::from_u32(told.number(4)).unwrap_or('?'),
        kind: kind(told.byte(8)),
        is_red: told.byte(9) == 1,
        fill: [0; 6],
        next: [told.link(0), told.link(1)],
        name: told.link(2),
        thing: told.link(3),
        way,
    }
}

fn kind(number: u8) -> Kind {
    [Kind::Port, Kind::Bridge].into_iter().find(|kind| *kind as u8 == number).unwrap_or(Kind::Town)
}

fn dot(told: &Told) -> Dot {
    Dot(u64::from(told.number(0)) % DOT_END)
}

fn line(told: &Told) -> Line {
    Line { from: told.needed(0), to: told.link(1) }
}

fn text(told: &Told) -> &str {
    std::str::from_utf8(&told.plain).expect("texts are told as such")
}

fn numbers(told: &Told) -> Vec<u16> {
    told.plain.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect()
}

fn nodes(told: &Told) -> Vec<Ref<Node>> {
    (0..told.links.len()).map(|which| told.needed(which)).collect()
}

fn marks(told: &Told) -> Vec<Mark> {
    let marks = told.plain.chunks_exact(8).zip(0..);
    let mark = |(plain, which): (&[u8], usize)| {
        let told = Told { plain: plain[2..].to_vec(), links: told.links.clone() };
        let (is_red, kind, at) = (plain[0] == 1, kind(plain[1]), numbers(&told));
        Mark { to: told.link(which), at: [at[0], at[1], at[2]], is_red, kind }
    };
    marks.map(mark).collect()
}

/// Where the tag of a node's way is told.
pub(crate) const WAY: usize = 10;

/// What such an object could have beside references, by a number.
pub(crate) fn plain(sort: Sort, value: u16) -> Vec<u8> {
    let [low, high] = value.to_le_bytes();
    let wide = u32::from(value) * 0x1_0001;
    match sort {
        Sort::World | Sort::Line | Sort::Nodes => Vec::new(),
        Sort::Node => {
            let letter = char::from_u32(u32::from(value) * 16).unwrap_or('ß');
            let kind = [0, 3, 4][usize::from(low % 3)];
            let numbers = [wide.to_le_bytes(), u32::from(letter).to_le_bytes()].concat();
            [&numbers[..], &[kind, high & 1, 0]].concat()
        }
        Sort::Dot => u64::from(wide).to_le_bytes().to_vec(),
        Sort::Text => {
            "aß€😀 and more of it".chars().cycle().take(low.into()).collect::<String>().into()
        }
        Sort::Numbers => [low, high].repeat(usize::from(low % 64)),
        Sort::Marks => [high & 1, 3, low, 1, 2, 3, 4, high].repeat(usize::from(low % 8)),
    }
}
