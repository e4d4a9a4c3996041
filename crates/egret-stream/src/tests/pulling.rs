//! Values whose bytes arrive while they are read.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::mpsc::sync_channel;

use egret_net::rt;

use super::budget::zeros;
use super::hostile::{HUGE, LONGER};
use super::{bytes_of, pulled};
use crate::{FromWire, Reader, Serde, Wire, WireError, Writer};

#[derive(Wire, Debug, PartialEq, Clone)]
struct Entry {
    id: u32,
    name: String,
    parts: Vec<u16>,
    next: Option<Box<Entry>>,
}

fn entries(count: u32) -> Vec<Entry> {
    let entry = |id: u32| Entry {
        id,
        name: format!("entry {id}"),
        parts: vec![7; id as usize % 5],
        next: id.is_multiple_of(3).then(|| {
            Box::new(Entry { id: !id, name: String::new(), parts: Vec::new(), next: None })
        }),
    };
    (0..count).map(entry).collect()
}

/// Reading begins long before writing ends, and no more is on its way than the channel holds.
#[test]
fn reading_overlaps_writing_in_little_memory() {
    const CHUNK: usize = 32 << 10;
    let (sender, receiver) = sync_channel::<Vec<u8>>(4);
    let value = entries(150_000);
    let expected = value.clone();
    let writing = rt::spawn("writer", move || {
        let mut writer = Writer::flushing(CHUNK, |list| {
            assert!(list.iter().map(|piece| piece.len()).sum::<usize>() <= CHUNK);
            sender.send(list.concat()).map_err(|error| error.to_string())
        });
        writer.write(&value).unwrap();
        assert!(writer.capacity() <= CHUNK, "{}", writer.capacity());
        writer.finish().unwrap()
    });
    let (mut chunk, mut at, mut arrived) = (Vec::new(), 0, 0);
    let mut source = |to: &mut [u8]| {
        if at == chunk.len() {
            (chunk, at) = (receiver.recv().unwrap_or_default(), 0);
            arrived += chunk.len();
        }
        let count = to.len().min(chunk.len() - at);
        to[..count].copy_from_slice(&chunk[at..][..count]);
        at += count;
        Ok(count)
    };
    let mut reader = Reader::pulling(&mut source);
    let read: Vec<Entry> = reader.read_last().unwrap();
    assert!(reader.window_capacity() <= 64 << 10, "{}", reader.window_capacity());
    drop(reader);
    let written = writing.unwrap().join().unwrap();
    assert_eq!(written, arrived);
    assert!(written > 100 * CHUNK, "far more than is on its way at a time: {written}");
    assert_eq!(read, expected);
}

#[test]
fn a_stream_that_ends_or_breaks_off_is_an_error() {
    let bytes = bytes_of(&entries(20));
    for len in 0..bytes.len() {
        let error = pulled(&bytes[..len], 5).read::<Vec<Entry>>().unwrap_err();
        assert!(matches!(error, WireError::End { .. }), "{len}: {error}");
        let mut rest = &bytes[..len];
        let mut source = |to: &mut [u8]| match std::io::Read::read(&mut rest, to) {
            Ok(0) => Err("killed".to_owned()),
            read => read.map_err(|error| error.to_string()),
        };
        let mut reader = Reader::pulling(&mut source);
        let error = reader.read::<Vec<Entry>>().unwrap_err();
        assert_eq!(error.to_string(), "the stream breaks off: killed");
        let after = reader.read::<u8>().unwrap_err();
        assert!(matches!(after, WireError::End { .. }), "of no use any more: {after}");
    }
    let mut reader = pulled(&bytes[..], 5);
    reader.read::<Vec<Entry>>().unwrap();
    assert_eq!(reader.position(), bytes.len());
    let mut more = bytes.clone();
    more.push(1);
    assert_eq!(pulled(&more, 5).read_last::<Vec<Entry>>(), Err(WireError::Rest(1)));
}

/// A length of which nothing arrives takes no memory, whatever it is of.
pub(super) fn no_length_is_believed() {
    fn ends<T: for<'a> FromWire<'a>>(bytes: &[u8]) {
        let error = pulled(bytes, 3).read::<T>().err().expect("there is little of it");
        assert!(matches!(error, WireError::End { .. }), "{error}");
    }
    let long = [&LONGER[..], &[0; 200]].concat();
    // The first is one for which a program that believes it panics, and does not abort.
    for bytes in [&LONGER[..], &long, &HUGE] {
        ends::<Vec<f64>>(bytes);
        ends::<Vec<u8>>(bytes);
        ends::<String>(bytes);
        ends::<Vec<(u32, u64)>>(bytes);
        ends::<Box<[u16]>>(bytes);
    }
    ends::<Vec<()>>(&long);
    ends::<Vec<Vec<u8>>>(&long);
    ends::<VecDeque<String>>(&long);
    ends::<Serde<Vec<()>>>(&long);
    ends::<Rc<[u16]>>(&[&[0; 4], &long[..]].concat());
}

#[test]
fn a_length_takes_no_memory_before_its_elements_arrive() {
    no_length_is_believed();
}

#[test]
fn memory_is_charged_as_it_is_taken() {
    // A kilobyte for each byte; and each in a map that is sized ahead where it can be.
    let error = pulled(&zeros(), 1000).read::<Vec<Option<[u64; 128]>>>().unwrap_err();
    assert!(matches!(error, WireError::Memory { .. }), "{error}");
    // More than a reader has before anything arrived.
    let map: BTreeMap<u32, Option<String>> = (0..300_000).map(|key| (key, None)).collect();
    let mut writer = Writer::new();
    writer.write(&map).unwrap();
    let bytes = writer.to_vec();
    assert_eq!(
        pulled(&bytes, 10_000).read_last::<BTreeMap<u32, Option<String>>>(),
        Ok(map.clone())
    );
    let error = pulled(&bytes, 10_000).with_memory(1 << 20);
    let error = { error }.read::<BTreeMap<u32, Option<String>>>().unwrap_err();
    assert!(matches!(error, WireError::Memory { budget: 1_048_576, .. }), "{error}");
}

/// Gives bytes and notes where they were put.
fn noted<'a>(
    mut rest: &'a [u8],
    places: &'a RefCell<Vec<std::ops::Range<usize>>>,
) -> impl FnMut(&mut [u8]) -> Result<usize, String> + 'a {
    move |to| {
        let count = std::io::Read::read(&mut rest, to).unwrap();
        let start = to.as_ptr().addr();
        places.borrow_mut().push(start..start + count);
        Ok(count)
    }
}

#[test]
fn arrays_are_put_where_they_belong() {
    let numbers: Vec<f64> = (0..50_000).map(f64::from).collect();
    let bytes = bytes_of(&(1_u8, &numbers));
    let places = RefCell::default();
    let mut to = vec![0.0; 50_001];
    let field = std::ptr::from_ref(&to[0]).addr();
    let mut source = noted(&bytes, &places);
    let mut reader = Reader::pulling(&mut source);
    assert_eq!(reader.read::<u8>(), Ok(1));
    assert_eq!(reader.read_into(&mut to), Ok(50_000));
    assert_eq!((&to[..50_000], to[50_000]), (&numbers[..], 0.0));
    let inside = |place: &&std::ops::Range<usize>| (field..field + 400_000).contains(&place.start);
    let direct: usize = places.borrow().iter().filter(inside).map(ExactSizeIterator::len).sum();
    assert!(direct > 390_000, "all but what came with the head: {direct}");

    let mut small = [0.0; 10];
    let full = Err(WireError::Full { needed: 400_000, left: 80 });
    let mut source = noted(&bytes[1..], &places);
    assert_eq!(Reader::pulling(&mut source).read_into(&mut small), full);
    let split = bytes.split_at(1000);
    let mut reader = Reader::new(&bytes);
    reader.read::<u8>().unwrap();
    assert_eq!(reader.read_into(&mut to), Ok(50_000), "out of a buffer");
    let chunks = [split.0, split.1];
    let mut reader = Reader::chunks(&chunks);
    reader.read::<u8>().unwrap();
    assert_eq!(reader.read_into(&mut to[..50_000]), Ok(50_000), "out of chunks");
}

#[test]
fn a_run_longer_than_the_window_is_put_together() {
    let value = (3_u8, [5_u64; 1500], String::from("end"));
    let bytes = bytes_of(&value);
    for size in [1, 1000, 100_000] {
        assert_eq!(pulled(&bytes, size).read_last(), Ok(value.clone()));
    }
}

/// Reads through a source that gives little at a time.
pub(super) fn short_pulls_are_waited_for() {
    let value = (1_u32, vec![7_u64; 2000], String::from("text"));
    let read = pulled(&bytes_of(&value), 3).read_last();
    assert!(read == Ok(value), "something else arrived");
}

#[test]
#[should_panic(expected = "a source filled 5000 bytes of 4096")]
fn a_source_that_says_too_much_is_a_bug() {
    let _ = Reader::pulling(|_: &mut [u8]| Ok(5000)).read::<u8>();
}

/// The longest list of pieces that a sink of `chunk_bytes` is given for `value`, without what is
/// left in place, and the memory of the writer.
fn most<T: Wire>(chunk_bytes: usize, value: &T) -> (usize, usize) {
    let (longest, mut bytes) = (Cell::new(0), Vec::new());
    let mut writer = Writer::flushing(chunk_bytes, |list| {
        let own = list.iter().map(|piece| piece.len()).filter(|len| *len <= chunk_bytes);
        longest.set(longest.get().max(own.sum()));
        list.iter().for_each(|piece| bytes.extend_from_slice(piece));
        Ok(())
    });
    writer.write(value).unwrap();
    writer.write_copy(value).unwrap();
    let memory = writer.capacity();
    writer.finish().unwrap();
    let mut at_once = Writer::new();
    at_once.write(value).unwrap();
    at_once.write(value).unwrap();
    assert_eq!(bytes, at_once.to_vec());
    (longest.get(), memory)
}

#[test]
fn a_flushing_writer_has_a_chunk_of_memory_whatever_the_value() {
    let pairs: Vec<(u32, u64)> = vec![(1, 2); 10_000];
    for (longest, memory) in [
        most(1024, &pairs),
        most(1024, &RefCell::new(pairs.clone())),
        most(1024, &RefCell::new(entries(1000))),
        most(1024, &vec![1.5_f64; 20_000]),
        most(1024, &RefCell::new(vec![1.5_f64; 20_000])),
        most(1024, &"text".repeat(10_000)),
        most(1024, &Serde("text".repeat(10_000))),
        most(1024, &Serde(vec![Some("text".to_owned()); 1000])),
    ] {
        assert!(longest <= 1024 && memory <= 1024, "{longest} bytes, {memory} of memory");
    }
}

#[test]
fn a_stream_that_was_broken_cannot_be_finished() {
    let cell = RefCell::new(1_u8);
    let borrowed = cell.borrow_mut();
    let (short, long) = ((1_u8, &cell), (vec![1_u8; 100], &cell));
    let mut sent = Vec::new();
    let mut writer = Writer::flushing(64, |list| {
        sent.extend(list.concat());
        Ok(())
    });
    writer.write(&7_u8).unwrap();
    assert!(matches!(writer.write(&short), Err(WireError::InUse(_))));
    writer.write(&8_u8).expect("nothing of the short one was handed over");
    let error = writer.write(&long).unwrap_err();
    assert_eq!(writer.write(&9_u8), Err(error.clone()), "a part of the long one was");
    assert_eq!(writer.write(&cell), Err(error.clone()));
    assert_eq!(writer.finish(), Err(error));
    assert_eq!(sent[..3], [7, 8, 100]);
    drop(borrowed);

    let mut refusing = Writer::flushing(64, |_| Err("no credit".to_owned()));
    refusing.write(&1_u8).unwrap();
    let refused = WireError::Refused("no credit".to_owned());
    assert_eq!(refusing.flush(), Err(refused.clone()));
    assert_eq!(refusing.finish(), Err(refused));
    let mut writer = Writer::flushing(64, |_| Ok(()));
    writer.write_copy(&vec![1_u64; 100]).unwrap();
    assert!(writer.abort() >= 64, "its reader has some of it");
}
