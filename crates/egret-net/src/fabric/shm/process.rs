//! The call by which the memory of another process is read.

use rustix::io::Errno;

/// Reads, in one call, a word of a process at `word_at` and as many bytes as
/// there are at `at`, at most as `to` has room for: the word, and how many.
/// All of it is of one address space, also if the process gets another
/// meanwhile.
///
/// The numbers may be any: what cannot be read is an error, or ends the bytes.
pub(super) fn read(pid: i32, word_at: u64, at: u64, to: &mut [u8]) -> Result<(u64, usize), Errno> {
    let mut word = [0; WORD];
    let here = [part(word.as_mut_ptr(), WORD), part(to.as_mut_ptr(), to.len())];
    let there = [there(word_at, WORD)?, there(at, to.len())?];
    // SAFETY: the kernel writes to nothing but the parts in `here`, which are a word of this
    // function's and the slice it borrows exclusively. That of the other process it reads
    // with checks of its own.
    let got = unsafe { libc::process_vm_readv(pid, here.as_ptr(), 2, there.as_ptr(), 2, 0) };
    let Ok(got) = usize::try_from(got) else {
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
        assert_eq!(read(own(), address(&word), address(&bytes), &mut to), Ok((7, 21)));
        assert_eq!(to, bytes);
        assert_eq!(read(own(), address(&word), u64::MAX, &mut []), Ok((7, 0)));
    }

    #[test]
    fn what_cannot_be_read_is_an_answer() {
        let (word, bytes, mut to) = ([7_u64], [1; 8], [0; 8]);
        for nowhere in [0, 1, u64::MAX, u64::MAX - 7, 1 << 63] {
            assert_eq!(read(own(), nowhere, address(&bytes), &mut to), Err(Errno::FAULT));
            let got = read(own(), address(&word), nowhere, &mut to);
            // Some the kernel refuses as a whole before it reads.
            assert!(matches!(got, Ok((7, 0)) | Err(Errno::FAULT)), "{got:?}");
        }
        assert_eq!(read(i32::MAX, address(&word), address(&bytes), &mut to), Err(Errno::SRCH));
    }
}
