//! What the derive makes of structs and enums.

use egret_net::buf::{FINGERPRINT_SEED, Flat, Plain, Ref, fingerprint, flat};

use super::hostile::refusal;
use crate::graph::class::GraphClasses;
use crate::graph::{
    Graph, GraphDefect, GraphError, Object, RenewRefs, SeeRefs, Slice, Target, Text,
};

#[derive(Clone, Copy, Debug, PartialEq, Object)]
#[repr(C)]
struct Town {
    name: Text,
    people: u32,
    kind: Kind,
    is_port: bool,
    marks: [Kind; 2],
    next: Option<Ref<Self>>,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Object)]
#[repr(u8)]
enum Kind {
    Village,
    City = 7,
    Capital,
}

#[derive(Clone, Copy, Debug, PartialEq, Object)]
#[repr(i64)]
#[object(check = is_short)]
enum Way {
    Nowhere([u8; 8]) = -2,
    By { length: f64 },
    To(Ref<Town>),
    Perhaps(Option<Ref<Town>>) = 0x100_0000_0000,
    Stops { sign: char, kinds: [Kind; 4] },
}

fn is_short(way: &Way) -> Result<(), String> {
    match way {
        Way::By { length } if *length > 100.0 => Err(format!("{length} is long")),
        _ => Ok(()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Object)]
#[repr(i8)]
enum Sign {
    Minus = -1,
    Zero,
    Plus,
    Least = i8::MIN,
}

#[derive(Clone, Copy, Debug, PartialEq, Object)]
#[repr(u8)]
enum Small {
    Two(bool, u8) = 250,
    Kind { of: Kind, sign: Sign },
    Nothing([u8; 2]) = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Object)]
#[repr(C)]
#[object(check = Span::is_ordered, crate = crate)]
struct Span(u32, u32);

impl Span {
    fn is_ordered(&self) -> bool {
        self.0 <= self.1
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Object)]
#[repr(transparent)]
struct Spans {
    r#in: [Span; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Plain, Object)]
#[repr(C)]
struct Point {
    x: f64,
    y: f64,
}

// Names that the code must not take for its own.
#[derive(Clone, Copy, Debug, PartialEq, Object)]
#[repr(C)]
struct S(u8);

#[derive(Clone, Copy, Debug, PartialEq, Object)]
#[repr(C)]
struct T {
    bytes: S,
    tag: [S; Self::COUNT],
}

impl T {
    const COUNT: usize = 3;
}

#[test]
fn a_tag_is_one_of_the_variants_numbers() {
    let kinds = (0..=u8::MAX).filter(|byte| Kind::is_value(&[*byte]));
    assert_eq!(kinds.collect::<Vec<_>>(), [0, 7, 8]);
    let signs = (i8::MIN..=i8::MAX).filter(|sign| Sign::is_value(&sign.to_ne_bytes()));
    assert_eq!(signs.collect::<Vec<_>>(), [-128, -1, 0, 1]);
    for (number, sign) in [(-128, Sign::Least), (-1, Sign::Minus), (0, Sign::Zero), (1, Sign::Plus)]
    {
        assert_eq!(flat::view(&i8::to_ne_bytes(number)), Some(&sign));
    }
}

#[test]
fn what_is_too_short_or_too_long_is_no_value() {
    let bytes = bytes_of(town());
    assert!(Town::is_value(&bytes));
    assert!(!Town::is_value(&bytes[1..]));
    assert!(!Town::is_value(&[&bytes[..], &[0]].concat()));
    assert!(!Kind::is_value(&[]));
    assert!(!Way::is_value(&bytes_of(town().way)[..12]));
    assert!(!Point::is_value(&[0; 15]));
}

#[test]
fn a_variant_is_looked_at_by_its_own_fields() {
    let model = |tag, first, second| match tag {
        250 => first <= 1,
        251 => matches!(first, 0 | 7 | 8) && matches!(second, 255 | 0 | 1 | 128),
        3 => true,
        _ => false,
    };
    for tag in 0..=u8::MAX {
        for first in 0..=u8::MAX {
            for second in [0, 1, 2, 7, 127, 128, 129, 254, 255] {
                let bytes = [tag, first, second];
                assert_eq!(Small::is_value(&bytes), model(tag, first, second), "{bytes:?}");
            }
        }
    }
    assert_eq!(flat::view(&[250, 1, 9]), Some(&Small::Two(true, 9)));
    let kind = Small::Kind { of: Kind::Capital, sign: Sign::Minus };
    assert_eq!(flat::view(&[251, 8, 255]), Some(&kind));
    assert_eq!(flat::view(&[3, 4, 5]), Some(&Small::Nothing([4, 5])));
}

#[test]
fn every_variant_is_found_in_its_own_bytes() {
    let ways = [
        (-2, Way::Nowhere([9; 8])),
        (-1, Way::By { length: -0.5 }),
        (0, Way::To(reference(4))),
        (1 << 40, Way::Perhaps(None)),
        (1 << 40, Way::Perhaps(Some(reference(5)))),
        ((1 << 40) + 1, Way::Stops { sign: 'ż', kinds: [Kind::Capital; 4] }),
    ];
    for (number, way) in ways {
        let bytes = bytes_of(way);
        assert_eq!(bytes[..8], i64::to_ne_bytes(number), "{way:?}");
        assert!(Way::is_value(&bytes), "{way:?}");
        assert_eq!(read(&bytes), Some(way));
    }
}

#[test]
fn a_fault_names_the_innermost_place() {
    let good = bytes_of(town());
    let place = |offset: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[offset..offset + bytes.len()].copy_from_slice(bytes);
        assert!(!Town::is_value(&bad), "{offset}");
        Town::fault(&bad)
    };
    assert_eq!(place(0, &[0; 8]), (0, "a reference, which is not 0"));
    assert_eq!(place(12, &[1]), (12, "a variant of `Kind`"));
    assert_eq!(place(13, &[2]), (13, "a `bool`, which is 0 or 1"));
    assert_eq!(place(15, &[9]), (15, "a variant of `Kind`"));
    assert_eq!(place(24, &[9; 8]), (24, "a variant of `Way`"));
    assert_eq!(place(32, &[0; 8]), (32, "a reference, which is not 0"));
    assert_eq!(place(12, &[1, 2, 3, 4]), (12, "a variant of `Kind`"), "the first of three");

    let way = bytes_of(Way::Stops { sign: 'x', kinds: [Kind::City; 4] });
    let mut bad = way.clone();
    bad[15] = 1;
    assert_eq!(Way::fault(&bad), (15, "a variant of `Kind`"));
    bad[11] = 1;
    assert_eq!(Way::fault(&bad), (8, "a `char`"));
}

#[test]
fn constants_are_those_of_the_parts() {
    const {
        assert!(!Town::ANY && Town::REFS && Town::CHECKED, "a reference; `Way` is checked");
        assert!(!Way::ANY && Way::REFS && Way::CHECKED);
        assert!(!Kind::ANY && !Kind::REFS && !Kind::CHECKED);
        assert!(Span::ANY && !Span::REFS && Span::CHECKED);
        assert!(Spans::ANY && !Spans::REFS && Spans::CHECKED);
        assert!(Point::ANY && !Point::REFS && !Point::CHECKED);
        assert!(T::ANY);
        assert!(!Town::EVEN && !Way::EVEN, "a variant has a reference");
        assert!(Kind::EVEN && Span::EVEN && Spans::EVEN && Point::EVEN);
    }
    assert_eq!(Point::NAME, "Point");
}

#[test]
fn references_are_seen_in_order_until_one_stops_it() {
    let mut seen = Seen { indices: Vec::new(), left: 9 };
    assert_eq!(town().refs(&mut seen), Ok(()));
    assert_eq!(seen.indices, [1, 2, 3]);
    let none = Town { next: None, way: Way::By { length: 1.0 }, ..town() };
    let mut seen = Seen { indices: Vec::new(), left: 9 };
    assert_eq!(none.refs(&mut seen), Ok(()));
    assert_eq!(seen.indices, [1]);
    let mut seen = Seen { indices: Vec::new(), left: 1 };
    assert_eq!(town().refs(&mut seen), Err(2), "the second");
    assert_eq!(seen.indices, [1]);
}

#[test]
fn references_are_replaced_where_they_are() {
    let mut there = town();
    assert_eq!(there.renew_refs(&mut Moved(10)), Ok(()));
    let way = Way::To(reference(13));
    assert_eq!(there, Town { name: reference(11), next: Some(reference(12)), way, ..town() });
    let mut there = Way::Perhaps(Some(reference(1)));
    assert_eq!(there.renew_refs(&mut Moved(0)), Err(1));
    let mut there = Way::By { length: 2.0 };
    assert_eq!(there.renew_refs(&mut Moved(0)), Ok(()));
}

#[test]
fn checks_of_the_parts_come_first() {
    assert_eq!(town().check(), Ok(()));
    let long = Town { way: Way::By { length: 101.0 }, ..town() };
    assert_eq!(long.check(), Err("`way`: 101 is long".to_owned()));
    assert_eq!(Span(2, 1).check(), Err("it says no".to_owned()));
    let spans = Spans { r#in: [Span(1, 2), Span(2, 1)] };
    assert_eq!(spans.check(), Err("`in`: it says no".to_owned()));
}

#[test]
fn the_description_tells_everything() {
    let described = |text: &str| fingerprint(FINGERPRINT_SEED, text.as_bytes());
    let of_kind = "enum of u8 Kind { 0 = Village { } 7 = City { } 8 = Capital { } } ";
    assert_eq!(
        GraphClasses::of::<Kind>().all[0].fingerprint,
        described(&format!("{of_kind}of 1 bytes at 1 "))
    );
    let way = format!(
        "enum of i64 Way {{ -2 = Nowhere {{ 0: 8 of u8 }} -1 = By {{ length: f64 }} \
         0 = To {{ 0: ref Town }} 1099511627776 = Perhaps {{ 0: optional ref Town }} \
         1099511627777 = Stops {{ sign: char kinds: 4 of {of_kind}}} }} "
    );
    let town = format!(
        "struct Town {{ name: ref str people: u32 kind: {of_kind}is_port: bool \
         marks: 2 of {of_kind}next: optional ref Town way: {way}}} of 40 bytes at 8 "
    );
    assert_eq!(GraphClasses::of::<Town>().all[0].fingerprint, described(&town));
    let spans = "struct Spans { in: 2 of struct Span { 0: u32 1: u32 } } of 16 bytes at 4 ";
    assert_eq!(GraphClasses::of::<Spans>().all[0].fingerprint, described(spans));
}

#[test]
fn a_graph_arrives_and_is_refused_where_it_is_wrong() {
    let graph = Graph::build(|graph| {
        let name = graph.insert_text("Brest");
        let alone = Town { name, next: None, way: Way::Nowhere([0; 8]), ..town() };
        let town = graph.insert(alone);
        graph[town].next = Some(town);
        graph[town].way = Way::To(town);
        town
    });
    let bytes = graph.to_vec();
    let there = Graph::<Town>::from_bytes(&bytes).unwrap();
    assert_eq!(there.root(), graph.root());
    let Way::To(back) = there.root().way else { panic!("{:?}", there.root()) };
    assert_eq!(&there[there[back].name], "Brest");

    let start = find(&bytes, &bytes_of(*graph.root()));
    let mut bad = bytes.clone();
    bad[start + 15] = 1;
    let refused = refusal(Graph::<Town>::from_bytes(&bad).unwrap_err());
    assert_eq!(refused.offset, start + 15);
    let should = "a `Town` should have a variant of `Kind` here";
    assert_eq!(refused.reason.to_string(), should);

    let mut long = bytes.clone();
    long[start + 24..start + 40].copy_from_slice(&bytes_of(Way::By { length: 1e9 }));
    let why = Graph::<Town>::from_bytes(&long).unwrap_err();
    let GraphError::Refused(refusal) = why else { panic!("{why}") };
    assert!(
        matches!(&refusal.reason, GraphDefect::Check { why, .. } if why == "`way`: 1000000000 is long")
    );
    long[start + 24..start + 40].copy_from_slice(&bytes_of(Way::By { length: 1.0 }));
    assert_eq!(Graph::<Town>::from_bytes(&long).unwrap().root().way, Way::By { length: 1.0 });
}

#[test]
fn slices_have_elements_of_any_derived_type() {
    #[derive(Clone, Copy, Object)]
    #[repr(C)]
    struct Root {
        small: Slice<Small>,
        names: Slice<T>,
    }
    let small = [Small::Nothing([1, 2]), Small::Two(false, 3)];
    let names = [T { bytes: S(1), tag: [S(2); 3] }];
    let graph = Graph::build(|graph| {
        let root = Root { small: graph.insert_slice(&small), names: graph.insert_slice(&names) };
        graph.insert(root)
    });
    let mut bytes = graph.to_vec();
    let there = Graph::<Root>::from_bytes(&bytes).unwrap();
    assert_eq!(there[there.root().small], small);
    assert_eq!(there[there.root().names], names);
    let start = find(&bytes, flat::bytes_of(&small));
    bytes[start + 4] = 2;
    let refusal = refusal(Graph::<Root>::from_bytes(&bytes).unwrap_err());
    assert_eq!(refusal.offset, start + 4);
}

/// The bytes of one value.
fn bytes_of<V: Flat>(value: V) -> Vec<u8> {
    flat::bytes_of(&[value]).to_vec()
}

/// The value that bytes are, wherever they lie.
fn read<V: Flat>(bytes: &[u8]) -> Option<V> {
    let mut words = vec![0_u64; bytes.len().div_ceil(8)];
    let aligned = &mut bytemuck::cast_slice_mut(&mut words)[..bytes.len()];
    aligned.copy_from_slice(bytes);
    flat::view(aligned).copied()
}

fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}

fn reference<V: ?Sized>(index: u32) -> Ref<V> {
    Ref::new(1, index, 1).unwrap()
}

fn town() -> Town {
    Town {
        name: reference(1),
        people: 7,
        kind: Kind::City,
        is_port: true,
        marks: [Kind::Village, Kind::Capital],
        next: Some(reference(2)),
        way: Way::To(reference(3)),
    }
}

/// Sees so many references, and stops with the index of the next.
struct Seen {
    indices: Vec<u32>,
    left: usize,
}

impl SeeRefs for Seen {
    type Stop = u32;

    fn see<V: Target + ?Sized>(&mut self, reference: &Ref<V>) -> Result<(), u32> {
        if self.indices.len() == self.left {
            return Err(reference.index());
        }
        self.indices.push(reference.index());
        Ok(())
    }
}

/// Moves references so much further, and stops if that is nothing.
struct Moved(u32);

impl RenewRefs for Moved {
    type Stop = u32;

    fn renew<V: ?Sized>(&mut self, to: &mut Ref<V>) -> Result<(), u32> {
        if self.0 == 0 {
            return Err(to.index());
        }
        *to = reference(to.index() + self.0);
        Ok(())
    }

    fn renew_option<V: ?Sized>(&mut self, to: &mut Option<Ref<V>>) -> Result<(), u32> {
        to.as_mut().map_or(Ok(()), |to| self.renew(to))
    }
}
