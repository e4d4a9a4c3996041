//! Each fault is found by a check that exists.

use std::rc::Rc;

use super::derive::Complex;
use super::{at_every_split, budget, bytes_of, dynamic, pulling, there_and_back, versions};
use crate::fault::{Fault, caught};
use crate::{Reader, Schema, Wire, WireError};

/// Reads an array in place from an aligned buffer.
fn in_place_is_aligned() {
    let pool = egret_net::buf::Pool::new(256, 1).unwrap();
    let mut page = crate::Page::new(pool.take(256).unwrap());
    page.write(&(1_u8, vec![Complex { re: 1.0, im: 2.0 }; 3])).unwrap();
    let buf = page.finish();
    let (_, read): (u8, &[Complex]) = Reader::new(buf.bytes()).read_last().unwrap();
    assert_eq!(read.len(), 3);
}

fn splits_lose_nothing() {
    there_and_back(&(1_u32, String::from("text"), vec![7_u64; 3]));
}

fn sharing_keeps_its_shape() {
    let one = Rc::new(1_u8);
    at_every_split(&bytes_of(&(Rc::clone(&one), one)), |read: Result<(Rc<u8>, Rc<u8>), _>| {
        let (a, b) = read.unwrap();
        assert!(Rc::ptr_eq(&a, &b));
    });
}

#[derive(Wire, Debug)]
#[wire(check = is_even)]
struct Even(u8);

fn is_even(even: &Even) -> bool {
    even.0.is_multiple_of(2)
}

fn checks_run() {
    let read = Reader::new(&[3]).read::<Even>();
    assert!(matches!(read, Err(WireError::Check { .. })));
}

#[derive(Wire)]
struct Chain(Option<Box<Chain>>);

/// Deeper than the bound, and not so deep that a fault ends the process.
fn depth_is_bounded() {
    let read = Reader::new(&[1; 300]).with_stack(1 << 14).read::<Chain>();
    assert!(matches!(read.err(), Some(WireError::TooDeep(_))));
}

fn names_count() {
    mod here {
        #[derive(crate::Wire)]
        pub(super) struct Point {
            pub(super) _x: u8,
        }
    }
    mod there {
        #[derive(crate::Wire)]
        pub(super) struct Point {
            pub(super) _y: u8,
        }
    }
    let (here, there) = (Schema::of::<here::Point>(), Schema::of::<there::Point>());
    assert_ne!(here.fingerprint(), there.fingerprint());
}

#[test]
fn every_planted_fault_is_caught() {
    // What else is planted, `HalfWritten` and `Leaked`, stands beside its checks.
    let checks: [(Fault, fn()); 15] = [
        (Fault::NoPadding, in_place_is_aligned),
        (Fault::TrustedLength, budget::memory_is_bounded),
        (Fault::TrustedLength, pulling::no_length_is_believed),
        (Fault::FilledUp, pulling::short_pulls_are_waited_for),
        (Fault::LostAtSplit, splits_lose_nothing),
        (Fault::LostAtSplit, pulling::short_pulls_are_waited_for),
        (Fault::Bottomless, depth_is_bounded),
        (Fault::Unshared, sharing_keeps_its_shape),
        (Fault::AnyStructure, dynamic::another_structure_is_refused),
        (Fault::AnyStructure, versions::types_are_compared),
        (Fault::TooBare, dynamic::numbers_stand_alone_once_acknowledged),
        (Fault::MadeUp, versions::fields_are_not_made_up),
        (Fault::SkippedShort, versions::texts_are_skipped),
        (Fault::Unchecked, checks_run),
        (Fault::Nameless, names_count),
    ];
    for (fault, check) in checks {
        check();
        assert!(caught(fault, check), "{fault:?}");
    }
}
