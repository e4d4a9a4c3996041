//! Records on their way from the kernel.

use std::io::IoSliceMut;
use std::ops::Range;

use rustix::io::Errno;

use super::super::fault::{Fault, planted};
use super::super::stream::{ByteStream, StreamReadError};
use super::super::wire::HEAD_MAX;
use super::record::{AROUND, LEN, PIECE, RECORD_MAX, head, len_of};
use crate::fabric::seal::{Opener, TAG};

/// What has come and was not read: in `bytes` the `open` rest of a record, and somewhere behind it,
/// from `start` to `end`, records that are sealed, of which the last may not be whole.
#[derive(Debug)]
pub(super) struct RecordReader {
    opener: Opener,
    bytes: Vec<u8>,
    open: Range<usize>,
    start: usize,
    end: usize,
    /// What is wrong with the stream, where it is read no further.
    wrong: Option<&'static str>,
    /// Whether the last call has brought less than there was room for.
    was_short: bool,
    /// Whether the last call that brought bytes here has brought as many as there was room for.
    is_busy: bool,
}

/// What becomes of a record whose place is known.
enum RecordPlacement {
    /// So many bytes are open in their place.
    Open(usize),
    /// What came of it is with the other bytes, since it was not whole or of another length.
    Kept,
    /// Opening the record in its place was not tried.
    Not,
}

/// Bytes that one call brings at most, but for those that go straight to their place.
const CALL_MAX: usize = 4 * (RECORD_MAX + AROUND);
/// Bytes that are read behind a record that fills its place: its tag, the head of the next frame in
/// a record of its own, and nothing of the payload there, so that all of that goes to its place.
const BEHIND: usize = TAG + AROUND + HEAD_MAX;
/// A record is not read to its place if more of it is here, or if less is to come.
const DIRECT_MIN: usize = 4 << 10;
/// Memory that is kept for what may come.
const KEEP: usize = 4 << 10;

impl RecordReader {
    pub(super) fn new(opener: Opener) -> Self {
        let (bytes, open) = (Vec::new(), 0..0);
        let (wrong, was_short, is_busy) = (None, true, false);
        Self { opener, bytes, open, start: 0, end: 0, wrong, was_short, is_busy }
    }

    /// Whether something can be read without a call, if only that the stream is wrong.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        !self.open.is_empty() || self.wrong.is_some() || self.has_whole()
    }

    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.was_short && !self.is_ready()
    }

    /// Whether there is a whole record that is sealed, or one with a length that none has.
    #[inline]
    fn has_whole(&self) -> bool {
        let sealed = &self.bytes[self.start..self.end];
        match len_of(sealed) {
            None => false,
            Some(Err(_)) => true,
            Some(Ok(len)) => sealed.len() >= len + AROUND,
        }
    }

    /// Reads what is ready, or else what one call brings; 0 is the end.
    pub(super) fn read(
        &mut self,
        to: &mut [u8],
        wire: &mut ByteStream,
    ) -> Result<usize, StreamReadError> {
        if !self.is_ready() && !self.refill(wire)? {
            return Ok(0);
        }
        self.take(to, &mut [])
    }

    /// The same, into two places in order, of which the first is where a large payload belongs.
    pub(super) fn read_both(
        &mut self,
        one: &mut [u8],
        other: &mut [u8],
        wire: &mut ByteStream,
    ) -> Result<usize, StreamReadError> {
        if !self.is_ready() {
            match self.place(one, wire)? {
                RecordPlacement::Open(n) if n == one.len() => return Ok(n + self.fill(other)),
                RecordPlacement::Open(n) => return Ok(n),
                RecordPlacement::Kept if self.is_ready() => {}
                RecordPlacement::Kept if self.was_short => {
                    return Err(StreamReadError::Kernel(Errno::AGAIN));
                }
                RecordPlacement::Kept | RecordPlacement::Not => {
                    if !self.refill(wire)? {
                        return Ok(0);
                    }
                }
            }
        }
        self.take(one, other)
    }

    /// What is ready.
    fn take(&mut self, one: &mut [u8], other: &mut [u8]) -> Result<usize, StreamReadError> {
        let n = self.fill(one);
        let n = if n == one.len() { n + self.fill(other) } else { n };
        match self.wrong {
            // What came before is read first.
            Some(why) if n == 0 => Err(StreamReadError::Wrong(why)),
            _ => Ok(n),
        }
    }

    /// Takes records that came already.
    pub(super) fn hold(&mut self, bytes: &[u8]) {
        self.bytes.truncate(self.end);
        self.bytes.extend_from_slice(bytes);
        self.end = self.bytes.len();
    }

    /// Reads the next record straight to its place and opens it there, in one call. A peer seals a
    /// large payload in pieces of the same length, so a length that has not come is a guess.
    fn place(
        &mut self,
        to: &mut [u8],
        wire: &mut ByteStream,
    ) -> Result<RecordPlacement, StreamReadError> {
        let held = &self.bytes[self.start..self.end];
        let len = match len_of(held) {
            None => to.len().min(PIECE),
            Some(Ok(len)) => len,
            Some(Err(_)) => return Ok(RecordPlacement::Not),
        };
        let (known, here) = (held.len().min(LEN), held.len().saturating_sub(LEN));
        if len > to.len() || here > DIRECT_MIN || len < here + DIRECT_MIN {
            return Ok(RecordPlacement::Not);
        }
        let (mut first, mut behind) = ([0; LEN], [0; BEHIND]);
        first[..known].copy_from_slice(&held[..known]);
        to[..here].copy_from_slice(&held[known..]);
        let behind = if len == to.len() { &mut behind[..] } else { &mut behind[..TAG] };
        let due = LEN - known + len - here;
        self.was_short = true;
        let n = wire.read_all(&mut [
            IoSliceMut::new(&mut first[known..]),
            IoSliceMut::new(&mut to[here..len]),
            IoSliceMut::new(behind),
        ])?;
        if n == 0 {
            return if held.is_empty() {
                Ok(RecordPlacement::Open(0))
            } else {
                Err(StreamReadError::Cut)
            };
        }
        self.was_short = n < due + behind.len();
        if n < due + TAG || !is_head_of(first, len) {
            self.compact();
            self.keep(&[&first[known..], &to[here..len], behind], n);
            return Ok(RecordPlacement::Kept);
        }
        (self.start, self.end, self.open, self.is_busy) = (0, 0, 0..0, false);
        let (tag, rest) = behind.split_first_chunk::<TAG>().expect("it is longer");
        if let Err(why) = self.opener.open(&first, &mut to[..len], tag) {
            self.wrong = Some(why.text());
            return Err(StreamReadError::Wrong(why.text()));
        }
        self.keep(&[rest], n - due - TAG);
        Ok(RecordPlacement::Open(len))
    }

    /// Takes the first `n` bytes of these, in order.
    fn keep(&mut self, pieces: &[&[u8]], n: usize) {
        let mut left = n;
        for piece in pieces {
            let now = left.min(piece.len());
            self.hold(&piece[..now]);
            left -= now;
        }
    }

    /// Copies what is open, and opens records as long as there is room.
    fn fill(&mut self, to: &mut [u8]) -> usize {
        let mut n = 0;
        while n < to.len() {
            if self.open.is_empty() && !self.open_next() {
                break;
            }
            let now = self.open.len().min(to.len() - n);
            let from = self.open.start;
            to[n..n + now].copy_from_slice(&self.bytes[from..from + now]);
            self.open.start += now;
            n += now;
        }
        n
    }

    /// Opens the next record where it lies. `false` if there is none.
    fn open_next(&mut self) -> bool {
        if self.wrong.is_some() || !self.has_whole() {
            return false;
        }
        let sealed = &mut self.bytes[self.start..self.end];
        let len = match len_of(sealed) {
            Some(Ok(len)) => len,
            Some(Err(why)) => {
                self.wrong = Some(why);
                return false;
            }
            None => return false,
        };
        let Some((head, rest)) = sealed.split_first_chunk_mut::<LEN>() else { return false };
        let (bytes, rest) = rest.split_at_mut(len);
        let Some(tag) = rest.first_chunk::<TAG>() else { return false };
        if let Err(why) = self.opener.open(head, bytes, tag) {
            self.wrong = Some(why.text());
            return false;
        }
        let at = self.start + LEN;
        self.open = at..at + len;
        self.start += len + AROUND;
        true
    }

    /// Moves what is sealed to the front, where nothing is open any more.
    fn compact(&mut self) {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.end, self.start, self.open) = (self.end - self.start, 0, 0..0);
    }

    /// Reads until a record is whole. `false` at the end of the stream, an error if that is inside
    /// of a record, or if nothing more is there now.
    fn refill(&mut self, wire: &mut ByteStream) -> Result<bool, StreamReadError> {
        self.compact();
        loop {
            let most = self.make_room();
            self.was_short = true;
            let n = wire.read(&mut self.bytes[self.end..most])?;
            if n == 0 {
                return if self.end == 0 { Ok(false) } else { Err(StreamReadError::Cut) };
            }
            self.is_busy = self.end + n == most;
            (self.end, self.was_short) = (self.end + n, !self.is_busy);
            if self.has_whole() {
                return Ok(true);
            }
            if self.was_short {
                return Err(StreamReadError::Kernel(Errno::AGAIN));
            }
        }
    }

    /// Little memory until more comes than fits in it. Where it ends.
    fn make_room(&mut self) -> usize {
        let is_large = self.is_busy || self.end + LEN > KEEP;
        let len = if is_large { CALL_MAX } else { KEEP };
        let needed = match len_of(&self.bytes[..self.end]) {
            Some(Ok(len)) => len + AROUND,
            _ => LEN,
        };
        let len = len.max(needed);
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        len
    }

    pub(super) fn trim(&mut self) {
        if self.bytes.len() > KEEP && !self.is_ready() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.end, self.start, self.open) = (self.end - self.start, 0, 0..0);
            self.bytes.truncate(self.end.max(KEEP));
            self.bytes.shrink_to_fit();
        }
    }
}

/// Whether a record has this length.
fn is_head_of(first: [u8; LEN], len: usize) -> bool {
    first == head(len) || planted(Fault::GuessBelieved)
}
