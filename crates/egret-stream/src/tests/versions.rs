//! Two versions of a type read each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};

use super::{bytes_of, pulled};
use crate::{FromWire, ReadPlan, Reader, Schema, Wire, WireError, Writer};

/// As the first programs had them.
mod old {
    use super::*;

    #[derive(Wire, Debug, PartialEq, Clone)]
    pub(super) struct Order {
        pub(super) id: u32,
        pub(super) note: String,
        pub(super) state: State,
    }

    #[derive(Wire, Debug, PartialEq, Clone)]
    pub(super) enum State {
        Open,
        Paid { at: u64, by: String },
        Lost,
    }

    #[derive(Wire, Debug, PartialEq, Clone)]
    pub(super) struct Node {
        pub(super) value: u8,
        pub(super) next: Option<Box<Node>>,
    }

    #[derive(Wire, Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
    pub(super) struct Point {
        pub(super) x: u16,
        pub(super) y: u16,
    }

    #[derive(Wire, Debug, PartialEq, Clone)]
    pub(super) struct Empty {}
}

/// As later ones have them.
mod new {
    use super::*;

    #[derive(Wire, Debug, PartialEq, Clone)]
    pub(super) struct Order {
        #[wire(default = unnamed)]
        pub(super) customer: String,
        pub(super) state: State,
        pub(super) id: u32,
        #[wire(default)]
        pub(super) prices: Vec<f64>,
    }

    #[derive(Wire, Debug, PartialEq, Clone)]
    pub(super) enum State {
        Sent(u8),
        Paid {
            #[wire(default)]
            amount: u32,
            at: u64,
        },
        Open,
    }

    #[derive(Wire, Debug, PartialEq, Clone)]
    pub(super) struct Node {
        pub(super) next: Option<Box<Node>>,
        pub(super) value: u8,
        #[wire(default)]
        pub(super) mark: bool,
    }

    #[derive(Wire, Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Default)]
    pub(super) struct Point {
        pub(super) x: u16,
        #[wire(default)]
        pub(super) z: u16,
        #[wire(default)]
        pub(super) y: u16,
    }

    #[derive(Wire, Debug, PartialEq, Clone)]
    pub(super) struct Empty {
        #[wire(default)]
        pub(super) now: u8,
    }

    fn unnamed() -> String {
        "unnamed".to_owned()
    }
}

/// A plan as the other side of a connection makes it: out of the text.
fn plan<There: Wire, Here: Wire>() -> Result<ReadPlan, WireError> {
    ReadPlan::of(&Schema::from_text(Schema::of::<There>().as_str()), &Schema::of::<Here>())
}

/// What `value` is for a program in which its type is `Here`.
fn across<There: Wire, Here: for<'a> FromWire<'a> + Debug + PartialEq>(
    value: &There,
) -> Result<Here, WireError> {
    let plan = plan::<There, Here>()?;
    let mut writer = Writer::new();
    writer.write(value)?;
    writer.write_copy(&0x7f_u8)?;
    let bytes = writer.to_vec();
    let read = |mut reader: Reader<'_>| {
        let value = reader.read_planned::<Here>(&plan)?;
        assert_eq!(reader.read_last(), Ok(0x7f_u8), "all of it was read, and no more");
        Ok(value)
    };
    let (whole, arriving) = (read(Reader::new(&bytes)), read(pulled(&bytes, 3)));
    assert_eq!(whole, arriving);
    whole
}

#[rustfmt::skip]
const OLD_BYTES: [u8; 35] = [
    7, 0, 0, 0,                                     // id
    4, 0, 0, 0, b'n', b'o', b't', b'e',             // note
    1, 9, 0, 0, 0, 0, 0, 0, 0,                      // the second variant, at
    10, 0, 0, 0, b's', b'o', b'm', b'e', b'b', b'o', b'd', b'y', b' ', b'X', // by
];

#[rustfmt::skip]
const NEW_BYTES: [u8; 48] = [
    3, 0, 0, 0, b'b', b'o', b'b',                   // customer
    1, 5, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,          // the second variant: amount, at
    7, 0, 0, 0,                                     // id
    2, 0, 0, 0, 0, 0, 0, 0,                         // two prices, and zeros up to 32
    0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40,
];

fn old_order() -> old::Order {
    let state = old::State::Paid { at: 9, by: "somebody X".into() };
    old::Order { id: 7, note: "note".into(), state }
}

fn new_order() -> new::Order {
    let state = new::State::Paid { amount: 5, at: 9 };
    new::Order { customer: "bob".into(), state, id: 7, prices: vec![1.0, 2.0] }
}

#[test]
fn the_bytes_of_two_versions_are_these_for_ever() {
    assert_eq!(bytes_of(&old_order()), OLD_BYTES);
    assert_eq!(bytes_of(&new_order()), NEW_BYTES);
    let to_new = plan::<old::Order, new::Order>().unwrap();
    let state = new::State::Paid { amount: 0, at: 9 };
    let expected = new::Order { customer: "unnamed".into(), state, id: 7, prices: vec![] };
    assert_eq!(Reader::new(&OLD_BYTES).read_planned(&to_new), Ok(expected));
    let (old, new) = (old::Point { x: 1, y: 2 }, new::Point { x: 1, z: 3, y: 2 });
    let (old_bytes, new_bytes) = ([1, 0, 2, 0], [1, 0, 3, 0, 2, 0]);
    assert_eq!((&bytes_of(&old)[..], &bytes_of(&new)[..]), (&old_bytes[..], &new_bytes[..]));
    let to_old = plan::<new::Point, old::Point>().unwrap();
    assert_eq!(Reader::new(&new_bytes).read_planned(&to_old), Ok(old));
    let to_new = plan::<old::Point, new::Point>().unwrap();
    assert_eq!(Reader::new(&old_bytes).read_planned(&to_new), Ok(new::Point { z: 0, ..new }));
}

/// What the old programs lack a default for they cannot read; the new ones wrote it for them.
#[test]
fn a_field_without_a_default_must_be_there() {
    let refused = plan::<new::Order, old::Order>().unwrap_err();
    let expected = "Order.note: here it is `string`, without a default, there nothing";
    assert_eq!(refused.to_string(), expected);
    // A type that was read by its own code all along, in both directions.
    let (old, new) = (old::Point { x: 1, y: 2 }, new::Point { x: 1, z: 0, y: 2 });
    assert_eq!(across(&old), Ok(new.clone()));
    assert_eq!(across::<_, old::Point>(&new), Ok(old));
}

#[test]
fn equal_schemas_are_the_short_cut() {
    let plan = plan::<old::Order, old::Order>().unwrap();
    assert!(plan.is_same());
    assert_eq!(Reader::new(&OLD_BYTES).read_planned(&plan), Ok(old_order()));
}

#[test]
fn variants_are_read_by_their_names() {
    assert_eq!(across(&old::State::Open), Ok(new::State::Open));
    let error = across::<_, new::State>(&old::State::Lost).unwrap_err();
    let expected = "variant `Lost` of `State` is known to the writer and not here";
    assert_eq!(error.to_string(), expected);
    let plan = plan::<old::State, new::State>().unwrap();
    let error = Reader::new(&[3]).read_planned::<new::State>(&plan).unwrap_err();
    assert!(matches!(error, WireError::Invalid(_)), "{error}");
}

#[test]
fn what_holds_itself_is_read_by_one_step() {
    let chain = (0..50).fold(None, |next, value| Some(Box::new(old::Node { value, next })));
    let read: new::Node = across(&**chain.as_ref().unwrap()).unwrap();
    let mut values = vec![read.value];
    let mut next = read.next;
    while let Some(node) = next {
        assert!(!node.mark);
        values.push(node.value);
        next = node.next;
    }
    assert_eq!(values, (0..50).rev().collect::<Vec<u8>>());
}

#[test]
fn a_version_may_stand_in_whatever_holds_it() {
    fn point(x: u16) -> old::Point {
        old::Point { x, y: 1 }
    }
    fn newer(x: u16) -> new::Point {
        new::Point { x, z: 0, y: 1 }
    }
    assert_eq!(across(&vec![point(1), point(2)]), Ok(vec![newer(1), newer(2)]));
    assert_eq!(across(&VecDeque::from([point(1)])), Ok(VecDeque::from([newer(1)])));
    assert_eq!(across(&BTreeSet::from([point(1)])), Ok(BTreeSet::from([newer(1)])));
    let (map, expected) = (BTreeMap::from([(point(1), 5_u8)]), BTreeMap::from([(newer(1), 5_u8)]));
    assert_eq!(across(&map), Ok(expected));
    assert_eq!(across(&[point(1), point(2)]), Ok([newer(1), newer(2)]));
    assert_eq!(across(&(1_u8, Some(point(1)))), Ok((1_u8, Some(newer(1)))));
    assert_eq!(across(&Ok::<_, u8>(point(1))), Ok(Ok::<_, u8>(newer(1))));
    assert_eq!(across(&Err::<u8, _>(point(1))), Ok(Err::<u8, _>(newer(1))));
    let boxed: Box<[old::Point]> = [point(1)].into();
    assert_eq!(across::<_, Box<[new::Point]>>(&boxed), Ok([newer(1)].into()));
    let cell = std::cell::RefCell::new(point(1));
    assert_eq!(across(&cell), Ok(std::cell::RefCell::new(newer(1))));
    // An element without bytes has one before it; with the version that has some it does not.
    assert_eq!(across(&vec![old::Empty {}; 3]), Ok(vec![new::Empty { now: 0 }; 3]));
    assert_eq!(across(&vec![new::Empty { now: 1 }; 3]), Ok(vec![old::Empty {}; 3]));
}

#[test]
fn shared_values_of_another_version_stay_shared() {
    let one = Rc::new(old::Point { x: 1, y: 2 });
    let read: Vec<Rc<new::Point>> = across(&vec![Rc::clone(&one), one]).unwrap();
    assert!(Rc::ptr_eq(&read[0], &read[1]) && read[1].y == 2);
    let one = Arc::new(Mutex::new(old::Point { x: 1, y: 2 }));
    let plan = plan::<Vec<Arc<Mutex<old::Point>>>, Vec<Arc<Mutex<new::Point>>>>().unwrap();
    let bytes = bytes_of(&vec![Arc::clone(&one), one]);
    let read: Vec<Arc<Mutex<new::Point>>> = Reader::new(&bytes).read_planned(&plan).unwrap();
    assert!(Arc::ptr_eq(&read[0], &read[1]) && read[0].lock().unwrap().y == 2);
    let list: Rc<[old::Point]> = [old::Point { x: 3, y: 4 }].into();
    assert_eq!(across::<_, Rc<[new::Point]>>(&list).unwrap()[0].y, 4);
}

#[test]
fn a_value_that_was_skipped_cannot_be_referred_to() {
    mod there {
        use super::*;
        #[derive(Wire)]
        pub(super) struct Pair {
            pub(super) _gone: Rc<u8>,
            pub(super) other: Rc<u8>,
            pub(super) weak: Weak<u8>,
        }
    }
    #[derive(Wire, Debug)]
    struct Pair {
        other: Rc<u8>,
        weak: Weak<u8>,
    }
    let (gone, other) = (Rc::new(1), Rc::new(2));
    let plan = plan::<there::Pair, Pair>().unwrap();
    let weak = Rc::downgrade(&other);
    let bytes = bytes_of(&there::Pair { _gone: Rc::clone(&gone), other: Rc::clone(&other), weak });
    let read: Pair = Reader::new(&bytes).read_planned(&plan).unwrap();
    assert_eq!((*read.other, read.weak.upgrade()), (2, Some(Rc::clone(&read.other))));
    let weak = Rc::downgrade(&gone);
    let bytes = bytes_of(&there::Pair { _gone: Rc::clone(&gone), other: gone, weak });
    let error = Reader::new(&bytes).read_planned::<Pair>(&plan).unwrap_err();
    assert_eq!(error, WireError::NoSuchShared(0));
}

#[test]
fn what_cannot_be_read_is_refused_by_its_field() {
    mod there {
        use super::*;
        #[derive(Wire)]
        pub(super) struct Order {
            pub(super) _id: u32,
            pub(super) _prices: Vec<f64>,
            #[wire(with = crate::serde)]
            pub(super) _foreign: Vec<u8>,
        }
    }
    mod here {
        use super::*;
        #[derive(Wire)]
        pub(super) struct Order {
            pub(super) _id: u32,
            pub(super) _prices: Vec<f32>,
            #[wire(with = crate::serde)]
            pub(super) _foreign: Vec<u8>,
        }
    }
    mod less {
        #[derive(crate::Wire)]
        pub(super) struct Order {
            pub(super) _id: u32,
        }
    }
    mod renamed {
        #[derive(crate::Wire)]
        pub(super) struct Purchase {
            pub(super) _id: u32,
        }
    }
    fn refusal<There: Wire, Here: Wire>() -> String {
        plan::<There, Here>().unwrap_err().to_string()
    }
    assert_eq!(
        refusal::<there::Order, here::Order>(),
        "Order._prices[]: here it is `f32`, there `f64`"
    );
    assert_eq!(
        refusal::<there::Order, less::Order>(),
        "Order._foreign: here it is nothing, there `serde alloc::vec::Vec<u8>` (by a module), in \
         which `serde alloc::vec::Vec<u8>` cannot be skipped"
    );
    assert_eq!(
        refusal::<renamed::Purchase, less::Order>(),
        "Order: here it is `struct Order`, there `struct Purchase`"
    );
    assert_eq!(
        refusal::<(u8, u8), (u8,)>(),
        "tuple: here it is `tuple` of 1 parts, there `tuple` of 2 parts"
    );
    assert_eq!(
        refusal::<Vec<Option<u8>>, Vec<Option<i8>>>(),
        "list[][]: here it is `i8`, there `u8`"
    );
}

#[test]
fn a_plan_is_for_one_type() {
    let plan = plan::<old::Point, new::Point>().unwrap();
    let error = Reader::new(&[0; 9]).read_planned::<new::Node>(&plan).unwrap_err();
    assert_eq!(error.to_string(), "the plan is for another type");
}

/// A struct with a field that the reader does not have, before one that it has.
mod wide {
    #[derive(crate::Wire)]
    pub(super) struct With<T> {
        pub(super) _before: u8,
        pub(super) _extra: T,
        pub(super) kept: u32,
    }
}

#[derive(Wire, Debug, PartialEq)]
struct With {
    kept: u32,
}

/// Skips `value`, whatever it is.
pub(super) fn is_skipped<T: Wire>(value: T) {
    let read: With = across(&wide::With { _before: 1, _extra: value, kept: 77 }).unwrap();
    assert_eq!(read, With { kept: 77 });
}

/// Texts are skipped to their ends.
pub(super) fn texts_are_skipped() {
    is_skipped(vec!["text".to_owned()]);
}

/// A field that nobody has a value for is refused.
pub(super) fn fields_are_not_made_up() {
    assert!(plan::<new::Order, old::Order>().is_err());
}

/// Types are compared.
pub(super) fn types_are_compared() {
    assert!(plan::<Vec<u8>, Vec<u16>>().is_err());
}

#[test]
fn a_text_that_is_no_schema_is_refused() {
    let deep: String = (0..1000).map(|depth| format!("{:1$}list\n", "", depth * 2)).collect();
    let long = format!("struct A\n{}", "  a: u8\n".repeat(10_000));
    for text in [
        "",
        "u8\nu8\n",
        "  u8\n",
        "list\n",
        "list\n  u8\n  u8\n",
        "struct A\n    a: u8\n",
        "struct A\n  a: u8\n  a: u8\n",
        "struct A\n  a: struct A again (1)\n",
        "struct A\n  a: struct B again (0)\n",
        "struct A\n  a: plain P of 8 bytes at 3\n",
        "struct A\n  a: plain P of 0 bytes at 4\n",
        "array of 99999999999999999999999\n  u8\n",
        &deep,
        &long,
    ] {
        let error = ReadPlan::of(&Schema::from_text(text), &Schema::of::<new::Order>());
        let error = error.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("is not understood"), "{text:.40}: {error}");
    }
}

/// Which variant it is takes four bytes where there are more than 256.
#[test]
fn an_enum_may_have_grown_wide() {
    #[derive(Wire, Debug, PartialEq)]
    enum E {
        V256,
        V5,
    }
    let variants: String = (0..257).map(|at| format!("    V{at}\n")).collect();
    let theirs = format!("list\n  enum E\n{variants}");
    let plan = ReadPlan::of(&Schema::from_text(&theirs), &Schema::of::<Vec<E>>()).unwrap();
    let bytes = bytes_of(&vec![5_u32, 256, 5]);
    assert_eq!(Reader::new(&bytes).read_planned(&plan), Ok(vec![E::V5, E::V256, E::V5]));
    let theirs = format!("struct With\n  e: enum E\n{variants}  kept: u32\n");
    let plan = ReadPlan::of(&Schema::from_text(&theirs), &Schema::of::<With>()).unwrap();
    assert_eq!(Reader::new(&[0, 1, 0, 0, 9, 0, 0, 0]).read_planned(&plan), Ok(With { kept: 9 }));
    let error = Reader::new(&[1, 1, 0, 0, 9, 0, 0, 0]).read_planned::<With>(&plan).unwrap_err();
    assert!(matches!(error, WireError::Invalid(_)), "{error}");
}

/// More variants behind those that were there are more of the same bytes.
#[test]
fn an_enum_that_only_grew_is_the_same() {
    let theirs = "enum State\n  Sent\n    0: u8\n  Paid\n    amount: u32\n    at: u64\n";
    assert!(
        ReadPlan::of(&Schema::from_text(theirs), &Schema::of::<new::State>()).unwrap().is_same()
    );
}

/// A type that holds itself directly is none that a program can have.
#[test]
fn endless_types_take_no_time() {
    let theirs = "struct With\n  kept: u32\n  a: array of 18446744073709551615\n    struct B\n      b: struct B again (1)\n";
    let plan = ReadPlan::of(&Schema::from_text(theirs), &Schema::of::<With>()).unwrap();
    let read = Reader::new(&[1, 0, 0, 0]).read_planned(&plan);
    assert_eq!(read, Ok(With { kept: 1 }));
}

#[test]
fn a_type_may_travel_as_another_one() {
    #[derive(Wire)]
    struct Degrees {
        degrees: f64,
    }
    #[derive(Wire, Debug, PartialEq, Clone)]
    #[wire(via = Degrees)]
    struct Angle(f64);
    impl From<&Angle> for Degrees {
        fn from(angle: &Angle) -> Self {
            Self { degrees: angle.0 * 180.0 }
        }
    }
    impl TryFrom<Degrees> for Angle {
        type Error = String;
        fn try_from(angle: Degrees) -> Result<Self, String> {
            let is_one = angle.degrees.is_finite();
            is_one.then_some(Self(angle.degrees / 180.0)).ok_or_else(|| "no angle".to_owned())
        }
    }
    #[derive(Wire, Debug, PartialEq, Clone)]
    struct Turn {
        by: Angle,
        #[wire(via = String)]
        name: Name,
    }
    #[derive(Debug, PartialEq, Clone)]
    struct Name(Vec<char>);
    impl From<&Name> for String {
        fn from(name: &Name) -> Self {
            name.0.iter().collect()
        }
    }
    impl From<String> for Name {
        fn from(text: String) -> Self {
            Self(text.chars().collect())
        }
    }
    let turn = Turn { by: Angle(0.5), name: Name(vec!['l', 'ß']) };
    super::there_and_back(&vec![turn.clone(), turn.clone()]);
    assert_eq!(bytes_of(&turn.by), 90.0_f64.to_le_bytes());
    let text = "struct Turn\n  by: struct Degrees\n    degrees: f64\n  name: string\n";
    assert_eq!(Schema::of::<Turn>().as_str(), text);
    let error = Reader::new(&f64::NAN.to_le_bytes()).read::<Angle>().unwrap_err();
    assert!(error.to_string().ends_with("Angle failed: no angle"), "{error}");
}
