//! What the derive makes of structs and enums.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use egret_net::buf::Plain;

use super::{at_every_split, bytes_of, there_and_back};
use crate::{Reader, Wire, WireError, Writer};

#[derive(Wire, Debug, PartialEq, Clone, Default)]
pub(super) struct Node {
    pub(super) values: [i32; 4],
    pub(super) left: Option<Box<Node>>,
    pub(super) right: Option<Box<Node>>,
}

#[derive(Wire, Debug, PartialEq)]
enum Shape<T> {
    Nothing,
    Circle(T),
    Polygon { corners: Vec<(T, T)>, name: String },
}

#[derive(Wire, Debug, PartialEq)]
struct Unit;

#[derive(Wire, Debug, PartialEq)]
struct Pair<A, B: Clone>(A, B);

#[derive(Wire, Debug, PartialEq, Clone, Copy)]
enum Level {
    Low,
    Middle,
    High,
}

#[derive(Wire, Debug, PartialEq)]
enum Never {}

#[derive(Clone, Copy, Plain, Wire, Debug, PartialEq)]
#[repr(C)]
#[wire(plain)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

#[derive(Wire, Debug, PartialEq)]
struct Borrowed<'a> {
    head: u8,
    name: &'a str,
    numbers: &'a [f64],
    one: &'a Complex,
    many: Cow<'a, [Complex]>,
    text: Cow<'a, str>,
}

#[derive(Wire, Debug, PartialEq)]
struct Settings {
    kept: u32,
    #[wire(skip)]
    skipped: Vec<u8>,
    #[wire(skip = seven)]
    made: u32,
    #[wire(with = doubled)]
    twice: u32,
}

fn seven() -> u32 {
    7
}

mod doubled {
    use crate::{Describe, FromWire, Reader, Stop, Wire, Writer, Written};

    pub(super) fn write(value: &u32, w: &mut Writer<'_>) -> Written {
        w.array((value * 2).to_le_bytes())
    }
    pub(super) fn read(r: &mut Reader<'_>) -> Result<u32, Stop> {
        Ok(u32::read(r)? / 2)
    }
    pub(super) fn describe<T: Wire>(d: &mut Describe) {
        d.group("doubled", T::describe);
    }
}

#[derive(Wire, Debug, PartialEq)]
#[wire(check = is_ordered)]
struct Interval {
    from: u32,
    to: u32,
}

fn is_ordered(interval: &Interval) -> Result<(), String> {
    if interval.from <= interval.to {
        return Ok(());
    }
    Err(format!("{} is after {}", interval.from, interval.to))
}

#[derive(Wire, Debug, PartialEq)]
struct Wide {
    a: u8,
    b: u16,
    c: u32,
    d: u64,
    e: i8,
    f: i16,
    g: i32,
    h: i64,
    i: f32,
    j: f64,
    k: bool,
    l: char,
    m: u128,
    n: usize,
    o: String,
}

#[test]
fn structs_and_enums_come_back() {
    let leaf = Node { values: [1, 2, 3, 4], left: None, right: None };
    let node = Node { values: [-1; 4], left: Some(Box::new(leaf.clone())), right: None };
    there_and_back(&Node {
        values: [0; 4],
        left: Some(Box::new(node)),
        right: Some(Box::new(leaf)),
    });
    there_and_back(&Shape::<u8>::Nothing);
    there_and_back(&Shape::Circle(1.5_f32));
    there_and_back(&Shape::Polygon { corners: vec![(1_u16, 2), (3, 4)], name: "é".into() });
    there_and_back(&Unit);
    there_and_back(&Pair(Unit, vec![Level::Low, Level::High, Level::Middle]));
    there_and_back(&Pair::<Option<bool>, _>(Some(true), [Level::High; 3]));
    there_and_back(&vec![Complex { re: 1.0, im: -1.0 }; 5]);
    there_and_back(&(3_u8, Complex { re: 0.5, im: 0.0 }, 4_u8));
    there_and_back(&None::<u8>);
    assert!(Reader::new(&[0]).read::<Never>().is_err());
    there_and_back(&Wide {
        a: 1,
        b: 2,
        c: 3,
        d: 4,
        e: -1,
        f: -2,
        g: -3,
        h: -4,
        i: 0.5,
        j: 1.5,
        k: true,
        l: 'ß',
        m: 1 << 100,
        n: 9,
        o: "end".into(),
    });
}

#[test]
fn the_standard_library_comes_back() {
    there_and_back(&(1_u8, 2_u16, 3_u32, 4_u64, 5_u128, 6_usize, true, 'x'));
    there_and_back(&(-1_i8, -2_i16, -3_i32, -4_i64, -5_i128, -6_isize, 0.5_f32, -0.25_f64));
    there_and_back(&vec![vec![1_u128, 2], vec![], vec![3]]);
    there_and_back(&vec![(); 9]);
    there_and_back(&vec![Unit, Unit]);
    there_and_back(&VecDeque::from([String::from("a"), String::new()]));
    there_and_back(&[[1_u16; 3], [2; 3]]);
    there_and_back(&["x".to_owned(), "y".to_owned()]);
    there_and_back(&BTreeMap::from([(1_u8, "one".to_owned()), (2, "two".to_owned())]));
    there_and_back(&BTreeSet::from([[1_u8, 2], [3, 4]]));
    there_and_back(&BTreeMap::from([((), ())]));
    there_and_back(&Ok::<u8, String>(1));
    there_and_back(&Err::<u8, String>("no".into()));
    there_and_back(&(Duration::new(3, 4), UNIX_EPOCH + Duration::from_nanos(5)));
    there_and_back(&(UNIX_EPOCH - Duration::from_secs(5), NonZero::new(5_u16)));
    let addresses: Vec<SocketAddr> = vec!["1.2.3.4:5".parse().unwrap(), "[::1]:7".parse().unwrap()];
    there_and_back(&addresses);
    there_and_back(&addresses.iter().map(SocketAddr::ip).collect::<Vec<IpAddr>>());
    there_and_back(&PathBuf::from("a/b"));
    there_and_back(&(1..5_u8, 2..=3_u16, 4_u32.., ..7_u64));
    there_and_back(&(Box::<str>::from("boxed"), Box::<[u16]>::from([1, 2, 3])));
}

#[test]
fn hash_maps_come_back_and_can_have_an_order() {
    #![expect(clippy::disallowed_types, reason = "what is tested")]
    use std::collections::{HashMap, HashSet};

    #[derive(Wire, PartialEq, Debug)]
    struct Ordered {
        #[wire(with = crate::canonical)]
        map: HashMap<u32, String>,
        #[wire(with = crate::canonical)]
        set: HashSet<u64>,
    }
    let map: HashMap<u32, String> = (0..50).map(|i| (i * 7919 % 101, i.to_string())).collect();
    let set: HashSet<u64> = (0..50).map(|i| i * 31 % 67).collect();
    let both = (map.clone(), set.clone());
    let mut writer = Writer::new();
    writer.write(&both).unwrap();
    at_every_split(&writer.to_vec(), |read: Result<(HashMap<_, _>, HashSet<_>), _>| {
        assert_eq!(read.unwrap(), both);
    });
    let again =
        Ordered { map: map.clone().into_iter().collect(), set: set.iter().copied().collect() };
    let ordered = Ordered { map, set };
    there_and_back(&ordered);
    assert_eq!(bytes_of(&ordered), bytes_of(&again));
}

#[test]
fn borrowed_fields_point_into_the_buffer() {
    #[repr(align(16))]
    struct Aligned([u8; 256]);

    let (one, many) = (Complex { re: 1.0, im: 2.0 }, vec![Complex { re: 3.0, im: 4.0 }; 2]);
    let value = Borrowed {
        head: 1,
        name: "name",
        numbers: &[1.5, 2.5, 3.5],
        one: &one,
        many: many.into(),
        text: "text".into(),
    };
    let bytes = bytes_of(&value);
    let mut place = Aligned([0; 256]);
    place.0[..bytes.len()].copy_from_slice(&bytes);
    let place = &place.0[..bytes.len()];
    let read: Borrowed<'_> = Reader::new(place).read_last().unwrap();
    assert_eq!(read, value);
    let inside = |address: *const u8| place.as_ptr_range().contains(&address);
    assert!(inside(read.name.as_ptr()) && inside(read.numbers.as_ptr().cast()));
    assert!(inside(std::ptr::from_ref(read.one).cast()));
    assert!(matches!(&read.many, Cow::Borrowed(many) if inside(many.as_ptr().cast())));
    assert!(matches!(&read.text, Cow::Borrowed(text) if inside(text.as_ptr())));

    let mut refused = 0;
    at_every_split(place, |read: Result<Borrowed<'_>, _>| match read {
        Ok(read) => assert_eq!(read, value),
        Err(WireError::Split(_) | WireError::Misaligned(_)) => refused += 1,
        Err(other) => panic!("{other}"),
    });
    assert!(refused > 0, "some splits go through what is read in place");
    at_every_split(place, |read: Result<Split, _>| {
        assert_eq!(read.unwrap().numbers, value.numbers);
    });
}

/// The same bytes as `Borrowed`, owned where a split may be.
#[derive(Wire)]
struct Split {
    _head: u8,
    _name: String,
    numbers: Vec<f64>,
    _one: Complex,
    _many: Vec<Complex>,
    _text: Box<str>,
}

#[test]
fn fields_can_be_left_out_made_and_converted() {
    let value = Settings { kept: 1, skipped: vec![1, 2], made: 99, twice: 4 };
    let bytes = bytes_of(&value);
    assert_eq!(bytes, [1, 0, 0, 0, 8, 0, 0, 0]);
    let read: Settings = Reader::new(&bytes).read_last().unwrap();
    assert_eq!(read, Settings { kept: 1, skipped: vec![], made: 7, twice: 4 });
}

#[test]
fn a_check_stands_before_every_value() {
    let good = Interval { from: 1, to: 2 };
    there_and_back(&good);
    there_and_back(&vec![Interval { from: 1, to: 2 }, Interval { from: 2, to: 2 }]);
    let bad = bytes_of(&vec![good, Interval { from: 3, to: 2 }]);
    let error = Reader::new(&bad).read::<Vec<Interval>>().unwrap_err();
    assert_eq!(error.to_string(), "the check of Interval failed: 3 is after 2");
    let boxed = bytes_of(&Some(Box::new(Interval { from: 3, to: 2 })));
    assert!(Reader::new(&boxed).read::<Option<Box<Interval>>>().is_err());
}

#[test]
fn a_value_with_a_drop_of_its_own_can_be_given_away() {
    #[derive(Wire)]
    struct Guarded {
        data: Vec<u64>,
    }
    impl Drop for Guarded {
        fn drop(&mut self) {
            assert!(self.data.is_empty(), "the array moved into the writer");
        }
    }
    let mut writer = Writer::new();
    let data = vec![5_u64; 10_000];
    let address = data.as_ptr();
    writer.write_owned(Guarded { data }).unwrap();
    assert_eq!(writer.gather()[1].as_ptr(), address.cast(), "not copied");
}
