//! A stream in one buffer of a pool: written, then read, never both.

use egret_net::buf::Buf;

use crate::error::WireError;
use crate::fault;
use crate::reader::Reader;
use crate::wire::Wire;
use crate::writer::{ShortWriter, Writer};

/// A buffer that values are written to.
///
/// A value that does not fit is [`Full`](WireError::Full) and leaves nothing half
/// written; [`clear`](Self::clear) empties it. What is written cannot be read before
/// [`finish`](Self::finish) ends the writing, and a finished buffer cannot be written
/// while something read from it lives: the states of a jstream, as types.
///
/// ```
/// use egret_net::buf::Pool;
/// use egret_stream::{Page, Reader, WireError};
///
/// let pool = Pool::new(64, 1)?;
/// let mut page = Page::new(pool.take(64)?);
/// page.write("hello")?;
/// assert!(matches!(page.write(&[0_u8; 100]), Err(WireError::Full { .. })));
/// page.write(&7_u32)?;
///
/// let buf = page.finish();
/// let mut reader = Reader::new(buf.bytes());
/// assert_eq!((reader.read::<&str>()?, reader.read_last::<u32>()?), ("hello", 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A stream that is being written cannot be read:
///
/// ```compile_fail,E0599
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let mut page = egret_stream::Page::new(pool.take(64).unwrap());
/// page.write(&1_u32).unwrap();
/// let one = page.read::<u32>();
/// ```
///
/// nor its buffer be used otherwise:
///
/// ```compile_fail,E0382
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let mut buf = pool.take(64).unwrap();
/// let mut page = egret_stream::Page::new(buf);
/// page.write(&1_u32).unwrap();
/// buf.bytes_mut()[0] = 2;
/// ```
///
/// and one that is finished cannot be written:
///
/// ```compile_fail,E0382
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let mut page = egret_stream::Page::new(pool.take(64).unwrap());
/// let buf = page.finish();
/// page.write(&1_u32).unwrap();
/// ```
#[derive(Debug)]
pub struct Page {
    buf: Buf,
    at: usize,
    /// The memory of the last writer.
    spare: Writer<'static>,
}

impl Page {
    /// An empty stream in `buf`.
    #[must_use]
    pub fn new(buf: Buf) -> Self {
        Self { buf, at: 0, spare: Writer::new() }
    }

    /// Writes a value behind those that are there.
    ///
    /// # Errors
    ///
    /// See [`WireError`]; nothing of the value is then in the stream.
    pub fn write<T: Wire + ?Sized>(&mut self, value: &T) -> Result<(), WireError> {
        let mut room = ShortWriter::behind(self.buf.bytes_mut(), self.at);
        if value.write_short(&mut room) {
            self.at = room.at();
            return Ok(());
        }
        self.write_long(value)
    }

    fn write_long<T: Wire + ?Sized>(&mut self, value: &T) -> Result<(), WireError> {
        let mut writer: Writer<'_> = std::mem::take(&mut self.spare);
        let done = writer.within(self.at, self.buf.len(), value);
        if fault::stays(done.is_ok()) {
            let len = writer.len() - self.at;
            writer.copy_to(&mut self.buf.bytes_mut()[self.at..][..len]);
            self.at += len;
        }
        self.spare = writer.recycled();
        done
    }

    /// Forgets everything written.
    pub fn clear(&mut self) {
        self.at = 0;
        self.spare.clear();
    }

    /// How many bytes are written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at
    }

    /// Whether nothing is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Ends the writing: the buffer, as long as what was written.
    #[must_use]
    pub fn finish(mut self) -> Buf {
        self.buf.resize(self.at);
        self.buf
    }
}

impl<'a> From<&'a Buf> for Reader<'a> {
    fn from(buf: &'a Buf) -> Self {
        Self::new(buf.bytes())
    }
}
