//! Generated values of every shape, there and back.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZero, Wrapping};
use std::ops::{Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::collection::{btree_map, btree_set, vec, vec_deque};
use proptest::prelude::*;

use super::derive::{Complex, Node};
use super::versions::is_skipped;
use super::{at_every_split, bytes_of, there_and_back};
use crate::{Serde, Wire};

#[derive(Wire, Debug, PartialEq, Clone)]
enum Value {
    Null,
    Flag(bool),
    Number { exact: i64, near: f32 },
    Text(String),
    Many(Vec<Value>),
    Named(BTreeMap<String, Value>),
    Boxed(Box<(Value, Option<u8>)>),
    Numbers(Vec<u64>, [u16; 3], char),
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Flag),
        (any::<i64>(), -1e9_f32..1e9).prop_map(|(exact, near)| Value::Number { exact, near }),
        ".{0,12}".prop_map(Value::Text),
        (vec(any::<u64>(), 0..5), any::<[u16; 3]>(), any::<char>())
            .prop_map(|(a, b, c)| Value::Numbers(a, b, c)),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Many),
            btree_map("[a-z]{1,3}", inner.clone(), 0..4).prop_map(Value::Named),
            (inner, any::<Option<u8>>()).prop_map(|pair| Value::Boxed(Box::new(pair))),
        ]
    })
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = any::<[i32; 4]>().prop_map(|values| Node { values, left: None, right: None });
    leaf.prop_recursive(5, 30, 2, |inner| {
        let child = proptest::option::of(inner.prop_map(Box::new));
        (any::<[i32; 4]>(), child.clone(), child).prop_map(|(values, left, right)| Node {
            values,
            left,
            right,
        })
    })
}

type Rest = (
    (SystemTime, IpAddr, SocketAddr, PathBuf, NonZero<i32>, char),
    (Range<u8>, RangeInclusive<i64>, RangeFrom<u16>, RangeTo<u32>, RangeToInclusive<u8>),
    (Box<str>, Box<[u16]>, String, Vec<f64>, [Option<bool>; 3]),
    (Cell<u32>, RefCell<Vec<u8>>, Rc<str>, Arc<[i16]>, Option<Box<i128>>, isize),
    ((), Wrapping<u16>, Result<(), Duration>, usize),
);

fn rest() -> impl Strategy<Value = Rest> {
    let time =
        (any::<bool>(), 0..1_u64 << 40, 0..1_000_000_000_u32).prop_map(|(is_early, s, n)| {
            let from = Duration::new(s, n);
            if is_early { UNIX_EPOCH - from } else { UNIX_EPOCH + from }
        });
    let address = (any::<bool>(), any::<[u8; 4]>(), any::<[u8; 16]>(), any::<u16>()).prop_map(
        |(is_old, old, new, port)| -> SocketAddr {
            let ip: IpAddr = if is_old { old.into() } else { new.into() };
            (ip, port).into()
        },
    );
    let system = (time, address, "[a-z/]{0,9}", 1..i32::MAX, any::<char>()).prop_map(
        |(time, address, path, number, letter)| {
            let number = NonZero::new(number).expect("it is one at least");
            (time, address.ip(), address, path.into(), number, letter)
        },
    );
    let ranges = (any::<u8>(), any::<i64>(), any::<u16>(), any::<u32>())
        .prop_map(|(a, b, c, d)| (a..9, b..=7, c.., ..d, ..=a));
    let owned =
        (".{0,5}", vec(any::<u16>(), 0..5), vec(-1.0..1.0, 0..4), any::<[Option<bool>; 3]>())
            .prop_map(|(text, short, long, flags)| {
                (text.clone().into(), short.into(), text, long, flags)
            });
    let cells = (any::<u32>(), vec(any::<u8>(), 0..5), ".{0,5}", vec(any::<i16>(), 0..5)).prop_map(
        |(number, bytes, text, list)| {
            let big = (number > 9).then(|| Box::new(i128::from(number) << 80));
            (Cell::new(number), RefCell::new(bytes), text.into(), list.into(), big, -1)
        },
    );
    let others = (any::<u16>(), any::<bool>()).prop_map(|(number, is_good)| {
        let result = if is_good { Ok(()) } else { Err(Duration::from_nanos(number.into())) };
        ((), Wrapping(number), result, usize::from(number))
    });
    (system, ranges, owned, cells, others)
}

type Containers = (
    Vec<Option<u32>>,
    VecDeque<String>,
    BTreeSet<i16>,
    BTreeMap<u8, Vec<f32>>,
    Result<u128, (bool, Duration)>,
);

fn containers() -> impl Strategy<Value = Containers> {
    let duration = (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n));
    (
        vec(any::<Option<u32>>(), 0..6),
        vec_deque(".{0,5}", 0..4),
        btree_set(any::<i16>(), 0..6),
        btree_map(any::<u8>(), vec(-1.0_f32..1.0, 0..3), 0..4),
        prop_oneof![any::<u128>().prop_map(Ok), (any::<bool>(), duration).prop_map(Err)],
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_come_back(value in value()) {
        there_and_back(&value);
    }

    #[test]
    fn trees_come_back(node in node()) {
        there_and_back(&node);
    }

    #[test]
    fn containers_come_back(value in containers()) {
        there_and_back(&value);
        there_and_back(&Serde(value));
    }

    #[test]
    fn arrays_come_back(
        head in vec(any::<u8>(), 0..9),
        floats in vec(-1e300_f64..1e300, 0..20),
        pairs in vec((any::<u16>(), any::<i8>()), 0..9),
        complex in vec((-1.0..1.0, -1.0..1.0), 0..5),
    ) {
        let complex: Vec<Complex> =
            complex.into_iter().map(|(re, im)| Complex { re, im }).collect();
        there_and_back(&(head, floats, pairs, complex, vec![(); 2]));
    }

    #[test]
    fn the_rest_of_the_library_comes_back(value in rest()) {
        there_and_back(&value);
    }

    /// Whatever a field is, a program that does not know it reads what comes behind.
    #[test]
    fn unknown_fields_are_skipped(
        value in value(), node in node(), containers in containers(), rest in rest(),
        complex in vec((-1.0..1.0, -1.0..1.0), 0..5),
    ) {
        let complex: Vec<Complex> =
            complex.into_iter().map(|(re, im)| Complex { re, im }).collect();
        let one = complex.first().copied();
        is_skipped((value.clone(), one));
        is_skipped(node);
        is_skipped((containers, complex));
        is_skipped(rest);
        let shared = Rc::new(value);
        is_skipped((Rc::downgrade(&shared), vec![Rc::clone(&shared), shared], vec![(); 3]));
    }

    /// Who shares with whom is the same on both sides.
    #[test]
    fn sharing_comes_back(picks in vec(0..4_usize, 0..12)) {
        let pool: Vec<Rc<String>> = (0..4).map(|i| Rc::new(i.to_string())).collect();
        let value: Vec<Rc<String>> = picks.iter().map(|&pick| Rc::clone(&pool[pick])).collect();
        at_every_split(&bytes_of(&value), |read: Result<Vec<Rc<String>>, _>| {
            let read = read.unwrap();
            assert_eq!(&read, &value);
            for (i, a) in picks.iter().enumerate() {
                for (j, b) in picks.iter().enumerate() {
                    assert_eq!(Rc::ptr_eq(&read[i], &read[j]), a == b);
                }
            }
        });
    }
}
