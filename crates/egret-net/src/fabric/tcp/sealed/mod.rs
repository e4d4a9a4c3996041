//! A stream whose bytes are sealed between this end and the kernel.
//!
//! What is written is cut into [records](self::record), each copied to the buffer that it leaves
//! from and sealed there: the cipher works in place, and what was posted goes back to its owner as
//! it was. A large payload begins with a record, and a reader that knows its place reads each of its
//! records straight to that place, and opens it there. All else is opened in the buffer that it
//! came to, and copied. So of each byte of a large payload there is one copy more than without
//! sealing, at the sender, who reads it once.
//!
//! Memory that was posted to receive into may hold bytes, until all of it is complete, that are
//! sealed or were not proven. Its owner has it back with an error then, as if the peer had died
//! half-way. Memory that is exposed, which its owner can read at any time, sees only what was
//! proven.
//!
//! Bytes that are sealed count as written: their record cannot be taken back, since its number is
//! used up. What the kernel does not take of them is [unsent](SealedStream::has_unsent), and goes before
//! everything else when there is room.
//!
//! Whole records that have come lie in this process, where no set tells of them: who reads goes on
//! until none is [ready](SealedStream::is_ready).

mod incoming;
mod outgoing;
pub(super) mod record;

use std::io::IoSlice;

use rustix::io::Errno;

use self::incoming::RecordReader;
use self::outgoing::RecordWriter;
use super::stream::{ByteStream, StreamReadError};
use crate::fabric::seal::{Opener, SealKeys, Sealer};

#[derive(Debug)]
pub(super) struct SealedStream {
    /// What carries the records.
    pub wire: ByteStream,
    outgoing: RecordWriter,
    incoming: RecordReader,
}

impl SealedStream {
    /// `first` are bytes that go before all records, as they are.
    pub(super) fn new(wire: ByteStream, keys: SealKeys, first: &[u8]) -> Self {
        let SealKeys { outgoing, incoming } = keys;
        let outgoing = RecordWriter::new(Sealer::new(outgoing), first);
        Self { wire, outgoing, incoming: RecordReader::new(Opener::new(incoming)) }
    }

    /// Seals what there is room for. How many bytes are with the kernel, or unsent.
    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        self.outgoing.write(slices, &mut self.wire)
    }

    /// Writes what is unsent. Whether that was all.
    pub(super) fn flush(&mut self) -> Result<bool, Errno> {
        self.outgoing.flush(&mut self.wire)
    }

    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.outgoing.has_unsent()
    }

    /// Whether no record can be sealed any more.
    pub(super) const fn is_worn(&self) -> bool {
        self.outgoing.is_worn
    }

    /// Reads what is ready, or else what one call brings; 0 is the end.
    pub(super) fn read(&mut self, to: &mut [u8]) -> Result<usize, StreamReadError> {
        self.incoming.read(to, &mut self.wire)
    }

    /// The same, into two places in order, of which the first is where a large payload belongs.
    pub(super) fn read_both(
        &mut self,
        one: &mut [u8],
        other: &mut [u8],
    ) -> Result<usize, StreamReadError> {
        self.incoming.read_both(one, other, &mut self.wire)
    }

    /// Takes records that came already.
    pub(super) fn hold(&mut self, bytes: &[u8]) {
        self.incoming.hold(bytes);
    }

    /// Whether something can be read without a call.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.incoming.is_ready()
    }

    /// Whether the last call has brought all there was, and all of that was read.
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.incoming.is_drained()
    }

    /// As if all numbers before this one were used up.
    #[cfg(test)]
    pub(super) fn skip_to(&mut self, number: u64) {
        self.outgoing.sealer.skip_to(number);
    }

    /// Gives memory back that an end which sleeps does not need.
    pub(super) fn trim(&mut self) {
        self.outgoing.trim();
        self.incoming.trim();
    }
}
