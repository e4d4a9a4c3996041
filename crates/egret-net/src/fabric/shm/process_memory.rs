//! Bytes that stay in the memory of a peer's process until they are read there.
//!
//! For memory that is in no region: the kernel copies it straight out of the
//! process that sends into the memory posted here. Whether it may is its own to
//! say (`ptrace` rules, filters of system calls), and is tried once, when the
//! connection is made, by reading the other's *mark*: `docs/wire/shm.md` has how.
//!
//! # Whose bytes
//!
//! The number of a process may be given to another, and a process may execute
//! another program. So every read takes the mark along, in the same call: a
//! forked child does not inherit it, and no other process has it. And after each read
//! the peer's process must not have ended, by its pidfd.
//!
//! A peer that names addresses where nothing is gets an error, and one that
//! names others of its own sends other bytes. What it cannot name is another
//! process.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::io::Errno;

use super::fault::{self, Fault, planted};
use super::foreign::ForeignMemory;
use super::layout::{CHUNK, CHUNKS, MARK, MARK_AT, REACHES};
use super::memory::OwnMemory;
use super::rendezvous::PeerProcess;
use super::transfer_context::GONE;
use crate::rt;
use crate::vi::{Descriptor, PLACED_LEAST, ViError};

/// That this end may read the memory of the peer's process.
#[derive(Debug)]
pub(super) struct PeerMemoryReader {
    mark: u64,
    mark_at: u64,
}

/// Writes the mark of a region that no peer has yet.
pub(super) fn mark(own: &OwnMemory) {
    let mark = own.word(MARK);
    mark.store(rt::random().max(1), Relaxed);
    own.word(MARK_AT).store(address(mark), Release);
}

/// Whether the peer says that it reads memory of this process.
#[inline]
pub(super) fn is_offered(foreign: &ForeignMemory) -> bool {
    foreign.load(REACHES as u64, Acquire) == Some(1)
}

/// Where the segment with byte `offset` of a message lies from there on, and how
/// much of it, if that is enough to be read in place.
pub(super) fn place(descriptor: &Descriptor, offset: u64) -> Option<(u64, u64)> {
    let mut skip = offset;
    for segment in descriptor.segments() {
        if skip >= segment.len() {
            skip -= segment.len();
            continue;
        }
        let bytes = &segment.bytes()[usize::try_from(skip).ok()?..];
        let len = bytes.len() as u64;
        return (len >= LEAST).then(|| (bytes.as_ptr().expose_provenance() as u64, len));
    }
    None
}

/// How many bytes there are from `offset` on before a segment begins that is
/// worth a piece of its own.
pub(super) fn run(descriptor: &Descriptor, offset: u64) -> u64 {
    let mut end = 0;
    for segment in descriptor.segments() {
        let shared = segment.len() >= PLACED_LEAST as u64
            && segment.place().is_some_and(|(region, _)| region.fd().is_some());
        if end > offset && (shared || segment.len() >= LEAST) {
            break;
        }
        end += segment.len();
    }
    end - offset
}

/// Bytes of one segment from which on reading them in place is worth it: more
/// than the bounce area holds at once.
///
/// A call costs 1.5 µs before it copies and then some for each page, while the
/// two copies of the bounce area go on at once, a piece behind the other, in the
/// caches of two cores; until the sender has to wait for a piece to be free.
/// Round trips of `egret bench latency --fabric shm --mode pinned`, µs, medians on
/// a Xeon with two cores:
///
/// | | 16 KiB | 32 KiB | 64 KiB | 128 KiB | 144 KiB | 192 KiB | 256 KiB | 1 MiB |
/// |---|---|---|---|---|---|---|---|---|
/// | bounce area | 8.4 | 12 | 19 | 34–45 | 145–165 | 191 | 175–202 | 541–580 |
/// | read in place | 14 | 20 | 31 | 48–53 | 54–67 | 78 | 85–119 | 458–484 |
pub(super) const LEAST: u64 = (CHUNK * CHUNKS) as u64 + 1;

impl PeerMemoryReader {
    /// Tries whether the peer's memory can be read, and says so to it if so.
    pub(super) fn offer(
        own: &OwnMemory,
        foreign: &ForeignMemory,
        peer: &PeerProcess,
    ) -> Option<Self> {
        let mark_at = foreign.load(MARK_AT as u64, Acquire).filter(|at| *at != 0)?;
        let reach = Self { mark: foreign.load(MARK as u64, Relaxed)?, mark_at };
        reach.read(peer, mark_at, &mut [0; 8]).ok()?;
        own.word(REACHES).store(1, Release);
        Some(reach)
    }

    /// Reads all of `to` at an address of the peer's process.
    pub(super) fn read(&self, peer: &PeerProcess, at: u64, to: &mut [u8]) -> Result<(), ViError> {
        let (mut at, mut left) = (at, to);
        while !left.is_empty() {
            let n = self.read_some(peer.pid, at, left)?;
            at = at.wrapping_add(n as u64);
            left = &mut left[n..];
        }
        // Its number was its own for as long as it has not ended.
        if peer.is_alive() || planted(Fault::EndIgnored) { Ok(()) } else { Err(GONE) }
    }

    fn read_some(&self, pid: i32, at: u64, to: &mut [u8]) -> Result<usize, ViError> {
        #[cfg(test)]
        READS.with(|reads| reads.set(reads.get() + 1));
        match fault::reading(read_process(pid, self.mark_at, at, to)) {
            Ok((mark, _)) if self.is_other(mark) => Err(REPLACED),
            Ok((_, 0)) => Err(ViError::Protocol("bytes outside the peer's memory")),
            Ok((_, n)) => Ok(n),
            Err(Errno::SRCH) => Err(GONE),
            // Not even the mark is there.
            Err(Errno::FAULT) => Err(REPLACED),
            Err(_) => Err(FORBIDDEN),
        }
    }

    /// Whether a mark is not that of the peer's process.
    fn is_other(&self, mark: u64) -> bool {
        mark != self.mark && !planted(Fault::MarkIgnored)
    }
}

fn address<T>(of: &T) -> u64 {
    std::ptr::from_ref(of).expose_provenance() as u64
}

const FORBIDDEN: ViError = ViError::Protocol("memory that may no longer be read");
const REPLACED: ViError = ViError::PeerDied { why: "its memory is gone" };

#[cfg(test)]
thread_local! {
    /// How often this thread has read memory of a process.
    pub(super) static READS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Reads, in one call, a word of a process at `word_at` and as many bytes as
/// there are at `at`, at most as `to` has room for: the word, and how many.
/// All of it is of one address space, also if the process gets another
/// meanwhile.
///
/// The numbers may be any: what cannot be read is an error, or ends the bytes.
fn read_process(pid: i32, word_at: u64, at: u64, to: &mut [u8]) -> Result<(u64, usize), Errno> {
    let mut word = [0; WORD];
    let here = [part(word.as_mut_ptr(), WORD), part(to.as_mut_ptr(), to.len())];
    let there = [there(word_at, WORD)?, there(at, to.len())?];
    // SAFETY: the kernel writes to nothing but the parts in `here`, which are a word of this
    // function's and the slice it borrows exclusively. That of the other process it reads
    // with checks of its own.
    let got = unsafe { libc::process_vm_readv(pid, here.as_ptr(), 2, there.as_ptr(), 2, 0) };
    let Ok(got) = usize::try_from(fault::got(got, to.len() + WORD)) else {
        let why = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&why).unwrap_or(Errno::INVAL));
    };
    let bytes = got.checked_sub(WORD).ok_or(Errno::FAULT)?;
    Ok((u64::from_ne_bytes(word), bytes))
}

const WORD: usize = size_of::<u64>();

const fn part(start: *mut u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast(), iov_len: len }
}

/// A part of another process, whose addresses mean nothing here.
fn there(at: u64, len: usize) -> Result<libc::iovec, Errno> {
    let at = usize::try_from(at).map_err(|_| Errno::FAULT)?;
    Ok(part(std::ptr::without_provenance_mut(at), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> i32 {
        rustix::process::getpid().as_raw_pid()
    }

    fn address<T>(of: &[T]) -> u64 {
        of.as_ptr().expose_provenance() as u64
    }

    #[test]
    fn a_word_and_bytes_are_read() {
        let (word, bytes) = ([7_u64], *b"an egret stands still");
        let mut to = [0; 21];
        assert_eq!(read_process(own(), address(&word), address(&bytes), &mut to), Ok((7, 21)));
        assert_eq!(to, bytes);
        assert_eq!(read_process(own(), address(&word), u64::MAX, &mut []), Ok((7, 0)));
    }

    #[test]
    fn what_cannot_be_read_is_an_answer() {
        let (word, bytes, mut to) = ([7_u64], [1; 8], [0; 8]);
        for nowhere in [0, 1, u64::MAX, u64::MAX - 7, 1 << 63] {
            assert_eq!(read_process(own(), nowhere, address(&bytes), &mut to), Err(Errno::FAULT));
            let got = read_process(own(), address(&word), nowhere, &mut to);
            // Some the kernel refuses as a whole before it reads.
            assert!(matches!(got, Ok((7, 0)) | Err(Errno::FAULT)), "{got:?}");
        }
        assert_eq!(
            read_process(i32::MAX, address(&word), address(&bytes), &mut to),
            Err(Errno::SRCH)
        );
    }
}
