//! The writer: a list of bytes of its own and of memory that is left where it is.

mod parts;
mod room;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use egret_net::vi::{Descriptor, Segment};

use crate::context::WireContext;
use crate::depth::Floor;
use crate::dynamic::Names;
use crate::error::WireError;
use crate::fault;
use crate::share::WrittenShares;
use crate::wire::{Bulk, Stop, Wire, Written};
use room::SHORT_MAX;
pub use room::{ShortWriter, write};
pub(crate) use room::{padding, padding_to};

/// Writes values and yields a gather list: its own bytes, interleaved with slices
/// that stay where they are.
///
/// `'w` is how long what was written must stay: a `Writer<'static>` owns all that is
/// in it and can be [posted](Self::into_descriptor).
///
/// ```
/// use egret_stream::Writer;
///
/// let field = vec![1.0; 100_000];
/// let message = (7_u32, &field);
/// let mut writer = Writer::new();
/// writer.write(&message)?;
/// let gathered = writer.gather();
/// assert_eq!(gathered.len(), 2, "a head, and the field where it is");
/// assert_eq!(gathered[1].as_ptr(), field.as_ptr().cast());
/// # Ok::<(), egret_stream::WireError>(())
/// ```
///
/// What was written cannot be changed while it may be sent from where it is:
///
/// ```compile_fail,E0506
/// # use egret_stream::Writer;
/// let mut field = vec![1.0; 100_000];
/// let mut writer = Writer::new();
/// writer.write(&field).unwrap();
/// field = Vec::new();
/// writer.gather();
/// ```
///
/// nor freed:
///
/// ```compile_fail,E0505
/// # use egret_stream::Writer;
/// let field = vec![1.0; 100_000];
/// let mut writer = Writer::new();
/// writer.write(&field).unwrap();
/// drop(field);
/// writer.gather();
/// ```
///
/// nor can the writer be written or cleared while its list is in use:
///
/// ```compile_fail,E0502
/// # use egret_stream::Writer;
/// let mut writer = Writer::new();
/// writer.write(&1_u32).unwrap();
/// let gathered = writer.gather();
/// writer.clear();
/// assert_eq!(gathered.len(), 1);
/// ```
pub struct Writer<'w> {
    own: WriterBuffer,
    pieces: Vec<WriterPiece<'w>>,
    /// From how many bytes on a slice is left where it is.
    threshold: usize,
    /// Up to how many bytes a list is a short one: it is copied, and its length too.
    short_max: usize,
    sink: Option<ChunkSink<'w>>,
    /// The connection that the stream goes over.
    context: Option<&'w WireContext>,
}

/// What does not depend on how long the values stay, so that it can move to a
/// writer of shorter life and back.
struct WriterBuffer {
    /// Initialised memory, of which `at` bytes are written.
    buf: Vec<u8>,
    at: usize,
    /// Bytes before `buf` or left in place: where the stream is, less `at`.
    ahead: usize,
    /// How long the stream may be.
    limit: usize,
    /// How far down nested values may go.
    floor: Floor,
    /// What most values do without; there is one if there are pieces.
    rare: Option<Box<WriterExtras>>,
    /// How much is handed over at once; 0 where no receiver takes it.
    chunk: usize,
}

#[derive(Default)]
struct WriterExtras {
    /// Shared values met; made when the first is.
    shared: Option<Box<WrittenShares>>,
    names: Option<Box<Names>>,
    why: Option<WireError>,
    /// Why nothing more can be written.
    broken: Option<WireError>,
}

/// Memory left where it is.
struct WriterPiece<'w> {
    /// How many bytes of the writer's own stand before it.
    own_before: usize,
    memory: PieceMemory<'w>,
}

enum PieceMemory<'w> {
    Lent(&'w [u8]),
    Owned(Segment),
}

/// Shared with the writers of what is copied.
type ChunkSink<'w> = Rc<dyn Fn(&[&[u8]]) -> Result<(), String> + 'w>;

impl<'w> Writer<'w> {
    /// A writer that grows.
    #[must_use]
    pub fn new() -> Self {
        let own = WriterBuffer {
            buf: Vec::new(),
            at: 0,
            ahead: 0,
            limit: usize::MAX,
            floor: Floor::new(),
            rare: None,
            chunk: 0,
        };
        Self::of(own, IN_PLACE_BYTES)
    }

    fn of(own: WriterBuffer, threshold: usize) -> Self {
        let (pieces, sink, context) = (Vec::new(), None, None);
        let writer = Self { own, pieces, threshold: 0, short_max: 0, sink, context };
        writer.in_place_from(threshold)
    }

    /// A writer that hands what it has to `sink`, whenever it has about
    /// `chunk_bytes`, also in the midst of a value. [`finish`](Self::finish) hands over
    /// the rest. Whatever the value, the writer has no more memory of its own than a chunk; what is
    /// left in place is handed over from where it is.
    ///
    /// If a value cannot be written and a part of it was handed over, the stream is broken: nothing
    /// more can be written, and `finish` fails. What took the chunks must tell its reader, so that
    /// a [pulling](crate::Reader::pulling) reader does not take the part for the whole.
    ///
    /// ```
    /// use egret_stream::{Reader, Writer};
    ///
    /// let names: Vec<String> = (0..1000).map(|number| format!("name {number}")).collect();
    /// let mut sent = Vec::new();
    /// let mut writer = Writer::flushing(256, |chunk| {
    ///     assert!(chunk.iter().map(|piece| piece.len()).sum::<usize>() <= 256);
    ///     chunk.iter().for_each(|piece| sent.extend_from_slice(piece));
    ///     Ok(())
    /// });
    /// writer.write(&names)?;
    /// assert_eq!(writer.finish()?, sent.len());
    /// assert_eq!(Reader::new(&sent).read::<Vec<String>>()?, names);
    /// # Ok::<(), egret_stream::WireError>(())
    /// ```
    #[must_use]
    pub fn flushing(
        chunk_bytes: usize,
        sink: impl FnMut(&[&[u8]]) -> Result<(), String> + 'w,
    ) -> Self {
        let mut writer = Self::new();
        writer.own.chunk = chunk_bytes.max(CHUNK_BYTES_MIN);
        writer.own.buf = vec![0; writer.own.chunk];
        let sink = RefCell::new(sink);
        writer.sink = Some(Rc::new(move |list: &[&[u8]]| sink.borrow_mut()(list)));
        writer
    }

    /// Goes on with a stream that has so many bytes already, for which another writer was used: one reader reads what
    /// both have written. They count in [`len`](Self::len).
    ///
    /// ```
    /// use egret_stream::{Reader, Writer};
    ///
    /// let mut first = Writer::new();
    /// first.write(&1_u8)?;
    /// let mut second = Writer::new().behind(first.len());
    /// second.write(&[2.5, 3.5][..])?;
    /// assert_eq!(second.len(), 24, "a byte, four of the length, three up to a whole 8, the numbers");
    /// let stream = [first.to_vec(), second.to_vec()].concat();
    /// let mut reader = Reader::new(&stream);
    /// assert_eq!((reader.read::<u8>()?, reader.read::<Vec<f64>>()?), (1, vec![2.5, 3.5]));
    /// # Ok::<(), egret_stream::WireError>(())
    /// ```
    #[must_use]
    pub const fn behind(mut self, bytes: usize) -> Self {
        self.own.ahead += bytes;
        self
    }

    /// Leaves slices of at least `bytes` where they are, instead of
    /// [`IN_PLACE_BYTES`].
    #[must_use]
    pub fn in_place_from(mut self, bytes: usize) -> Self {
        self.threshold = bytes.max(1);
        self.short_max = (self.threshold - 1).min(SHORT_MAX);
        self
    }

    /// Lets nested values take `bytes` of the stack, instead of
    /// [`STACK_BYTES`](crate::STACK_BYTES), as far as the thread has them: of what is left of its
    /// stack half stays free, up to 1 MiB.
    #[must_use]
    pub fn with_stack(mut self, bytes: usize) -> Self {
        self.own.floor = Floor::below(bytes);
        self
    }

    /// Tells types that ask which connection the stream goes over. [`WireContext`] has an example.
    #[must_use]
    pub const fn with_context(mut self, context: &'w WireContext) -> Self {
        self.context = Some(context);
        self
    }

    /// The connection that the stream goes over, if it is known.
    #[must_use]
    pub const fn context(&self) -> Option<&'w WireContext> {
        self.context
    }

    /// Takes the numbers of types from `names`, which belong to a connection.
    #[must_use]
    pub fn with_names(mut self, names: Names) -> Self {
        self.own.rare().names = Some(Box::new(names.of_connection()));
        self
    }

    /// The names given, with those that were added.
    pub fn take_names(&mut self) -> Option<Names> {
        let names = &mut self.own.rare().names;
        names.take_if(|names| names.is_of_connection()).map(|names| *names)
    }

    /// Writes a value, which stays borrowed for as long as the writer is used.
    ///
    /// # Errors
    ///
    /// See [`WireError`]; nothing of the value is then in the stream.
    #[inline]
    pub fn write<T: Wire + ?Sized>(&mut self, value: &'w T) -> Result<(), WireError> {
        if self.short(|room| value.write_short(room)) {
            return Ok(());
        }
        self.write_long(value)
    }

    #[inline(never)]
    fn write_long<T: Wire + ?Sized>(&mut self, value: &'w T) -> Result<(), WireError> {
        let mark = self.mark();
        match value.write(self) {
            Ok(()) => self.written(),
            Err(stop) => Err(self.undo(&mark, stop)),
        }
    }

    /// Writes a value from a copy: nothing stays borrowed.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_copy<T: Wire + ?Sized>(&mut self, value: &T) -> Result<(), WireError> {
        let mark = self.mark();
        match self.copied(|w| value.write(w)) {
            Ok(()) => self.written(),
            Err(stop) => Err(self.undo(&mark, stop)),
        }
    }

    /// Forgets everything written, and keeps the memory for what comes. What was handed over to a
    /// sink is part of the stream for ever.
    #[inline]
    pub fn clear(&mut self) {
        if self.own.rare.is_some() {
            self.clear_rare();
        }
        self.own.at = 0;
        self.own.ahead = 0;
    }

    #[inline(never)]
    fn clear_rare(&mut self) {
        self.pieces.clear();
        self.own.forget_value();
        if let Some(names) = self.own.names() {
            names.clear_inline();
        }
    }

    /// How long the stream is, with what was handed over.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.own.ahead + self.own.at
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stream, or what of it was not handed over yet: the writer's own bytes
    /// and the slices left in place, in order.
    #[must_use]
    pub fn gather(&self) -> Vec<&[u8]> {
        let mut list = Vec::with_capacity(2 * self.pieces.len() + 1);
        self.for_each(|bytes| list.push(bytes));
        list
    }

    /// The stream as one vector, copied.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.for_each(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    /// Copies the stream to the front of `to`.
    ///
    /// # Panics
    ///
    /// If it is longer.
    pub fn copy_to(&self, to: &mut [u8]) {
        let mut at = 0;
        self.for_each(|bytes| {
            to[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        });
    }

    /// Hands over what is left to the sink given to [`flushing`](Self::flushing).
    ///
    /// # Errors
    ///
    /// [`WireError::Refused`] if the sink refuses.
    pub fn flush(&mut self) -> Result<(), WireError> {
        let done = self.hand_over();
        done.map_err(|stop| self.why(stop))
    }

    /// Hands over what is left, and returns how many bytes the stream has.
    ///
    /// # Errors
    ///
    /// [`WireError::Refused`] if the sink refuses, or why the stream was broken before.
    pub fn finish(mut self) -> Result<usize, WireError> {
        self.flush()?;
        Ok(self.len())
    }

    /// Ends the stream without what was not handed over, and returns how many bytes were: if there
    /// are any, their reader must be told that no more come.
    ///
    /// ```
    /// let mut writer = egret_stream::Writer::flushing(64, |_| Ok(()));
    /// writer.write(&[1_u8; 10])?;
    /// assert_eq!(writer.abort(), 0, "all of it was still here");
    /// # Ok::<(), egret_stream::WireError>(())
    /// ```
    #[must_use = "a reader may wait for the rest"]
    pub fn abort(self) -> usize {
        self.own.ahead
    }

    fn for_each<'s>(&'s self, mut each: impl FnMut(&'s [u8])) {
        let mut from = 0;
        for piece in &self.pieces {
            if piece.own_before > from {
                each(&self.own.buf[from..piece.own_before]);
            }
            from = piece.own_before;
            each(piece.bytes());
        }
        if self.own.at > from {
            each(&self.own.buf[from..self.own.at]);
        }
    }

    #[inline]
    fn written(&mut self) -> Result<(), WireError> {
        self.own.floor.forget();
        if self.own.rare.is_some() {
            self.written_rare();
        }
        Ok(())
    }

    #[inline(never)]
    fn written_rare(&mut self) {
        if let Some(names) = self.own.names() {
            names.settle();
        }
        self.own.forget_value();
    }

    #[inline]
    fn mark(&self) -> Mark {
        Mark { at: self.own.at, ahead: self.own.ahead, pieces: self.pieces.len() }
    }

    #[cold]
    fn undo(&mut self, mark: &Mark, stop: Stop) -> WireError {
        let is_handed_over = self.own.chunk > 0 && self.own.ahead != mark.ahead;
        if !fault::stays(is_handed_over) {
            self.own.at = mark.at;
            self.own.ahead = mark.ahead;
            self.pieces.truncate(mark.pieces);
        }
        if let Some(names) = self.own.names() {
            names.undo();
        }
        self.own.forget_value();
        let why = self.why(stop);
        if is_handed_over {
            self.own.break_off(&why);
        }
        why
    }

    fn why(&mut self, _: Stop) -> WireError {
        self.own.rare().why.take().unwrap_or_else(|| WireError::Custom("stopped".to_owned()))
    }
}

/// Where a value began.
struct Mark {
    at: usize,
    ahead: usize,
    pieces: usize,
}

impl Writer<'static> {
    /// Writes a value whose large arrays move into the writer: nothing is copied,
    /// nothing stays borrowed.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write); the value is gone.
    pub fn write_owned<T: Wire>(&mut self, mut value: T) -> Result<(), WireError> {
        let mark = self.mark();
        match value.give(self) {
            Ok(()) => self.written(),
            Err(stop) => Err(self.undo(&mark, stop)),
        }
    }

    /// What was written, ready to be posted: a segment for each piece of the list.
    #[must_use]
    pub fn into_descriptor(self) -> Descriptor {
        let Self { mut own, pieces, .. } = self;
        own.buf.truncate(own.at);
        let mut descriptor = Descriptor::empty();
        let mut from = 0;
        for piece in pieces {
            if piece.own_before > from {
                descriptor = descriptor.and(own.buf[from..piece.own_before].to_vec());
            }
            from = piece.own_before;
            descriptor = match piece.memory {
                PieceMemory::Owned(segment) => descriptor.and(segment),
                PieceMemory::Lent(bytes) => descriptor.and(bytes.to_vec()),
            };
        }
        if own.at > from {
            descriptor = descriptor.and(if from == 0 { own.buf } else { own.buf.split_off(from) });
        }
        descriptor
    }

    /// Whether so many bytes are left in the memory of who owns them.
    pub(crate) fn keeps(&self, bytes: usize) -> bool {
        bytes >= self.threshold
    }

    /// Writes `len` elements that `segment` owns, and keeps it.
    pub(crate) fn keep<T: Bulk>(&mut self, len: usize, segment: Segment) -> Written {
        self.pad_for::<T>(len)?;
        self.leave(PieceMemory::Owned(segment))
    }
}

impl WriterPiece<'_> {
    fn bytes(&self) -> &[u8] {
        match &self.memory {
            PieceMemory::Lent(bytes) => bytes,
            PieceMemory::Owned(segment) => segment.bytes(),
        }
    }
}

impl Default for Writer<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("len", &self.len())
            .field("in_place", &self.pieces.len())
            .finish_non_exhaustive()
    }
}

/// Slices of so many bytes and more are left where they are.
///
/// Measured (`cargo run --release -- threshold` in `benches/peers`, medians in ns of
/// writing `(u32, Vec<u8>, u32)`, and with the copy that a fabric makes of the list):
///
/// | bytes | copied | left | copied, and out | left, and out |
/// |---|---|---|---|---|
/// | 1,024 | 22 | 36 | 39 | 73 |
/// | 2,048 | 31 | 36 | 59 | 83 |
/// | 3,072 | 74 | 36 | 105 | 92 |
/// | 4,096 | 66 | 36 | 121 | 116 |
/// | 8,192 | 130 | 36 | 198 | 144 |
/// | 16,384 | 193 | 36 | 474 | 245 |
///
/// So it is even between 2 and 4 KiB; further down a piece more costs a fabric as well.
pub const IN_PLACE_BYTES: usize = 4096;
/// In a length, says that the length follows in eight bytes.
pub(crate) const LONG: u32 = u32::MAX;
const GROW_BYTES_MIN: usize = 256;
const CHUNK_BYTES_MIN: usize = 64;
