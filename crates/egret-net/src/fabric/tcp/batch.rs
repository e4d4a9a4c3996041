//! Frames on their way into the kernel: heads and small payloads in one piece of memory, and
//! behind them several chunks of one descriptor, straight from where they were posted.
//!
//! A batch leaves in one system call if the kernel takes it. If the kernel takes a part, the frame
//! that is half written is finished before anything else, and the frames behind it are cut off: what
//! has become ready meanwhile and is short goes before them.

use std::io::IoSlice;
use std::ops::Range;

use rustix::io::Errno;

use super::fault::{self, Fault, planted};
use super::stream::ByteStream;
use super::wire::{CHUNK, HEAD, HEAD_MAX};
use crate::fabric::outbox::{Outbox, OutgoingTransfer};
use crate::vi::Descriptor;

#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Heads and small payloads. The last [`HEAD`] bytes of all but the first chunk are heads, each
    /// of the chunk behind it.
    pub bytes: Vec<u8>,
    /// How many bytes follow of what is current, from its offset on, in chunks.
    pub tail: usize,
    /// How much of both the kernel has taken.
    pub written: usize,
}

/// Chunks that leave in one call: of 1 MiB 4 calls instead of 16. More at once gain nothing.
pub(super) const CHUNKS: usize = 4;
/// Memory that an end keeps for its next batch.
const KEEP: usize = (4 << 10) + HEAD_MAX;
/// Slices in one call.
const SLICES: usize = 64;

/// What of a batch comes next: bytes of its own, or of what is current.
#[derive(Debug, Clone, PartialEq, Eq)]
enum BatchPart {
    Own(Range<usize>),
    Tail(Range<usize>),
}

impl Batch {
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn is_written(&self) -> bool {
        self.written == self.bytes.len() + self.tail || planted(Fault::RestForgotten)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEEP);
        (self.tail, self.written) = (0, 0);
    }

    /// Chunks of what is current.
    pub(super) const fn chunks(&self) -> usize {
        self.tail.div_ceil(CHUNK)
    }

    /// Bytes before the first chunk.
    const fn before(&self) -> usize {
        self.bytes.len() - self.chunks().saturating_sub(1) * HEAD
    }

    /// Takes off the frames that nothing is written of, behind the first chunk. How many.
    pub(super) fn cut(&mut self) -> usize {
        let chunks = self.chunks();
        let behind = self.written.saturating_sub(self.before());
        // A chunk and the head behind it, which has begun if a byte of it is written.
        let (whole, part) = (behind / (CHUNK + HEAD), behind % (CHUNK + HEAD));
        let kept = (whole + 1 + usize::from(part > CHUNK)).min(chunks);
        let cut = fault::chunks_cut(chunks - kept);
        self.bytes.truncate(self.bytes.len() - cut * HEAD);
        self.tail = self.tail.min((chunks - cut) * CHUNK);
        cut
    }

    /// What it consists of, in order.
    fn parts(&self) -> impl Iterator<Item = BatchPart> + use<> {
        let (before, tail) = (self.before(), self.tail);
        let chunks = (0..self.chunks()).flat_map(move |at| {
            let head = before + at * HEAD;
            let head = if at == 0 { 0..before } else { head - HEAD..head };
            [BatchPart::Own(head), BatchPart::Tail(at * CHUNK..tail.min((at + 1) * CHUNK))]
        });
        chunks.chain((tail == 0).then_some(BatchPart::Own(0..before)))
    }

    /// The parts that are not written.
    fn left(&self) -> impl Iterator<Item = BatchPart> + use<> {
        let mut skip = self.written;
        self.parts().filter_map(move |part| {
            let (BatchPart::Own(range) | BatchPart::Tail(range)) = &part;
            let passed = skip.min(range.len());
            skip -= passed;
            let rest = range.start + passed..range.end;
            if rest.is_empty() {
                return None;
            }
            Some(match part {
                BatchPart::Own(_) => BatchPart::Own(rest),
                BatchPart::Tail(_) => BatchPart::Tail(rest),
            })
        })
    }

    /// Writes in one system call, or in several if the stream is sealed. How many bytes were taken,
    /// and whether the kernel has all it was given.
    #[inline]
    pub(super) fn write(
        &mut self,
        stream: &mut ByteStream,
        outbox: &Outbox,
    ) -> Result<(usize, bool), Errno> {
        let (n, given) = match &outbox.current {
            Some(OutgoingTransfer { posted, offset }) if self.tail > 0 => {
                self.write_chunks(stream, posted.descriptor(), *offset)?
            }
            _ => {
                let bytes = &self.bytes[self.written..];
                (stream.write(bytes)?, bytes.len())
            }
        };
        self.written += n;
        Ok((n, n == given && !stream.has_unsent()))
    }

    fn write_chunks(
        &self,
        stream: &mut ByteStream,
        descriptor: &Descriptor,
        offset: u64,
    ) -> Result<(usize, usize), Errno> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut room = slices.iter_mut();
        for part in self.left() {
            match part {
                BatchPart::Own(range) => {
                    let Some(slice) = room.next() else { break };
                    *slice = IoSlice::new(&self.bytes[range]);
                }
                BatchPart::Tail(range) => {
                    let from = offset + range.start as u64;
                    for piece in pieces(descriptor, from, range.len()) {
                        let Some(slice) = room.next() else { break };
                        *slice = IoSlice::new(piece);
                    }
                }
            }
        }
        let used = SLICES - room.len();
        let given = slices[..used].iter().map(|slice| slice.len()).sum();
        Ok((stream.write_all(&slices[..used])?, given))
    }

    /// What is left to write, as bytes.
    pub(super) fn gather(&self, outbox: &Outbox) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in self.left() {
            match (part, &outbox.current) {
                (BatchPart::Own(range), _) => bytes.extend_from_slice(&self.bytes[range]),
                (BatchPart::Tail(range), Some(OutgoingTransfer { posted, offset })) => {
                    let at = bytes.len();
                    bytes.resize(at + range.len(), 0);
                    let from = offset + range.start as u64;
                    posted.descriptor().gather(from, &mut bytes[at..]);
                }
                (BatchPart::Tail(_), None) => {}
            }
        }
        bytes
    }
}

/// Bytes of a descriptor from `offset` on, as they lie.
fn pieces(descriptor: &Descriptor, offset: u64, len: usize) -> impl Iterator<Item = &[u8]> {
    let (mut skip, mut left) = (offset, len);
    let all = descriptor.segments().map(move |segment| {
        let bytes = segment.bytes();
        let passed = usize::try_from(skip).map_or(bytes.len(), |skip| skip.min(bytes.len()));
        skip -= passed as u64;
        let now = (bytes.len() - passed).min(left);
        left -= now;
        &bytes[passed..passed + now]
    });
    all.filter(|piece| !piece.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A head and a payload, and behind them three chunks and a short one with their heads.
    fn batch() -> Batch {
        Batch { bytes: vec![7; 40 + 3 * HEAD], tail: 3 * CHUNK + 100, written: 0 }
    }

    fn len(parts: impl Iterator<Item = BatchPart>) -> usize {
        parts.map(|(BatchPart::Own(range) | BatchPart::Tail(range))| range.len()).sum()
    }

    #[test]
    fn a_cut_leaves_the_frame_that_is_half_written() {
        let one = CHUNK + HEAD;
        // What is written, how many frames are cut off, and what is left to write.
        let expected = [
            (0, 3, 40 + CHUNK),
            (39, 3, 1 + CHUNK),
            (41, 3, CHUNK - 1),
            (40 + CHUNK - 1, 3, 1),
            (40 + CHUNK, 3, 0),
            (40 + CHUNK + 1, 2, HEAD - 1 + CHUNK),
            (40 + one, 2, CHUNK),
            (40 + one + CHUNK, 2, 0),
            (40 + 2 * one + CHUNK, 1, 0),
            (40 + 2 * one + CHUNK + 1, 0, HEAD - 1 + 100),
            (40 + 3 * one + 99, 0, 1),
            (40 + 3 * one + 100, 0, 0),
        ];
        for (written, cut, left) in expected {
            let mut batch = Batch { written, ..batch() };
            assert_eq!(len(batch.left()), 40 + 3 * HEAD + 3 * CHUNK + 100 - written);
            assert_eq!((batch.cut(), len(batch.left())), (cut, left), "{written} written");
            assert_eq!(batch.is_written(), left == 0, "{written} written");
            assert_eq!(batch.cut(), 0, "{written} written");
        }
    }

    #[test]
    fn heads_and_chunks_take_turns() {
        let parts: Vec<BatchPart> = Batch { written: 50 + CHUNK, ..batch() }.left().collect();
        let expected = [
            BatchPart::Own(50..40 + HEAD),
            BatchPart::Tail(CHUNK..2 * CHUNK),
            BatchPart::Own(40 + HEAD..40 + 2 * HEAD),
            BatchPart::Tail(2 * CHUNK..3 * CHUNK),
            BatchPart::Own(40 + 2 * HEAD..40 + 3 * HEAD),
            BatchPart::Tail(3 * CHUNK..3 * CHUNK + 100),
        ];
        assert_eq!(parts, expected);
        let alone = Batch { bytes: vec![7; 30], tail: 0, written: 10 };
        assert_eq!(alone.left().collect::<Vec<_>>(), [BatchPart::Own(10..30)]);
    }
}
