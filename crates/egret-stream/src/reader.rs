//! The reader: values out of one buffer, out of a sequence of chunks, or out of a source that gives
//! the bytes as they arrive.

mod budget;
mod parts;
mod planned;
mod pull;
mod rest;
mod shared;

use std::fmt;

use crate::context::WireContext;
use crate::depth::Floor;
use crate::dynamic::Names;
use crate::error::WireError;
use crate::share::ReadShares;
use crate::wire::{FromWire, Stop};
use budget::MemoryBudget;
pub use budget::{MEMORY_BYTES, MEMORY_FACTOR};
use planned::ContentsPlan;
pub(crate) use planned::read_same;
use pull::PulledBytes;
pub use rest::{ShortReader, read};
pub(crate) use shared::{build_arc, build_rc};

/// Reads values from memory of lifetime `'a`, from which they may borrow.
///
/// ```
/// use egret_stream::{Reader, Writer};
///
/// let mut writer = Writer::new();
/// writer.write_copy(&("name", vec![1.5; 3]))?;
/// # use egret_net::buf::Pool;
/// # let pool = Pool::new(64, 1)?;
/// let mut buf = pool.take(writer.len())?;
/// writer.copy_to(buf.bytes_mut());
///
/// let (name, numbers): (&str, &[f64]) = Reader::new(buf.bytes()).read()?; // nothing is copied
/// assert_eq!((name, numbers), ("name", &[1.5; 3][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// While something borrowed from a buffer lives, the buffer cannot be written:
///
/// ```compile_fail,E0502
/// # use egret_stream::Reader;
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let mut buf = pool.take(64).unwrap();
/// let text: &str = Reader::new(buf.bytes()).read().unwrap();
/// buf.bytes_mut()[0] = 1;
/// assert_eq!(text, "");
/// ```
///
/// nor posted:
///
/// ```compile_fail,E0505
/// # use egret_stream::Reader;
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let buf = pool.take(64).unwrap();
/// let text: &str = Reader::new(buf.bytes()).read().unwrap();
/// let posted = egret_net::vi::Descriptor::new(buf);
/// assert_eq!(text, "");
/// ```
///
/// nor freed:
///
/// ```compile_fail,E0505
/// # use egret_stream::Reader;
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let buf = pool.take(64).unwrap();
/// let text: &str = Reader::new(buf.bytes()).read().unwrap();
/// drop(buf);
/// assert_eq!(text, "");
/// ```
///
/// An owned value borrows nothing:
///
/// ```
/// # use egret_stream::Reader;
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let mut buf = pool.take(64).unwrap();
/// let text: String = Reader::new(buf.bytes()).read().unwrap();
/// buf.bytes_mut()[0] = 1;
/// drop(buf);
/// assert_eq!(text, "");
/// ```
pub struct Reader<'a> {
    /// What is left of the chunk.
    rest: ShortReader<'a>,
    /// How far down nested values may go.
    floor: Floor,
    /// How much memory they may take.
    budget: MemoryBudget,
    /// The connection that the stream came over.
    context: Option<&'a WireContext>,
    /// What most streams do without.
    rare: Option<Box<ReaderExtras<'a>>>,
}

#[derive(Default)]
struct ReaderExtras<'a> {
    /// The chunks that follow, and their bytes.
    more: &'a [&'a [u8]],
    more_bytes: usize,
    /// What gives the bytes, if they are not all here.
    pulled: Option<PulledBytes<'a>>,
    /// What a run is put together in when it lies in two chunks.
    joined: Vec<u8>,
    shared: Option<Box<ReadShares>>,
    /// How the contents of the shared value that comes next are read.
    contents: Option<ContentsPlan>,
    names: Option<Box<Names>>,
    why: Option<WireError>,
}

impl ReaderExtras<'_> {
    /// The bytes behind the chunk.
    fn left(&self) -> usize {
        self.more_bytes + self.pulled.as_ref().map_or(0, PulledBytes::held)
    }
}

impl<'a> Reader<'a> {
    /// Reads from one buffer.
    #[inline]
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: ShortReader::new(bytes),
            floor: Floor::new(),
            budget: MemoryBudget::new(),
            context: None,
            rare: None,
        }
    }

    /// Reads from chunks, one after the other. What is read in place must lie in
    /// one of them.
    #[must_use]
    pub fn chunks(chunks: &'a [&'a [u8]]) -> Self {
        let Some((first, more)) = chunks.split_first() else { return Self::new(&[]) };
        let mut reader = Self::new(first);
        if !more.is_empty() {
            let rare = reader.rare();
            rare.more_bytes = more.iter().map(|chunk| chunk.len()).sum();
            rare.more = more;
        }
        reader
    }

    /// Lets nested values take `bytes` of the stack, instead of
    /// [`STACK_BYTES`](crate::STACK_BYTES), as far as the thread has them: of what is left of its
    /// stack half stays free, up to 1 MiB.
    #[must_use]
    pub const fn with_stack(mut self, bytes: usize) -> Self {
        self.floor = Floor::below(bytes);
        self
    }

    /// Lets owned values take `bytes` of memory in all, instead of [`MEMORY_BYTES`] and
    /// [`MEMORY_FACTOR`] times the length of the stream: for types whose values may be far larger
    /// than their bytes, such as many `Option`s of something large, or for peers that are trusted
    /// less.
    ///
    /// What is read in place takes none, and copies of bytes as they lie in the stream, such as
    /// strings and arrays of numbers, are not counted.
    ///
    /// ```
    /// use egret_stream::{Reader, WireError};
    ///
    /// let none = [&[100, 0, 0, 0][..], &[0; 100]].concat(); // a hundred times nothing
    /// let read = |memory| Reader::new(&none).with_memory(memory).read::<Vec<Option<[u64; 15]>>>();
    /// assert_eq!(read(100 * 128)?.len(), 100);
    /// assert!(matches!(read(10_000), Err(WireError::Memory { needed: 12_800, .. })));
    /// # Ok::<(), WireError>(())
    /// ```
    #[must_use]
    pub const fn with_memory(mut self, bytes: usize) -> Self {
        self.budget = MemoryBudget::of(bytes);
        self
    }

    /// Tells types that ask which connection the stream came over. [`WireContext`] has an example.
    #[must_use]
    pub const fn with_context(mut self, context: &'a WireContext) -> Self {
        self.context = Some(context);
        self
    }

    /// The connection that the stream came over, if it is known.
    #[must_use]
    pub const fn context(&self) -> Option<&'a WireContext> {
        self.context
    }

    /// Knows the numbers of types that were announced on a connection.
    #[must_use]
    pub fn with_names(mut self, names: Names) -> Self {
        self.rare().names = Some(Box::new(names.of_connection()));
        self
    }

    /// The names given.
    pub fn take_names(&mut self) -> Option<Names> {
        let names = &mut self.rare().names;
        names.take_if(|names| names.is_of_connection()).map(|names| *names)
    }

    /// Reads the next value.
    ///
    /// # Errors
    ///
    /// See [`WireError`]. Nothing of the value is left, and the reader is of no use
    /// any more.
    #[inline]
    pub fn read<T: FromWire<'a>>(&mut self) -> Result<T, WireError> {
        if let Some(value) = T::read_short(&mut self.rest) {
            return Ok(value);
        }
        self.read_long()
    }

    #[inline(never)]
    fn read_long<T: FromWire<'a>>(&mut self) -> Result<T, WireError> {
        match T::read(self) {
            Ok(value) => {
                self.value_is_read();
                Ok(value)
            }
            Err(stop) => Err(self.stopped(stop)),
        }
    }

    #[inline(always)]
    fn value_is_read(&mut self) {
        self.floor.forget();
        if let Some(rare) = &mut self.rare {
            rare.shared = None;
        }
    }

    /// Reads the last value: nothing may follow it.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`WireError::Rest`].
    pub fn read_last<T: FromWire<'a>>(&mut self) -> Result<T, WireError> {
        let value = self.read()?;
        match self.is_at_end()? {
            true => Ok(value),
            false => Err(WireError::Rest(self.left())),
        }
    }

    /// How many bytes are left; those that have not arrived at a [pulling](Self::pulling) reader are
    /// not known.
    #[inline]
    #[must_use]
    pub fn left(&self) -> usize {
        self.rest.bytes.len() + self.rare.as_ref().map_or(0, |rare| rare.left())
    }

    /// Where in the stream the next value begins.
    #[inline]
    #[must_use]
    pub fn position(&self) -> usize {
        self.rest.end - self.rest.bytes.len()
    }

    #[cold]
    fn stopped(&mut self, _: Stop) -> WireError {
        if let Some(mut shared) = self.rare().shared.take() {
            shared.unravel();
        }
        self.rest.bytes = &[];
        self.floor.forget();
        let rare = self.rare();
        (rare.more, rare.more_bytes) = (&[], 0);
        rare.contents = None;
        if let Some(pulled) = &mut rare.pulled {
            pulled.end();
        }
        rare.why.take().unwrap_or_else(|| WireError::Custom("stopped".to_owned()))
    }
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("position", &self.position())
            .field("left", &self.left())
            .finish_non_exhaustive()
    }
}
