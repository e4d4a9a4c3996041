//! The bytes of docs/wire/streams.md.

use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::derive::{Complex, Node};
use crate::{Schema, Serde, Wire, Writer, fingerprint};

fn bytes<T: Wire>(value: &T) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.write(value).unwrap();
    writer.to_vec()
}

#[derive(Wire)]
struct Order {
    id: u32,
    item: String,
    prices: Vec<f64>,
    state: State,
}

#[derive(Wire)]
enum State {
    Open,
    Paid { at: Duration },
}

fn order() -> Order {
    let state = State::Paid { at: Duration::new(2, 3) };
    Order { id: 7, item: "tea".into(), prices: vec![1.5], state }
}

#[test]
fn the_bytes_are_these_for_ever() {
    assert_eq!(bytes(&0x0102_0304_u32), [4, 3, 2, 1]);
    assert_eq!(bytes(&(true, 'ß', 3_usize)), [1, 0xdf, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(&"hé"), [3, 0, 0, 0, b'h', 0xc3, 0xa9]);
    assert_eq!(bytes(&Some(5_u8)), [1, 5]);
    assert_eq!(bytes(&None::<u8>), [0]);
    assert_eq!(bytes(&Err::<u8, u8>(9)), [1, 9]);
    assert_eq!(bytes(&vec![1_u16, 2]), [2, 0, 0, 0, 1, 0, 2, 0]);
    // A length, zeros up to a multiple of 8, two numbers.
    let two = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40];
    assert_eq!(bytes(&vec![1.0, 2.0]), two);
    assert_eq!(bytes(&Vec::<f64>::new()), [0; 4], "nothing is aligned");
    assert_eq!(bytes(&[1_u16, 2]), [1, 0, 2, 0], "an array has no length");
    assert_eq!(bytes(&vec![(); 3]), [3, 0, 0, 0, 0, 0, 0], "a byte for each");
    assert_eq!(bytes(&BTreeMap::from([(1_u8, 2_u8)])), [1, 0, 0, 0, 1, 2]);
    let node = Node { values: [1, 2, 3, 4], left: Some(Box::new(Node::default())), right: None };
    let mut expected = vec![1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1];
    expected.extend([0; 18]);
    expected.push(0);
    assert_eq!(bytes(&node), expected);
    let complex = (9_u8, Complex { re: 1.0, im: 0.0 });
    let mut expected = vec![9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
    expected.extend([0; 8]);
    assert_eq!(bytes(&complex), expected);
    #[rustfmt::skip]
    assert_eq!(bytes(&order()), [
        7, 0, 0, 0,                             // id
        3, 0, 0, 0, b't', b'e', b'a',           // item
        1, 0, 0, 0, 0,                          // one price, and a zero up to 16
        0, 0, 0, 0, 0, 0, 0xf8, 0x3f,           // 1.5
        1,                                      // the second variant
        2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0,     // seconds, nanoseconds
    ]);
    assert_eq!(bytes(&State::Open), [0]);
}

#[test]
fn the_bytes_of_shared_values_are_these_for_ever() {
    let shared = Rc::new(5_u8);
    assert_eq!(bytes(&vec![Rc::clone(&shared), shared]), [2, 0, 0, 0, 0, 0, 0, 0, 5, 1, 0, 0, 0]);
    assert_eq!(bytes(&Weak::<u8>::new()), [255; 4]);
    assert_eq!(bytes(&Serde(vec![1_u8])), [1, 0, 0, 0, 0, 1]);
}

#[test]
fn a_long_length_has_its_own_form() {
    let mut writer = Writer::new();
    writer.length(usize::try_from(u32::MAX).unwrap()).unwrap();
    assert_eq!(writer.to_vec(), [255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0]);
    let mut writer = Writer::new();
    writer.length(usize::try_from(u32::MAX).unwrap() - 1).unwrap();
    assert_eq!(writer.to_vec(), [254, 255, 255, 255]);
}

#[test]
fn schemas_are_these_for_ever() {
    let text = "\
struct Order
  id: u32
  item: string
  prices: list
    f64
  state: enum State
    Open
    Paid
      at: duration
";
    assert_eq!(Schema::of::<Order>().as_str(), text);
    let text = "\
struct Node
  values: array of 4
    i32
  left: option
    struct Node again (0)
  right: option
    struct Node again (0)
";
    assert_eq!(Schema::of::<Node>().as_str(), text);
}

#[test]
fn fingerprints_are_these_for_ever() {
    let prints = [
        fingerprint::<u32>(),
        fingerprint::<Vec<f64>>(),
        fingerprint::<Order>(),
        fingerprint::<Node>(),
        fingerprint::<Complex>(),
        fingerprint::<(u8, String)>(),
    ];
    assert_eq!(prints, FOR_EVER);
    assert_eq!(fingerprint::<Order>(), Schema::of::<Order>().fingerprint(), "cached and walked");
    assert_eq!(fingerprint::<&[f64]>(), fingerprint::<Vec<f64>>(), "read in place or owned");
}

const FOR_EVER: [u64; 6] = [
    705_429_087_668_857_654,
    15_648_097_191_825_363_260,
    17_963_622_108_755_016_357,
    17_501_170_835_268_539_599,
    11_814_941_221_849_467_445,
    16_167_068_595_465_556_966,
];

mod other {
    use crate::Wire;

    #[derive(Wire)]
    pub(super) struct Order {
        pub(super) id: u32,
        pub(super) item: String,
        pub(super) prices: Vec<f64>,
        pub(super) state: State,
    }

    #[derive(Wire)]
    pub(super) enum State {
        Open,
        Paid { on: std::time::Duration },
    }
}

#[test]
fn the_first_difference_is_told_in_words() {
    let told = |here: &Schema, there: &Schema| here.difference(there).unwrap();
    let (here, there) = (Schema::of::<Order>(), Schema::of::<other::Order>());
    assert_ne!(here.fingerprint(), there.fingerprint());
    let expected = "Order.state[]: here it is `at: duration`, there `on: duration`";
    assert_eq!(told(&here, &there), expected);
    let words = told(&Schema::of::<Vec<u8>>(), &Schema::of::<Vec<u16>>());
    assert!(words.ends_with("here it is `u8`, there `u16`"), "{words}");
    let words = told(&Schema::of::<(u8, u8)>(), &Schema::of::<(u8,)>());
    assert!(words.ends_with("here it is `1: u8`, there nothing more"), "{words}");
    let words = told(&Schema::of::<u8>(), &Schema::of::<String>());
    assert_eq!(words, "the whole: here it is `u8`, there `string`");
    assert_eq!(here.difference(&Schema::from_text(here.as_str())), None);
}
