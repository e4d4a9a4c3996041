//! What a launcher and an outpost say to each other, as bytes.
//!
//! A frame is its length in four bytes, a byte that says what it is, and what it says: a message in JSON, or the number of a
//! stream in four bytes and bytes of that stream. All numbers are little endian.

use std::io::{self, ErrorKind, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

/// What one side says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<T> {
    Said(T),
    /// Bytes of a stream that both sides know by this number.
    Bytes(u32, Vec<u8>),
}

impl<T: Serialize + DeserializeOwned> Frame<T> {
    /// Reads the next, which has at most so many bytes; `None` at the end of the input.
    pub(crate) fn read(from: &mut impl Read, most: usize) -> io::Result<Option<Self>> {
        let mut head = [0; 4];
        match from.read(&mut head[..1])? {
            0 => return Ok(None),
            _ => from.read_exact(&mut head[1..])?,
        }
        let length = u32::from_le_bytes(head) as usize;
        if !(1..=most).contains(&length) {
            return Err(wrong(format!("a frame of {length} bytes, where 1 to {most} are allowed")));
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body)?;
        match body[0] {
            SAID => {
                // It may have a secret.
                let body = Zeroizing::new(body);
                serde_json::from_slice(&body[1..]).map(|said| Some(Self::Said(said))).map_err(wrong)
            }
            BYTES if length >= BYTES_HEAD => {
                let number = u32::from_le_bytes([body[1], body[2], body[3], body[4]]);
                body.drain(..BYTES_HEAD);
                Ok(Some(Self::Bytes(number, body)))
            }
            kind => Err(wrong(format!("a frame of kind {kind} and {length} bytes"))),
        }
    }

    /// The message as bytes, which may have a secret: there is no other copy of them.
    pub(crate) fn said(what: &T) -> io::Result<Zeroizing<Vec<u8>>> {
        let mut count = ByteCount(0);
        serde_json::to_writer(&mut count, what)?;
        let length = count.0 + 1;
        if length > FRAME_MAX {
            return Err(wrong(format!(
                "a message of {length} bytes, where {FRAME_MAX} are allowed"
            )));
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(4 + length));
        #[expect(clippy::cast_possible_truncation, reason = "it is below the limit")]
        bytes.extend((length as u32).to_le_bytes());
        bytes.push(SAID);
        serde_json::to_writer(&mut *bytes, what)?;
        Ok(bytes)
    }
}

/// Counts what is written.
struct ByteCount(usize);

impl Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes bytes of a stream, at most [`PIECE_MAX`].
pub(super) fn write_bytes(to: &mut impl Write, stream: u32, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(BYTES_HEAD + bytes.len()).map_err(wrong)?;
    let mut head = [0; 4 + BYTES_HEAD];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4] = BYTES;
    head[5..].copy_from_slice(&stream.to_le_bytes());
    to.write_all(&head)?;
    to.write_all(bytes)
}

fn wrong(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

const SAID: u8 = 0;
const BYTES: u8 = 1;
/// What comes before the bytes of a stream.
const BYTES_HEAD: usize = 5;
/// Bytes of a stream in one frame.
pub(super) const PIECE_MAX: usize = 64 << 10;
/// A command line and an environment as JSON, where each of their bytes is up to four.
pub(super) const FRAME_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_as_they_were_said() {
        let mut bytes = Frame::said(&vec!["a".to_owned()]).unwrap().to_vec();
        write_bytes(&mut bytes, 7, b"xyz").unwrap();
        write_bytes(&mut bytes, u32::MAX, b"").unwrap();
        let mut from = &bytes[..];
        let mut next = || Frame::<Vec<String>>::read(&mut from, FRAME_MAX).unwrap();
        assert_eq!(next(), Some(Frame::Said(vec!["a".to_owned()])));
        assert_eq!(next(), Some(Frame::Bytes(7, b"xyz".to_vec())));
        assert_eq!(next(), Some(Frame::Bytes(u32::MAX, Vec::new())));
        assert_eq!(next(), None);
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for bytes in [
            &b"Welcome to this machine\n"[..],
            &[0, 0, 0, 0],
            &[1, 0, 0, 0, 9],
            &[3, 0, 0, 0, 1, 0, 0],
            &[2, 0, 0, 0, 0, b'{'],
            &[9, 0, 0, 0, 0],
            &[1, 0],
        ] {
            assert!(Frame::<u8>::read(&mut &bytes[..], FRAME_MAX).is_err(), "{bytes:?}");
        }
    }
}
