//! The bytes of a record: how many bytes it holds, those bytes sealed, and a tag that proves both.
//! `docs/wire/tcp.md` has them as a table.

use super::super::wire::{CHUNK, HEAD};
use crate::fabric::seal::TAG;

/// Bytes before the sealed ones: how many there are.
pub(in super::super) const LEN: usize = 2;
/// Bytes of a record beside those that it holds.
pub(in super::super) const AROUND: usize = LEN + TAG;
/// Bytes of a large payload in one record: a quarter of a chunk.
pub(in super::super) const PIECE: usize = CHUNK / 4;
/// Bytes that a record holds at most: a piece and a head. Larger ones would keep the other end from
/// opening a part while the rest is sealed: no byte of a record is read before all have come.
pub(in super::super) const RECORD_MAX: usize = PIECE + HEAD;

/// The first bytes of a record that holds so many.
#[expect(clippy::cast_possible_truncation, reason = "at most RECORD_MAX")]
pub(in super::super) const fn head(len: usize) -> [u8; LEN] {
    assert!(len > 0 && len <= RECORD_MAX, "a record of no length that there is");
    (len as u16).to_le_bytes()
}

/// How many bytes the record holds that begins here, if that has come. A length that no record has
/// is an error.
#[inline]
pub(in super::super) fn len_of(bytes: &[u8]) -> Option<Result<usize, &'static str>> {
    let len = usize::from(u16::from_le_bytes(*bytes.first_chunk()?));
    Some(if len == 0 || len > RECORD_MAX { Err(LENGTH) } else { Ok(len) })
}

const LENGTH: &str = "a sealed record of a length that none has";
