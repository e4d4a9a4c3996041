//! A stream without a socket, for tests and fuzzers: a script writes what the peer says, and decides
//! how much is taken of what the end writes.

use std::collections::VecDeque;
use std::io::{IoSlice, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

/// Both ends of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<Mutex<Pipe>>);

#[derive(Debug, Default)]
struct Pipe {
    /// What the peer has said, and whether that is all.
    said: VecDeque<u8>,
    is_over: bool,
    /// Bytes that are taken before a write is refused.
    room: usize,
}

impl Memory {
    /// The peer says something.
    pub(super) fn say(&self, bytes: &[u8]) {
        self.pipe().said.extend(bytes);
    }

    /// The peer says nothing more.
    pub(super) fn end(&self) {
        self.pipe().is_over = true;
    }

    /// There is room for so many bytes.
    pub(super) fn make_room(&self, room: usize) {
        self.pipe().room = room;
    }

    pub(super) fn is_over(&self) -> bool {
        let pipe = self.pipe();
        pipe.is_over && pipe.said.is_empty()
    }

    pub(super) fn read(&self, to: &mut [u8]) -> Result<usize, Errno> {
        let mut pipe = self.pipe();
        match pipe.said.read(to) {
            Ok(0) if !pipe.is_over => Err(Errno::AGAIN),
            read => read.map_err(|_| Errno::IO),
        }
    }

    pub(super) fn read_both(&self, one: &mut [u8], other: &mut [u8]) -> Result<usize, Errno> {
        let n = self.read(one)?;
        if n < one.len() {
            return Ok(n);
        }
        Ok(n + self.read(other).unwrap_or(0))
    }

    pub(super) fn write(&self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut pipe = self.pipe();
        let n = slices.iter().map(|slice| slice.len()).sum::<usize>().min(pipe.room);
        pipe.room -= n;
        if n == 0 { Err(Errno::AGAIN) } else { Ok(n) }
    }

    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
