//! Arrays that are kept where they arrived.

use std::marker::PhantomData;

use egret_net::buf::{Buf, Held};

use crate::describe::Describe;
use crate::error::WireError;
use crate::reader::Reader;
use crate::wire::{Bulk, FromWire, Stop, Wire, WireSize, Written};
use crate::writer::Writer;

/// Where an array lies in a stream: read instead of the array, it borrows nothing,
/// and [`KeptBuffer`] turns it into a [`Held`].
///
/// ```
/// use egret_net::buf::Pool;
/// use egret_stream::{KeptBuffer, Page, Reader, Span};
///
/// let pool = Pool::new(4096, 4)?;
/// let mut page = Page::new(pool.take(4096)?);
/// page.write(&("field", vec![0.5; 100], vec![7_u32; 3]))?;
/// let buf = page.finish();
///
/// let (name, field, marks): (String, Span<f64>, Span<u32>) = Reader::new(buf.bytes()).read()?;
/// let mut kept = KeptBuffer::new(buf);
/// let field = kept.hold(field)?; // a Held<f64>, in the buffer it came in
/// let marks = kept.hold(marks)?;
/// assert_eq!((&name[..], field.len(), marks[2]), ("field", 100, 7));
/// assert!(field.is_resident());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<T> {
    start: usize,
    len: usize,
    element: PhantomData<T>,
}

impl<T> Span<T> {
    /// How many elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: Bulk> Wire for Span<T> {
    const SIZE: WireSize = WireSize::at_least(4);
    fn describe(d: &mut Describe) {
        <[T]>::describe(d);
    }
    /// A place in another stream cannot be written.
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        let why = "a span says where an array was, not what is in it";
        Err(w.fail(WireError::Custom(why.to_owned())))
    }
}

impl<'a, T: Bulk> FromWire<'a> for Span<T> {
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        let len = r.length(size_of::<T>())?;
        r.in_place::<T>(len)?;
        let start = r.position() - len * size_of::<T>();
        Ok(Self { start, len, element: PhantomData })
    }
}

/// A buffer that was read from, and whose arrays are kept.
/// [`Span`] has an example.
#[derive(Debug)]
pub struct KeptBuffer {
    /// What was not kept yet, with where it starts.
    rest: Option<(usize, Buf)>,
}

impl KeptBuffer {
    /// `buf` is all of a stream, from its beginning.
    #[must_use]
    pub const fn new(buf: Buf) -> Self {
        Self { rest: Some((0, buf)) }
    }

    /// Keeps an array. Spans are held in the order in which they lie.
    ///
    /// # Errors
    ///
    /// If it is not in what is left of the buffer.
    pub fn hold<T: Bulk>(&mut self, span: Span<T>) -> Result<Held<T>, WireError> {
        let outside = || WireError::Custom("the span is not in what is left".to_owned());
        let bytes = span.len * size_of::<T>();
        let (start, buf) = self.rest.take().ok_or_else(outside)?;
        let before = span.start.checked_sub(start);
        let Some(before) = before.filter(|before| before.saturating_add(bytes) <= buf.len()) else {
            self.rest = Some((start, buf));
            return Err(outside());
        };
        let (_, buf) = buf.split_at(before);
        let (array, rest) = buf.split_at(bytes);
        self.rest = Some((span.start + bytes, rest));
        match array.typed::<T>() {
            Ok(typed) => Ok(typed.hold()),
            Err(_) => Err(WireError::Misaligned(std::any::type_name::<[T]>())),
        }
    }
}
