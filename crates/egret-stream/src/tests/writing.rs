//! Lists, chunks, pages, spans.

use std::sync::Arc;

use egret_net::buf::Pool;

use super::bytes_of;
use crate::fault::{Fault, caught};
use crate::{IN_PLACE_BYTES, KeptBuffer, Page, Reader, Span, WireError, Writer};

#[test]
fn large_arrays_stay_where_they_are() {
    let large = vec![1_u8; IN_PLACE_BYTES];
    let small = vec![2_u8; IN_PLACE_BYTES - 1];
    let text = "t".repeat(IN_PLACE_BYTES);
    let value = (&large, &small, &text);
    let mut writer = Writer::new();
    writer.write(&value).unwrap();
    let list = writer.gather();
    assert_eq!(list.len(), 4, "head, large, small with heads, text");
    assert_eq!((list[1].as_ptr(), list[3].as_ptr()), (large.as_ptr(), text.as_ptr()));
    assert_eq!(list.concat(), bytes_of(&value));
}

#[test]
fn owned_arrays_move_into_the_writer_and_out_by_a_post() {
    let pool = Pool::new(8192, 1).unwrap();
    let shared = pool.take_typed::<u32>(2048).unwrap().share();
    let (vec, arc): (Vec<f64>, Arc<[u16]>) = (vec![0.5; 1000], vec![3; 4000].into());
    let places = [vec.as_ptr().cast::<u8>(), arc.as_ptr().cast(), shared.as_ptr().cast()];
    let value = (vec, arc, shared);
    let bytes = bytes_of(&value);
    let mut writer = Writer::new();
    writer.write_owned(value).unwrap();
    let list: Vec<*const u8> = writer.gather().iter().map(|piece| piece.as_ptr()).collect();
    assert!(places.iter().all(|place| list.contains(place)), "nothing was copied");
    let descriptor = writer.into_descriptor();
    assert_eq!(descriptor.len(), bytes.len() as u64);
    let mut gathered = vec![0; bytes.len()];
    descriptor.gather(0, &mut gathered);
    assert_eq!(gathered, bytes);
}

#[test]
fn chunks_are_handed_over_while_writing_and_memory_stays_small() {
    let value: Vec<(u32, String)> = (0..5000).map(|i| (i, format!("number {i}"))).collect();
    let expected = bytes_of(&value);
    let (mut chunks, mut bytes) = (Vec::new(), Vec::new());
    let mut writer = Writer::flushing(1024, |list| {
        chunks.push(list.iter().map(|piece| piece.len()).sum::<usize>());
        list.iter().for_each(|piece| bytes.extend_from_slice(piece));
        Ok(())
    });
    writer.write(&value).unwrap();
    writer.flush().unwrap();
    drop(writer);
    assert_eq!(bytes, expected);
    assert!(chunks.len() > 50 && chunks.iter().all(|&len| len <= 1024), "{chunks:?}");
}

#[test]
fn a_sink_that_refuses_ends_the_writing() {
    let value = vec![String::from("text"); 100];
    let mut writer = Writer::flushing(64, |_| Err("no credit".to_owned()));
    let refused = WireError::Refused("no credit".to_owned());
    assert_eq!(writer.write(&value), Err(refused));
}

/// Fills a page until it is full, and reads what is there.
pub(super) fn full_leaves_nothing_half_written() {
    for bytes in 0..200 {
        let pool = Pool::new(256, 1).unwrap();
        let mut page = Page::new(pool.take(bytes).unwrap());
        let value = (7_u8, vec![String::from("text"); 2], vec![1.5_f64; 3]);
        let mut written = 0;
        while page.write(&value).is_ok() {
            written += 1;
        }
        let after = page.len();
        let buf = page.finish();
        assert!(buf.len() == after && after <= bytes);
        let mut reader = Reader::new(buf.bytes());
        for _ in 0..written {
            assert_eq!(reader.read::<(u8, Vec<String>, Vec<f64>)>().unwrap(), value);
        }
        assert_eq!(reader.left(), 0, "nothing half written");
    }
}

#[test]
fn a_full_page_says_so_and_keeps_what_it_has() {
    full_leaves_nothing_half_written();
    assert!(caught(Fault::HalfWritten, full_leaves_nothing_half_written));
}

#[test]
fn full_counts_what_is_left_in_place() {
    let pool = Pool::new(8192, 1).unwrap();
    let mut page = Page::new(pool.take(8192).unwrap());
    let large = vec![1_u8; 8000];
    page.write(&(&large, &0_u64)).unwrap();
    let error = page.write(&large).unwrap_err();
    assert!(matches!(error, WireError::Full { needed: 8000, left } if left < 200), "{error}");
    page.clear();
    assert!(page.is_empty());
    page.write(&large).unwrap();
    let buf = page.finish();
    assert_eq!(Reader::new(buf.bytes()).read_last::<&[u8]>().unwrap(), large);
}

#[test]
fn a_writer_that_failed_goes_on_as_if_nothing_was() {
    let cell = std::cell::RefCell::new(1_u8);
    let text = String::from("kept");
    let large = vec![9_u8; 10_000];
    let value = (&large, &cell);
    let mut writer = Writer::new();
    writer.write(&text).unwrap();
    let before = writer.to_vec();
    let borrowed = cell.borrow_mut();
    assert!(writer.write(&value).is_err());
    assert_eq!(writer.to_vec(), before);
    drop(borrowed);
    writer.write(&text).unwrap();
    assert_eq!(writer.to_vec(), [before.clone(), before].concat());
    writer.clear();
    assert!(writer.is_empty() && writer.gather().is_empty());
}

#[test]
fn spans_are_held_where_they_are() {
    let pool = Pool::new(4096, 2).unwrap();
    let mut page = Page::new(pool.take(4096).unwrap());
    page.write(&(vec![1_u8, 2], vec![0.5; 10], "x", vec![3_u32; 5])).unwrap();
    let buf = page.finish();
    let start = buf.bytes().as_ptr().addr();
    type Read = (Span<u8>, Span<f64>, String, Span<u32>);
    let (bytes, floats, _, words): Read = Reader::new(buf.bytes()).read_last().unwrap();
    let mut kept = KeptBuffer::new(buf);
    let floats = kept.hold(floats).unwrap();
    assert!(kept.hold(bytes).is_err(), "that part is gone");
    let words = kept.hold(words).unwrap();
    assert_eq!((&floats[..], &words[..]), (&[0.5; 10][..], &[3; 5][..]));
    assert!((start..start + 4096).contains(&floats.as_ptr().addr()));
    drop(kept);
    drop(floats);
    assert_eq!(pool.available(4096), 1, "the words are still there");
    drop(words);
    assert_eq!(pool.available(4096), 2);
}

#[test]
fn an_array_in_two_chunks_is_read_as_owned_only() {
    let bytes = bytes_of(&vec![1.5_f64; 100]);
    let (head, rest) = bytes.split_at(400);
    let chunks = [head, rest];
    let in_place = Reader::chunks(&chunks).read::<&[f64]>();
    assert!(matches!(in_place, Err(WireError::Split(_) | WireError::Misaligned(_))));
    assert_eq!(Reader::chunks(&chunks).read::<Vec<f64>>().unwrap(), [1.5; 100]);
}
