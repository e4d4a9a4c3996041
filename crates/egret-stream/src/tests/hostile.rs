//! Bytes that nobody wrote: errors, in bounded memory and on a bounded stack.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;

use egret_net::rt;

use super::bytes_of;
use crate::{FromWire, Reader, STACK_BYTES, Serde, Wire, WireError, Writer};

/// A length that promises more than there is.
pub(super) const HUGE: [u8; 16] = [255, 255, 255, 254, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// The same in eight bytes.
pub(super) const LONGER: [u8; 16] =
    [255, 255, 255, 255, 0, 0, 0, 0, 255, 255, 255, 127, 0, 0, 0, 0];

fn refuses<T: for<'a> FromWire<'a> + Debug>(bytes: &[u8]) {
    let error = Reader::new(bytes).read::<T>().unwrap_err();
    assert!(matches!(error, WireError::End { .. }), "{error}");
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
fn bytes_that_are_no_value_are_named() {
    fn error<T: for<'a> FromWire<'a> + Debug>(bytes: &[u8]) -> String {
        Reader::new(bytes).read::<T>().unwrap_err().to_string()
    }
    assert_eq!(error::<bool>(&[2]), "the bytes are not a valid bool");
    assert_eq!(error::<char>(&[0, 0xd8, 0, 0]), "the bytes are not a valid char");
    assert_eq!(error::<std::num::NonZero<u8>>(&[0]), "the bytes are not a valid non-zero u8");
    assert_eq!(error::<String>(&[1, 0, 0, 0, 0xff]), "a string that is not UTF-8");
    assert_eq!(error::<Option<u8>>(&[2, 0]), "the bytes are not a valid option");
    assert_eq!(
        error::<Vec<f64>>(&[1, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        "the bytes are not a valid padding"
    );
    assert_eq!(
        error::<Vec<u8>>(&[255, 255, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0, 7]),
        "the bytes are not a valid length"
    );
    assert_eq!(
        error::<BTreeMap<u8, u8>>(&[2, 0, 0, 0, 1, 1, 1, 1]),
        "a map or set has the same key twice"
    );
    assert_eq!(
        error::<Vec<()>>(&[1, 0, 0, 0, 1]),
        "the bytes are not a valid element without bytes"
    );
    assert_eq!(
        error::<std::time::Duration>(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 202, 154, 59]),
        "the bytes are not a valid duration"
    );
    let rest = Reader::new(&[1, 2]).read_last::<u8>().unwrap_err();
    assert_eq!(rest.to_string(), "1 bytes are left behind the last value");
}

#[derive(Wire, Debug)]
pub(super) struct List {
    value: u64,
    next: Option<Box<List>>,
}

#[derive(Wire, Debug)]
struct Fat {
    _memory: [u64; 512],
    next: Option<Box<Fat>>,
}

#[derive(Wire, Debug)]
pub(super) struct Nest(pub(super) Vec<Nest>);

#[derive(Wire, Debug)]
struct Chain(Option<Rc<Chain>>);

#[derive(::serde::Serialize, ::serde::Deserialize, Debug)]
pub(super) struct Foreign(Option<Box<Foreign>>);

pub(super) fn list(len: usize) -> Option<Box<List>> {
    (0..len as u64).fold(None, |next, value| Some(Box::new(List { value, next })))
}

/// Takes a list apart without going down into it.
pub(super) fn unlink(mut list: Option<Box<List>>) {
    while let Some(mut first) = list {
        list = first.next.take();
    }
}

/// Reads `bytes` on a thread of the usual stack.
pub(super) fn is_too_deep<T: for<'a> FromWire<'a> + Debug>(bytes: Vec<u8>) {
    let read = rt::spawn("deep", move || Reader::new(&bytes).read::<T>().unwrap_err()).unwrap();
    let error = read.join().expect("no overflow");
    assert!(matches!(error, WireError::TooDeep(_)), "{error}");
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

/// Writes a list of a million on a thread of the usual stack, with `stack` of it.
fn write_a_million(stack: usize) -> Result<usize, WireError> {
    let writing = rt::spawn("deep", move || {
        let long = list(1_000_000);
        let mut writer = Writer::new().with_stack(stack);
        let written = writer.write_copy(&long).map(|()| writer.len());
        assert_eq!(writer.len(), *written.as_ref().unwrap_or(&0), "all or nothing");
        unlink(long);
        written
    });
    writing.unwrap().join().expect("no overflow")
}

#[test]
fn a_million_levels_are_written_or_too_deep() {
    // The last field of each is written by a jump where the compiler makes one: the
    // stack does not grow, and nothing is too deep.
    match write_a_million(STACK_BYTES) {
        Ok(len) => assert_eq!(len, 1_000_000 * 9 + 1),
        Err(WireError::TooDeep(name)) => assert!(name.ends_with("List"), "{name}"),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn what_is_nested_otherwise_is_too_deep_to_write() {
    let nest = (0..200).fold(Nest(vec![]), |inner, _| Nest(vec![inner]));
    let mut writer = Writer::new().with_stack(1 << 10);
    let error = writer.write_copy(&nest).unwrap_err();
    assert!(matches!(error, WireError::TooDeep(name) if name.contains("Nest")), "{error}");
    assert!(writer.is_empty(), "nothing half written");
}

#[test]
fn five_hundred_levels_are_neither() {
    let long = list(500);
    let bytes = bytes_of(&long);
    let back: Option<Box<List>> = Reader::new(&bytes).read_last().unwrap();
    assert_eq!(bytes_of(&back), bytes);
    let nest = (0..250).fold(Nest(vec![]), |inner, _| Nest(vec![inner]));
    let back: Nest = Reader::new(&bytes_of(&nest)).read_last().unwrap();
    assert_eq!(bytes_of(&back), bytes_of(&nest));
    let chain = (0..100).fold(Chain(None), |inner, _| Chain(Some(Rc::new(inner))));
    let back: Chain = Reader::new(&bytes_of(&chain)).read_last().unwrap();
    assert_eq!(bytes_of(&back), bytes_of(&chain));
}

/// Many large variants, for which a build without optimisation makes a frame that is
/// many times the size of the value.
#[derive(Wire, Debug)]
enum Wide {
    _A([u64; 32], Box<Wide>),
    _B([u64; 33], Box<Wide>),
    _C([u64; 34], Box<Wide>),
    _D([u64; 35], Box<Wide>),
    _E([u64; 36], Box<Wide>),
    _F([u64; 37], Box<Wide>),
    _G([u64; 38], Box<Wide>),
    _H([u64; 39], Box<Wide>),
    _I([u64; 40], Box<Wide>),
}

#[test]
fn frames_count_as_they_are() {
    is_too_deep::<Wide>([vec![8], vec![0; 320]].concat().repeat(20_000));
}

#[test]
fn a_larger_stack_allows_more() {
    let bytes = [million(&[0, 0, 0, 0, 0, 0, 0, 0, 1])[..9 * 4000].to_vec(), vec![0; 9]].concat();
    let too_deep = Reader::new(&bytes).with_stack(1 << 16).read::<List>().unwrap_err();
    assert!(matches!(too_deep, WireError::TooDeep(_)), "{too_deep}");
    let reading = std::thread::Builder::new().stack_size(64 << 20);
    #[expect(clippy::disallowed_methods, reason = "a stack of its own size")]
    let reading = reading.spawn(move || {
        let read: List = Reader::new(&bytes).with_stack(48 << 20).read_last().unwrap();
        unlink(read.next);
    });
    reading.unwrap().join().expect("no overflow");
}
