//! The memory that bytes from elsewhere can take.

#![expect(clippy::disallowed_types, reason = "programs have such maps")]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};

use super::bytes_of;
use super::dynamic::{Shape, Square};
use crate::{FromWire, MEMORY_BYTES, MEMORY_FACTOR, Reader, Serde, Span, Wire, WireError};

/// A kilobyte, in one byte of a stream.
type Large = Option<[u64; 128]>;

/// A million times nothing, which would be a gigabyte.
pub(super) fn zeros() -> Vec<u8> {
    [&1_000_000_u32.to_le_bytes()[..], &[0; 1_000_000]].concat()
}

#[track_caller]
fn refusal<T>(read: Result<T, WireError>) -> WireError {
    let error = read.err().expect("it takes too much memory");
    assert!(matches!(error, WireError::Memory { .. }), "{error}");
    error
}

#[test]
fn a_megabyte_of_zeros_is_no_gigabyte() {
    let bytes = zeros();
    let error = refusal(Reader::new(&bytes).read::<Vec<Large>>());
    let budget = MEMORY_BYTES + MEMORY_FACTOR * bytes.len();
    let text = format!(
        "too large in memory: [core::option::Option<[u64; 128]>] needs 1032000000 bytes, and \
         {budget} are left of the {budget} that the reader may take; `Reader::with_memory` sets \
         how many"
    );
    assert_eq!(error.to_string(), text);
    refusal(crate::read::<Vec<Large>>(&bytes));
    refusal(Reader::new(&bytes).read::<VecDeque<Large>>());
    refusal(Reader::new(&bytes).read::<Box<[Large]>>());
    refusal(Reader::new(&bytes).read::<Cow<'_, [Large]>>());
    // Each in a box of its own, and so one after the other.
    refusal(Reader::new(&bytes).read::<Vec<Box<Large>>>());
    refusal(Reader::new(&bytes).read::<Serde<Vec<Option<[u64; 32]>>>>());
    refusal(Reader::new(&bytes).read::<Serde<Vec<Box<Option<[u64; 32]>>>>>());
}

#[test]
fn memory_is_bounded_before_it_is_taken() {
    memory_is_bounded();
}

/// Reads many large values out of few bytes, of which the second is none.
pub(super) fn memory_is_bounded() {
    let mut bytes = zeros();
    bytes[5] = 7;
    refusal(Reader::new(&bytes).read::<Vec<Large>>());
}

/// A value of `T` takes memory: none is too little, and what a reader has is enough.
#[track_caller]
fn is_charged<T: Wire + for<'a> FromWire<'a>>(value: &T) {
    let bytes = bytes_of(value);
    refusal(Reader::new(&bytes).with_memory(0).read_last::<T>());
    let read = Reader::new(&bytes).read_last::<T>();
    assert!(read.is_ok(), "{:?}", read.err());
}

#[test]
fn whatever_is_allocated_is_charged() {
    let large: Large = None;
    is_charged(&vec![large; 3]);
    is_charged(&vec![(1_u8, 1_u64); 3]);
    is_charged(&VecDeque::from([large; 3]));
    is_charged(&Box::new(large));
    is_charged(&vec![large; 3].into_boxed_slice());
    is_charged(&BTreeMap::from([(1_u8, large)]));
    is_charged(&BTreeSet::from([1_u8]));
    is_charged(&HashMap::<u8, Large>::from([(1, large)]));
    is_charged(&HashSet::<u8>::from([1]));
    is_charged(&Rc::new(large));
    is_charged(&Arc::new(large));
    is_charged(&Rc::<[Large]>::from([large]));
    is_charged(&Arc::<[Large]>::from([large]));
    is_charged(&Rc::<str>::from("shared"));
    is_charged(&Arc::new(Mutex::new(1_u8)));
    let shared = Rc::new(1_u8);
    is_charged(&(Rc::downgrade(&shared), shared) as &(Weak<u8>, Rc<u8>));
    is_charged(&(Box::new(Square(1)) as Box<dyn Shape>));
    is_charged(&(Arc::new(Square(1)) as Arc<dyn Shape>));
    is_charged(&Serde(vec![Some(1_u64)]));
    is_charged(&Serde(Box::new(Some((1_u64, 2_u64)))));
    is_charged(&Serde(Box::new(None::<(u64, u64)>)));
    is_charged(&Serde(BTreeMap::from([(1_u8, 2_u8)])));
}

#[test]
fn what_lies_in_the_message_is_not() {
    let value = ("text".to_owned(), vec![1.5_f64; 3], vec![1_u8, 2], Some(7_u64), [1_u16; 9]);
    let pool = egret_net::buf::Pool::new(4096, 1).unwrap();
    let mut page = crate::Page::new(pool.take(4096).unwrap());
    page.write(&value).unwrap();
    let buf = page.finish();
    let reader = || Reader::new(buf.bytes()).with_memory(0);
    let (text, numbers, bytes, ..): (&str, &[f64], &[u8], Option<u64>, [u16; 9]) =
        reader().read_last().unwrap();
    assert_eq!((text, numbers, bytes), ("text", &[1.5; 3][..], &[1, 2][..]));
    let (_, span): (Cow<'_, str>, Span<f64>) = reader().read().unwrap();
    assert_eq!(span.len(), 3);
    let copied: (String, Vec<f64>, Vec<u8>, Option<u64>, [u16; 9]) = reader().read_last().unwrap();
    assert_eq!(copied, value);
}

#[test]
fn all_values_of_a_stream_share_its_memory() {
    let bytes = bytes_of(&[vec![None::<u64>; 10], vec![None::<u64>; 10]]);
    let mut reader = Reader::new(&bytes).with_memory(300);
    assert_eq!(reader.read::<Vec<Option<u64>>>().unwrap().len(), 10);
    let error = refusal(reader.read::<Vec<Option<u64>>>());
    let said = matches!(error, WireError::Memory { needed: 160, left: 140, budget: 300, .. });
    assert!(said, "{error}");
}

#[test]
fn a_stream_in_chunks_is_as_long_as_all_of_them() {
    let bytes = bytes_of(&vec![None::<[u64; 7]>; 1_000_000]);
    let thirds: Vec<&[u8]> = bytes.chunks(bytes.len() / 3).collect();
    let read: Vec<Option<[u64; 7]>> = Reader::chunks(&thirds).read_last().unwrap();
    assert_eq!(read.len(), 1_000_000, "64 bytes of memory for each byte");
    refusal(Reader::chunks(&thirds).read::<Vec<Large>>());
}

/// Values that take the most memory for their bytes of what programs send.
#[test]
fn ordinary_types_stay_within_what_a_reader_has() {
    fn fits<T: Wire + for<'a> FromWire<'a>>(value: &T) {
        let mut writer = crate::Writer::new();
        writer.write(value).unwrap();
        let bytes = writer.to_vec();
        let read = Reader::new(&bytes).read_last::<T>();
        assert!(read.is_ok(), "{:?}", read.err());
    }
    const MANY: usize = 200_000;
    fits(&vec![None::<String>; 5 * MANY]);
    fits(&vec![Vec::<u64>::new(); MANY]);
    fits(&vec![vec![1_u8]; MANY]);
    fits(&vec![BTreeSet::from([1_u8]); MANY]);
    fits(&vec![HashSet::<u8>::from([1_u8]); MANY]);
    fits(&(0..MANY).map(|_| Rc::new(())).collect::<Vec<_>>());
    fits(&(0..MANY).map(|_| Box::new(Some(1_u8))).collect::<Vec<_>>());
    fits(&(0..MANY as u64).map(|n| (n, None)).collect::<BTreeMap<u64, Option<String>>>());
    fits(&(0..MANY as u64).map(|n| (n, None)).collect::<HashMap<u64, Option<String>>>());
    fits(&Serde(vec![None::<String>; MANY]));
    fits(&Serde(vec![vec![1_u8]; MANY]));
}
