//! Bytes that nobody wrote: errors, in bounded memory and on a bounded stack.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;

use egret_net::rt;

use super::bytes_of;
use crate::{FromWire, ReadError, Reader, Serde, Wire, WriteError, Writer};

/// A length that promises more than there is.
const HUGE: [u8; 16] = [255, 255, 255, 254, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// The same in eight bytes.
const LONGER: [u8; 16] = [255, 255, 255, 255, 0, 0, 0, 0, 255, 255, 255, 127, 0, 0, 0, 0];

fn refuses<T: for<'a> FromWire<'a> + Debug>(bytes: &[u8]) {
    let error = Reader::new(bytes).read::<T>().unwrap_err();
    assert!(matches!(error, ReadError::End { .. }), "{error}");
    let halves = [&bytes[..7], &bytes[7..]];
    assert!(Reader::chunks(&halves).read::<T>().is_err());
}

#[derive(Wire, Debug, Default)]
struct Hollow {
    #[wire(skip)]
    _memory: Vec<[u64; 8]>,
}

#[test]
fn a_length_takes_no_memory_before_it_is_checked() {
    for bytes in [&HUGE[..], &LONGER] {
        refuses::<Vec<u8>>(bytes);
        refuses::<Vec<f64>>(bytes);
        refuses::<Vec<()>>(bytes);
        refuses::<Vec<[(); 5]>>(bytes);
        refuses::<Vec<Hollow>>(bytes);
        refuses::<Vec<Vec<u8>>>(bytes);
        refuses::<Vec<(u32, u64)>>(bytes);
        refuses::<String>(bytes);
        refuses::<Box<[u16]>>(bytes);
        refuses::<Rc<[u16]>>(&[&[0; 4], bytes].concat());
        refuses::<BTreeMap<(), ()>>(bytes);
        refuses::<BTreeMap<u8, Vec<u8>>>(bytes);
        refuses::<Serde<Vec<()>>>(bytes);
        refuses::<Serde<BTreeMap<u8, u8>>>(bytes);
    }
}

#[test]
fn values_larger_than_their_bytes_get_memory_as_they_come() {
    memory_is_not_taken_ahead();
}

/// Reads many large values out of few bytes.
pub(super) fn memory_is_not_taken_ahead() {
    // A million options of a kilobyte each, in a megabyte: memory is not taken ahead.
    let mut bytes = 1_000_000_u32.to_le_bytes().to_vec();
    bytes.resize(1_000_004, 0);
    bytes[5] = 7;
    let reader = Reader::new(&bytes);
    assert!(reader.capacity::<Option<[u64; 128]>>(1_000_000) * 1032 <= 8 * bytes.len());
    let error = Reader::new(&bytes).read::<Vec<Option<[u64; 128]>>>().unwrap_err();
    assert_eq!(error.to_string(), "no option");
}

#[test]
fn bytes_that_are_no_value_are_named() {
    fn error<T: for<'a> FromWire<'a> + Debug>(bytes: &[u8]) -> String {
        Reader::new(bytes).read::<T>().unwrap_err().to_string()
    }
    assert_eq!(error::<bool>(&[2]), "no bool");
    assert_eq!(error::<char>(&[0, 0xd8, 0, 0]), "no char");
    assert_eq!(error::<std::num::NonZero<u8>>(&[0]), "no non-zero u8");
    assert_eq!(error::<String>(&[1, 0, 0, 0, 0xff]), "a string that is not UTF-8");
    assert_eq!(error::<Option<u8>>(&[2, 0]), "no option");
    assert_eq!(error::<Vec<f64>>(&[1, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "no padding");
    assert_eq!(error::<Vec<u8>>(&[255, 255, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0, 7]), "no length");
    assert_eq!(error::<BTreeMap<u8, u8>>(&[2, 0, 0, 0, 1, 1, 1, 1]), "the same key twice");
    assert_eq!(error::<Vec<()>>(&[1, 0, 0, 0, 1]), "no element without bytes");
    assert_eq!(
        error::<std::time::Duration>(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 202, 154, 59]),
        "no duration"
    );
    let rest = Reader::new(&[1, 2]).read_last::<u8>().unwrap_err();
    assert_eq!(rest.to_string(), "1 bytes are left behind the last value");
}

#[derive(Wire, Debug)]
struct List {
    value: u64,
    next: Option<Box<List>>,
}

#[derive(Wire, Debug)]
struct Fat {
    _memory: [u64; 512],
    next: Option<Box<Fat>>,
}

#[derive(Wire, Debug)]
struct Nest(Vec<Nest>);

#[derive(Wire, Debug)]
struct Chain(Option<Rc<Chain>>);

#[derive(::serde::Serialize, ::serde::Deserialize, Debug)]
struct Foreign(Option<Box<Foreign>>);

fn list(len: usize) -> Option<Box<List>> {
    (0..len as u64).fold(None, |next, value| Some(Box::new(List { value, next })))
}

/// Takes a list apart without going down into it.
fn unlink(mut list: Option<Box<List>>) {
    while let Some(mut first) = list {
        list = first.next.take();
    }
}

/// Reads `bytes` on a thread of the usual stack.
pub(super) fn is_too_deep<T: for<'a> FromWire<'a> + Debug>(bytes: Vec<u8>) {
    let read = rt::spawn("deep", move || Reader::new(&bytes).read::<T>().unwrap_err()).unwrap();
    let error = read.join().expect("no overflow");
    assert!(matches!(error, ReadError::TooDeep(_)), "{error}");
}

/// `part`, a million times.
fn million(part: &[u8]) -> Vec<u8> {
    part.repeat(1_000_000)
}

#[test]
fn a_million_levels_are_too_deep_to_read() {
    is_too_deep::<List>(million(&[0, 0, 0, 0, 0, 0, 0, 0, 1]));
    is_too_deep::<Nest>(million(&[1, 0, 0, 0]));
    is_too_deep::<Chain>(million(&[1, 0, 0, 0, 0]));
    is_too_deep::<Serde<Foreign>>(million(&[1]));
    is_too_deep::<Fat>([vec![0; 4096], vec![1]].concat().repeat(1000));
}

#[test]
fn a_million_levels_are_too_deep_to_write() {
    let long = list(1_000_000);
    let mut writer = Writer::new();
    let error = writer.write_copy(&long).unwrap_err();
    assert!(matches!(error, WriteError::TooDeep(name) if name.ends_with("List")), "{error}");
    assert!(writer.is_empty());
    unlink(long);
}

#[test]
fn a_thousand_levels_are_not() {
    let long = list(1000);
    let bytes = bytes_of(&long);
    let back: Option<Box<List>> = Reader::new(&bytes).read_last().unwrap();
    assert_eq!(bytes_of(&back), bytes);
    let nest = (0..500).fold(Nest(vec![]), |inner, _| Nest(vec![inner]));
    let back: Nest = Reader::new(&bytes_of(&nest)).read_last().unwrap();
    assert_eq!(bytes_of(&back), bytes_of(&nest));
    let chain = (0..200).fold(Chain(None), |inner, _| Chain(Some(Rc::new(inner))));
    let back: Chain = Reader::new(&bytes_of(&chain)).read_last().unwrap();
    assert_eq!(bytes_of(&back), bytes_of(&chain));
}
