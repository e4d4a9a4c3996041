//! Records on their way into the kernel.

use std::io::IoSlice;

use rustix::io::Errno;

use super::super::fault::{Fault, planted};
use super::super::socket::is_later;
use super::super::stream::ByteStream;
use super::super::wire::{CHUNK, HEAD_MAX};
use super::record::{PIECE, RECORD_MAX, head};
use crate::fabric::seal::{SealError, Sealer};

#[derive(Debug)]
pub(super) struct RecordWriter {
    pub sealer: Sealer,
    /// Records, sealed.
    bytes: Vec<u8>,
    /// How much of them the kernel has taken.
    sent: usize,
    pub is_worn: bool,
}

/// Bytes that leave in one call, of which the last record may exceed them, if at most a chunk is to
/// be sent: the other end opens a record while the next is sealed. One record in a call was the
/// fastest in round trips of 64 KiB, before two and four (`egret bench latency --fabric tcp --encrypt
/// on --sizes 64K`).
const STAGED: usize = PIECE;
/// The same where more is to be sent: the other end has records to open already, and fewer calls
/// are more bytes a second. What is unsent holds up what is short no longer than a chunk does.
const STAGED_OF_MANY: usize = CHUNK;
/// A slice of so many bytes is in records of its own.
const LARGE: usize = 4 << 10;
/// Memory that is kept for the next.
const KEEP: usize = 4 << 10;

impl RecordWriter {
    pub(super) fn new(sealer: Sealer, first: &[u8]) -> Self {
        Self { sealer, bytes: first.to_vec(), sent: 0, is_worn: false }
    }

    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.bytes.len()
    }

    /// Seals and sends, a buffer at a time, until the kernel takes no more. What was sealed counts,
    /// whether it was taken or not.
    pub(super) fn write(
        &mut self,
        slices: &[IoSlice<'_>],
        wire: &mut ByteStream,
    ) -> Result<usize, Errno> {
        if !self.flush(wire)? {
            return Err(Errno::AGAIN);
        }
        let mut source = PlainSlices::new(slices);
        let len = source.left;
        let staged = if len > CHUNK + HEAD_MAX { STAGED_OF_MANY } else { STAGED };
        while source.left > 0 {
            while source.left > 0 && self.bytes.len() < staged {
                self.seal(source.next_len(), &mut source)?;
            }
            if !self.flush(wire)? {
                break;
            }
        }
        Ok(len - source.left)
    }

    /// Adds a record of the next `len` bytes, each of which is read once.
    fn seal(&mut self, len: usize, source: &mut PlainSlices<'_>) -> Result<(), Errno> {
        let (at, head) = (self.bytes.len(), head(len));
        self.bytes.extend_from_slice(&head);
        source.take(len, |piece| self.bytes.extend_from_slice(piece));
        match self.sealer.seal(&head, &mut self.bytes[at + head.len()..]) {
            Ok(tag) => self.bytes.extend_from_slice(&tag),
            Err(why) => {
                // What is not sealed does not leave.
                self.bytes.truncate(at);
                self.is_worn = why == SealError::Worn;
                return Err(Errno::OVERFLOW);
            }
        }
        Ok(())
    }

    /// Writes what is unsent, in one call. Whether that was all.
    pub(super) fn flush(&mut self, wire: &mut ByteStream) -> Result<bool, Errno> {
        if self.has_unsent() {
            match wire.write(&self.bytes[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(why) if is_later(why) => {}
                Err(why) => return Err(why),
            }
            if self.keeps_unsent() {
                return Ok(false);
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(true)
    }

    fn keeps_unsent(&self) -> bool {
        self.has_unsent() && !planted(Fault::UnsentForgotten)
    }

    pub(super) fn trim(&mut self) {
        self.bytes.shrink_to(KEEP);
    }
}

/// What is to be sealed, in pieces.
struct PlainSlices<'a> {
    slices: std::slice::Iter<'a, IoSlice<'a>>,
    /// What is left of the slice that is being read.
    now: &'a [u8],
    left: usize,
}

impl<'a> PlainSlices<'a> {
    fn new(slices: &'a [IoSlice<'a>]) -> Self {
        let left = slices.iter().map(|slice| slice.len()).sum();
        Self { slices: slices.iter(), now: &[], left }
    }

    /// How many bytes the next record holds. A large slice begins with a record, so that the
    /// reader can open it where it belongs.
    fn next_len(&self) -> usize {
        if self.left <= RECORD_MAX {
            return self.left;
        }
        if self.now.len() >= LARGE {
            return self.now.len().min(PIECE);
        }
        let mut len = self.now.len();
        for slice in self.slices.clone() {
            if slice.len() >= LARGE {
                return if len == 0 { slice.len().min(PIECE) } else { len.min(RECORD_MAX) };
            }
            len += slice.len();
        }
        len.min(RECORD_MAX)
    }

    /// Passes the next `len` bytes on, as they lie.
    fn take(&mut self, len: usize, mut to: impl FnMut(&[u8])) {
        let mut len = len.min(self.left);
        self.left -= len;
        while len > 0 {
            if self.now.is_empty() {
                let Some(next) = self.slices.next() else { return };
                self.now = next;
            }
            let (piece, rest) = self.now.split_at(self.now.len().min(len));
            to(piece);
            len -= piece.len();
            self.now = rest;
        }
    }
}
