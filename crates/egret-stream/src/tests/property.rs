//! Generated values of every shape, there and back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use proptest::collection::{btree_map, btree_set, vec, vec_deque};
use proptest::prelude::*;

use super::derive::{Complex, Node};
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
