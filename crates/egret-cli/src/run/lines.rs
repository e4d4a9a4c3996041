//! Bytes of one stream on their way to whole lines.

use std::io;
use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;
use rustix::io::read;

use super::fault::{self, Fault, planted};

/// What came and was not passed on.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
}

impl LineBuffer {
    /// Reads some more; zero is the end.
    pub(crate) fn fill(&mut self, from: impl AsFd) -> io::Result<usize> {
        // More than ever waits, so there always is room.
        let room = LINE_MAX + 1;
        if self.lacks(room) {
            self.bytes.reserve_exact(room);
        }
        Ok(read(from, spare_capacity(&mut self.bytes))?)
    }

    /// Gives what can be passed on: whole lines, or part of one that is longer than
    /// [`LINE_MAX`].
    pub(crate) fn pass<E>(&mut self, to: impl FnOnce(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let whole = self.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let count = if whole == 0 && self.is_long() { self.bytes.len() } else { whole };
        self.give(fault::passed(count, self.bytes.len()), to)
    }

    /// Gives all that is left, as there will be no more.
    pub(crate) fn end<E>(&mut self, to: impl FnOnce(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.give(fault::tail(self.bytes.len()), to)
    }

    /// Whether a line is so long that it is passed on before its end.
    fn is_long(&self) -> bool {
        self.bytes.len() >= LINE_MAX && !planted(Fault::Boundless)
    }

    fn lacks(&self, room: usize) -> bool {
        self.bytes.capacity() < room || planted(Fault::Boundless)
    }

    fn give<E>(&mut self, count: usize, to: impl FnOnce(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if count == 0 {
            return Ok(());
        }
        to(&self.bytes[..count])?;
        self.bytes.drain(..count);
        Ok(())
    }
}

/// Lines up to here stay whole among those of others.
pub(crate) const LINE_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use rustix::io::write;
    use rustix::pipe::pipe;

    use super::super::fault::caught;
    use super::*;

    /// What becomes of `pieces` that are written one after the other.
    fn passed(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let (reader, writer) = pipe().unwrap();
        let (mut lines, mut out) = (LineBuffer::default(), Vec::new());
        let mut to = |bytes: &[u8]| {
            out.push(bytes.to_vec());
            Ok::<_, Infallible>(())
        };
        for piece in pieces.iter().flat_map(|piece| piece.chunks(4096)) {
            assert_eq!(write(&writer, piece).unwrap(), piece.len());
            let mut left = piece.len();
            while left > 0 {
                left -= lines.fill(&reader).unwrap();
                lines.pass(&mut to).unwrap();
                assert!(lines.bytes.capacity() <= 2 * LINE_MAX, "memory for one line");
            }
        }
        drop(writer);
        assert_eq!(lines.fill(&reader).unwrap(), 0);
        lines.end(&mut to).unwrap();
        out
    }

    fn lines_stay_whole() {
        assert_eq!(passed(&[b"a", b"b\nc", b"\n\nd\n"]), [&b"ab\n"[..], b"c\n\nd\n"]);
        assert_eq!(passed(&[]), [b""; 0]);
    }

    fn the_last_needs_no_newline() {
        assert_eq!(passed(&[b"a\nb"]), [b"a\n", &b"b"[..]]);
        let binary = [0, b'\r', 0xff];
        assert_eq!(passed(&[&binary]), [binary]);
    }

    fn a_long_line_is_cut() {
        let long = vec![b'x'; 3 * LINE_MAX + 5];
        let pieces = passed(&[&long, b"y\n"]);
        assert!(pieces.len() >= 3, "{}", pieces.len());
        let whole = pieces.concat();
        assert!(whole.strip_suffix(b"y\n") == Some(&long[..]), "{} bytes", whole.len());
    }

    #[test]
    fn bytes_become_lines() {
        lines_stay_whole();
        the_last_needs_no_newline();
        a_long_line_is_cut();
    }

    #[test]
    fn planted_faults_are_caught() {
        assert!(caught(Fault::HalfLines, lines_stay_whole));
        assert!(caught(Fault::TailDropped, the_last_needs_no_newline));
        assert!(caught(Fault::Boundless, a_long_line_is_cut));
    }
}
