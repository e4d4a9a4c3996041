//! Every shape there and back, at every split; bytes for ever; hostile bytes;
//! planted faults.

mod budget;
mod context;
mod depth;
mod derive;
mod dynamic;
mod golden;
mod hostile;
mod planted;
mod property;
mod pulling;
mod seeded;
mod shared;
mod versions;
mod writing;

use std::fmt::Debug;

use egret_net::buf::Pool;

use crate::{FromWire, Page, Reader, Wire, WireError, Writer};

/// The bytes of `value`, after it was written in every way that must give the same.
pub(crate) fn bytes_of<T: Wire>(value: &T) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.write(value).unwrap();
    let bytes = writer.to_vec();
    assert_eq!(writer.len(), bytes.len());

    let mut in_place = Writer::new().in_place_from(1);
    in_place.write(value).unwrap();
    assert_eq!(in_place.to_vec(), bytes, "left in place");
    let mut copied = Writer::new();
    copied.write_copy(value).unwrap();
    assert_eq!(
        (copied.gather().len(), copied.to_vec()),
        (usize::from(!bytes.is_empty()), bytes.clone())
    );

    let mut chunked = Vec::new();
    let mut flushing = Writer::flushing(64, |chunk| {
        chunk.iter().for_each(|piece| chunked.extend_from_slice(piece));
        Ok(())
    });
    flushing.write(value).unwrap();
    flushing.flush().unwrap();
    assert_eq!(flushing.len(), bytes.len());
    drop(flushing);
    assert_eq!(chunked, bytes, "in chunks");

    let pool = Pool::new(bytes.len().max(1), 1).unwrap();
    let mut page = Page::new(pool.take(bytes.len().max(1)).unwrap());
    page.write(value).unwrap();
    assert_eq!(page.finish().bytes(), bytes, "on a page");

    let mut slice = vec![255; bytes.len() + 3];
    assert_eq!(crate::write(value, &mut slice), Ok(bytes.len()));
    assert_eq!(slice[..bytes.len()], bytes, "in a slice");
    if let Some((_, less)) = slice[..bytes.len()].split_last_mut() {
        assert!(matches!(crate::write(value, less), Err(WireError::Full { .. })));
    }
    bytes
}

/// Reads `bytes` as one piece and at every split into two, and in small pieces;
/// gives each result to `check`.
pub(crate) fn at_every_split<'a, T: FromWire<'a>>(
    bytes: &'a [u8],
    mut check: impl FnMut(Result<T, WireError>),
) {
    check(Reader::new(bytes).read_last());
    check(crate::read(bytes));
    let leak = |chunks: Vec<&'a [u8]>| -> &'a [&'a [u8]] { Vec::leak(chunks) };
    for size in [1, 3, 8] {
        check(Reader::chunks(leak(bytes.chunks(size).collect())).read_last());
    }
    for size in [1, 7, 100, usize::MAX] {
        check(pulled(bytes, size).read_last());
    }
    let step = (bytes.len() / 200).max(1);
    for at in (0..=bytes.len()).step_by(4 * step) {
        check(pulled_in(bytes, vec![at, usize::MAX]).read_last());
    }
    for at in (0..=bytes.len()).step_by(step) {
        let (head, rest) = bytes.split_at(at);
        check(Reader::chunks(leak(vec![head, &[], rest])).read_last());
    }
}

/// Reads `bytes` out of a source that gives `size` at a time.
pub(crate) fn pulled(bytes: &[u8], size: usize) -> Reader<'_> {
    pulled_in(bytes, vec![size])
}

/// Reads `bytes` out of a source that gives as many as `sizes` say, the last of them again and
/// again.
fn pulled_in(mut bytes: &[u8], sizes: Vec<usize>) -> Reader<'_> {
    let mut sizes = sizes.into_iter().filter(|&size| size > 0).peekable();
    let mut size = usize::MAX;
    let mut left = 0;
    Reader::pulling(Box::leak(Box::new(move |to: &mut [u8]| {
        if left == 0 {
            size = sizes.next().unwrap_or(size);
            left = size;
        }
        let max = to.len().min(left);
        let count = std::io::Read::read(&mut bytes, &mut to[..max]).unwrap();
        left -= count;
        Ok(count)
    })))
}

/// Writes and reads `value` in every way, and truncated at every place.
pub(crate) fn there_and_back<T>(value: &T)
where
    T: Wire + for<'a> FromWire<'a> + PartialEq + Debug,
{
    let bytes = bytes_of(value);
    at_every_split(&bytes, |read: Result<T, _>| assert_eq!(&read.unwrap(), value));
    let step = (bytes.len() / 50).max(1);
    for len in (0..bytes.len()).step_by(step) {
        let read = Reader::new(&bytes[..len]).read::<T>();
        assert!(read.is_err(), "{value:?} out of {len} bytes of {}", bytes.len());
        let read = pulled(&bytes[..len], 9).read::<T>();
        assert!(matches!(read, Err(WireError::End { .. })), "{value:?} out of {len}: {read:?}");
    }
    let owned: T = Reader::new(&bytes).read_last().unwrap();
    let mut giving = Writer::new().in_place_from(8);
    giving.write_owned(owned).unwrap();
    assert_eq!(giving.to_vec(), bytes, "given away");
    let descriptor = giving.into_descriptor();
    let mut gathered = vec![0; bytes.len()];
    descriptor.gather(0, &mut gathered);
    assert_eq!(gathered, bytes, "in a descriptor");
}
