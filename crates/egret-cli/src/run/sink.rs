//! Where output goes, a line at a time.

use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::fstat;

use crate::system::wait_for;

/// Which stream something came from.
pub(crate) type StreamId = usize;

/// Writes what streams say, so that no two share a line.
#[derive(Debug)]
pub(crate) struct OutputSink<W> {
    to: W,
    /// Whose line has not ended yet.
    open: Option<StreamId>,
    /// Lines with their tags, before they are written.
    tagged: Vec<u8>,
}

impl<W: Write> OutputSink<W> {
    pub(crate) fn new(to: W) -> Self {
        Self { to, open: None, tagged: Vec::new() }
    }

    /// Writes `bytes` of `from`, each line beginning with `tag`.
    pub(crate) fn pass(&mut self, from: StreamId, tag: &[u8], bytes: &[u8]) -> io::Result<()> {
        if self.open.is_some_and(|open| open != from) {
            self.to.write_all(b"\n")?;
            self.open = None;
        }
        let Some(last) = bytes.last() else { return Ok(()) };
        let goes_on = self.open.is_some();
        self.open = (*last != b'\n').then_some(from);
        if tag.is_empty() {
            return self.to.write_all(bytes);
        }
        self.pass_tagged(tag, bytes, goes_on)
    }

    fn pass_tagged(&mut self, tag: &[u8], bytes: &[u8], mut goes_on: bool) -> io::Result<()> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !goes_on {
                self.tagged.extend_from_slice(tag);
            }
            goes_on = false;
            self.tagged.extend_from_slice(line);
            if self.tagged.len() >= PIECE {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.to.write_all(&self.tagged);
        self.tagged.clear();
        written
    }
}

/// A descriptor of this process, written to without buffering and whether or not somebody
/// made it non-blocking.
#[derive(Debug)]
pub(crate) struct Unbuffered(pub(crate) BorrowedFd<'static>);

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(self.0, bytes).map_err(io::Error::from) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait_for(&mut [PollFd::new(&self.0, PollFlags::OUT)], None);
                }
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether both lead to the same place.
pub(crate) fn are_same(one: impl AsFd, other: impl AsFd) -> bool {
    let place = |fd: BorrowedFd<'_>| fstat(fd).map(|stat| (stat.st_dev, stat.st_ino)).ok();
    let place_of_one = place(one.as_fd());
    place_of_one.is_some() && place_of_one == place(other.as_fd())
}

/// Lines are tagged in pieces of about this size.
const PIECE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[(StreamId, &str, &str)]) -> String {
        let mut sink = OutputSink::new(Vec::new());
        for (from, tag, bytes) in parts {
            sink.pass(*from, tag.as_bytes(), bytes.as_bytes()).unwrap();
        }
        String::from_utf8(sink.to).unwrap()
    }

    #[test]
    fn lines_stay_apart_and_are_tagged() {
        assert_eq!(written(&[(0, "", "a\nb\n"), (1, "", "c")]), "a\nb\nc");
        assert_eq!(written(&[(0, "", "a"), (0, "", "b\n"), (1, "", "c\n")]), "ab\nc\n");
        assert_eq!(written(&[(0, "", "a"), (1, "", "b"), (0, "", "c")]), "a\nb\nc");
        assert_eq!(written(&[(0, "[0] ", "a\n\nb"), (0, "[0] ", "c\n")]), "[0] a\n[0] \n[0] bc\n");
        assert_eq!(written(&[(0, "[0] ", "a"), (1, "[1] ", "b\n")]), "[0] a\n[1] b\n");
        let long = "x\n".repeat(PIECE);
        assert_eq!(written(&[(0, "[0] ", &long)]), "[0] x\n".repeat(PIECE));
    }
}
