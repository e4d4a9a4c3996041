//! Bytes that arrive while they are read.
//!
//! A pulling reader has a window of the stream: what its source has given and no value has taken
//! yet. The window is as long as the longest run of a value, at most [`WINDOW_BYTES`] where values
//! are short; arrays pass it by, from the source to the memory of the value. No length is believed:
//! memory is taken for as many elements as there were already, and for [`BATCH_BYTES`] at first.
//!
//! ```text
//!   source ──▶ window ──▶ numbers, text, short arrays
//!      └─────────────────▶ arrays of DIRECT_BYTES and more
//! ```

use bytemuck::cast_slice_mut;

use super::Reader;
use crate::error::WireError;
use crate::fault::{Fault, planted};
use crate::wire::{Bulk, Stop};

/// Where the bytes come from, and those that wait to be read.
pub(super) struct PulledBytes<'a> {
    source: ByteSource<'a>,
    /// Initialised memory, of which `at..end` waits.
    window: Vec<u8>,
    at: usize,
    end: usize,
    is_over: bool,
}

/// Fills the front of what it is given, and says how much of it; none at the end.
type ByteSource<'a> = Box<dyn FnMut(&mut [u8]) -> Result<usize, String> + 'a>;

impl<'a> PulledBytes<'a> {
    /// How many bytes wait.
    pub(super) const fn held(&self) -> usize {
        self.end - self.at
    }

    /// The bytes that wait, without their end if that did not arrive.
    fn take(&mut self, bytes: usize) -> &[u8] {
        let run = &self.window[self.at..][..bytes];
        self.at += bytes;
        run
    }

    /// Nothing more comes.
    pub(super) const fn end(&mut self) {
        self.at = self.end;
        self.is_over = true;
    }

    /// Pulls until `wanted` bytes wait or the stream is over.
    fn fill_window(&mut self, wanted: usize) -> Result<(), String> {
        while self.held() < wanted && !self.is_over {
            self.make_room(wanted);
            let is_first = self.held() == 0;
            let count = pull(&mut self.source, &mut self.window[self.end..])?;
            self.is_over = count == 0;
            self.end += count;
            if planted(Fault::LostAtSplit) && !is_first && count > 1 {
                self.window.copy_within(self.end - count + 1..self.end, self.end - count);
                self.end -= 1;
            }
        }
        Ok(())
    }

    /// Room behind what waits; for no more than twice as much, whatever is wanted.
    fn make_room(&mut self, wanted: usize) {
        let is_full = self.end == self.window.len();
        self.window.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.held());
        let double = (2 * self.window.len()).max(WINDOW_BYTES_MIN);
        if self.end == self.window.len() && self.end < wanted {
            let len = if planted(Fault::TrustedLength) { wanted } else { double };
            self.window.resize(len, 0);
        } else if is_full && double <= WINDOW_BYTES {
            self.window.resize(double, 0);
        }
    }

    /// Fills the front of `to`, past the window if it is long; says how much, none at the end.
    fn fill(&mut self, to: &mut [u8]) -> Result<usize, String> {
        if self.held() == 0 && to.len() >= DIRECT_BYTES && !self.is_over {
            let count = pull(&mut self.source, to)?;
            self.is_over = count == 0;
            return Ok(count);
        }
        self.fill_window(1)?;
        let count = self.held().min(to.len());
        to[..count].copy_from_slice(self.take(count));
        Ok(count)
    }
}

fn pull(source: &mut ByteSource<'_>, to: &mut [u8]) -> Result<usize, String> {
    let count = source(to)?;
    assert!(count <= to.len(), "a source filled {count} bytes of {}", to.len());
    let is_whole = planted(Fault::FilledUp) && count > 0;
    Ok(if is_whole { to.len() } else { count })
}

impl<'a> Reader<'a> {
    /// Reads what `source` gives, while it gives it: a value is built while the rest of it is still
    /// on its way, and takes no more memory than itself and some 64 KiB.
    ///
    /// `source` fills the front of the memory it is given, waits for one byte at least, and says
    /// how many it filled; 0 is the end of the stream. Its error is why the stream breaks off, and
    /// becomes [`WireError::Aborted`].
    ///
    /// Nothing can be read in place ([`WireError::Split`]): what arrived is gone when the next bytes
    /// come. Arrays are put where they belong, of an owned value or [of the
    /// caller](Self::read_into). The reader may take [`MEMORY_FACTOR`](crate::MEMORY_FACTOR)
    /// times what has arrived, not what will arrive.
    ///
    /// ```
    /// use egret_stream::{Reader, WireError, Writer};
    ///
    /// let mut writer = Writer::new();
    /// writer.write_copy(&("tea", vec![1.5; 3]))?;
    /// let message = writer.to_vec();
    ///
    /// let mut rest = &message[..];
    /// let mut source = |to: &mut [u8]| std::io::Read::read(&mut rest, to).map_err(|e| e.to_string());
    /// let back: (String, Vec<f64>) = Reader::pulling(&mut source).read_last()?;
    /// assert_eq!(back, ("tea".to_owned(), vec![1.5; 3]));
    ///
    /// let mut source = |_: &mut [u8]| Err("the writer has died".to_owned());
    /// let broken = Reader::pulling(&mut source).read::<u32>();
    /// assert_eq!(broken, Err(WireError::Aborted("the writer has died".to_owned())));
    /// # Ok::<(), WireError>(())
    /// ```
    #[must_use]
    pub fn pulling(source: impl FnMut(&mut [u8]) -> Result<usize, String> + 'a) -> Self {
        let mut reader = Self::new(&[]);
        let (source, window) = (Box::new(source), Vec::new());
        reader.rare().pulled = Some(PulledBytes { source, window, at: 0, end: 0, is_over: false });
        reader
    }

    /// Reads a list of elements that travel as the bytes they are into the front of `to`, and
    /// returns how many there are.
    ///
    /// ```
    /// use egret_stream::{Reader, write};
    ///
    /// let mut message = [0; 64];
    /// let len = write(&[1.5, 2.5][..], &mut message)?;
    /// let mut field = [0.0; 100];
    /// assert_eq!(Reader::new(&message[..len]).read_into(&mut field)?, 2);
    /// assert_eq!(field[..3], [1.5, 2.5, 0.0]);
    /// # Ok::<(), egret_stream::WireError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As of [`read`](Self::read), and [`WireError::Full`] if there are more than `to` has room for.
    pub fn read_into<T: Bulk>(&mut self, to: &mut [T]) -> Result<usize, WireError> {
        let done = self.list_into(to);
        done.map_err(|stop| self.stopped(stop))
    }

    /// For types that read themselves: as [`read_into`](Self::read_into).
    ///
    /// # Errors
    ///
    /// The reader knows why.
    pub fn list_into<T: Bulk>(&mut self, to: &mut [T]) -> Result<usize, Stop> {
        let len = self.length(size_of::<T>())?;
        let Some(to) = to.get_mut(..len) else {
            let (needed, left) = (len.saturating_mul(size_of::<T>()), size_of_val(to));
            return Err(self.fail(WireError::Full { needed, left }));
        };
        self.skip_padding::<T>(len)?;
        self.fill(cast_slice_mut(to))?;
        Ok(len)
    }

    /// Begins a list whose elements the caller takes from elsewhere, or reads by [`rest_of_list`](Self::rest_of_list): how many
    /// there are.
    ///
    /// ```
    /// use egret_stream::{Reader, write};
    ///
    /// let mut message = [0; 64];
    /// let len = write(&[1.5, 2.5][..], &mut message)?;
    /// let mut rest = &message[..len];
    /// let mut reader = Reader::pulling(|to: &mut [u8]| std::io::Read::read(&mut rest, to).map_err(|e| e.to_string()));
    /// assert_eq!(reader.begin_list::<f64>()?, 2);
    /// assert_eq!(reader.rest_of_list::<f64>(2)?, [1.5, 2.5]);
    /// assert!(reader.is_over()?);
    /// # Ok::<(), egret_stream::WireError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As of [`read`](Self::read).
    pub fn begin_list<T: Bulk>(&mut self) -> Result<usize, WireError> {
        let len = self.length(size_of::<T>()).map_err(|stop| self.stopped(stop))?;
        self.skip_padding::<T>(len).map_err(|stop| self.stopped(stop))?;
        Ok(len)
    }

    /// The elements of a list that has [begun](Self::begin_list); of a [pulling](Self::pulling) reader. The memory for them grows as they
    /// arrive.
    ///
    /// # Errors
    ///
    /// As of [`read`](Self::read).
    pub fn rest_of_list<T: Bulk>(&mut self, len: usize) -> Result<Vec<T>, WireError> {
        self.bulk_pulled(len).map_err(|stop| self.stopped(stop))
    }

    /// The caller has taken so many bytes from the source of a [pulling](Self::pulling) reader past it. There must have been none
    /// [left](Self::left) in the reader.
    ///
    /// ```
    /// let mut reader = egret_stream::Reader::pulling(|_: &mut [u8]| Ok(0));
    /// assert_eq!((reader.left(), reader.position()), (0, 0));
    /// reader.passed(100);
    /// assert_eq!(reader.position(), 100);
    /// ```
    pub fn passed(&mut self, bytes: usize) {
        debug_assert_eq!(self.left(), 0, "bytes that were not read");
        self.rest.end += bytes;
    }

    /// Reads what is left of the stream of a [pulling](Self::pulling) reader, as the bytes they are, to the end of `to`. `to` grows as
    /// they arrive.
    ///
    /// # Errors
    ///
    /// [`WireError::Aborted`].
    pub fn read_to_end(&mut self, to: &mut Vec<u8>) -> Result<(), WireError> {
        while !self.is_at_end()? {
            let held = self.left();
            let run = self.run_pulled(held).map(<[u8]>::to_vec);
            to.extend(run.map_err(|stop| self.stopped(stop))?);
        }
        Ok(())
    }

    /// Whether the stream is over: a [pulling](Self::pulling) reader waits until it knows.
    ///
    /// # Errors
    ///
    /// [`WireError::Aborted`].
    pub fn is_over(&mut self) -> Result<bool, WireError> {
        self.is_at_end()
    }

    #[cfg(test)]
    pub(crate) fn window_capacity(&self) -> usize {
        let pulled = self.rare.as_ref().and_then(|rare| rare.pulled.as_ref());
        pulled.map_or(0, |pulled| pulled.window.capacity())
    }

    /// Whether more may come than is known of.
    #[inline]
    pub(super) fn is_pulling(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.pulled.is_some())
    }

    /// Whether it is known that fewer than `bytes` come.
    pub(super) fn is_short_of(&self, bytes: usize) -> bool {
        let pulled = self.rare.as_ref().and_then(|rare| rare.pulled.as_ref());
        pulled.is_none_or(|pulled| pulled.is_over) && bytes > self.left()
    }

    /// The next `bytes`, waited for; of a pulling reader.
    pub(super) fn run_pulled(&mut self, bytes: usize) -> Result<&[u8], Stop> {
        let pulled = self.rare.as_mut().and_then(|rare| rare.pulled.as_mut());
        if pulled.is_none_or(|pulled| pulled.held() < bytes) {
            self.wait_for(bytes)?;
        }
        self.rest.end += bytes;
        Ok(self.rare().pulled.as_mut().map_or(&[], |pulled| pulled.take(bytes)))
    }

    /// Pulls until `bytes` wait.
    #[cold]
    fn wait_for(&mut self, bytes: usize) -> Result<(), Stop> {
        let Some(pulled) = &mut self.rare().pulled else { return Ok(()) };
        match pulled.fill_window(bytes) {
            Ok(()) if pulled.held() >= bytes => Ok(()),
            Ok(()) => {
                let left = pulled.held();
                Err(self.fail(WireError::End { needed: bytes, left }))
            }
            Err(why) => Err(self.fail(WireError::Aborted(why))),
        }
    }

    /// Whether the stream is over: a pulling reader waits until it knows.
    pub(super) fn is_at_end(&mut self) -> Result<bool, WireError> {
        if let Some(pulled) = self.rare.as_mut().and_then(|rare| rare.pulled.as_mut()) {
            pulled.fill_window(1).map_err(WireError::Aborted)?;
        }
        Ok(self.left() == 0)
    }

    /// Fills `to` with the next bytes of the source.
    pub(super) fn fill_pulled(&mut self, mut to: &mut [u8]) -> Result<(), Stop> {
        while !to.is_empty() {
            let Some(pulled) = &mut self.rare().pulled else { break };
            let count = match pulled.fill(to) {
                Ok(0) => {
                    return Err(self.fail(WireError::End { needed: to.len(), left: 0 }));
                }
                Ok(count) => count,
                Err(why) => return Err(self.fail(WireError::Aborted(why))),
            };
            self.rest.end += count;
            to = &mut to[count..];
        }
        Ok(())
    }

    /// `len` elements out of the source, in memory that grows as they arrive.
    pub(super) fn bulk_pulled<T: Bulk>(&mut self, len: usize) -> Result<Vec<T>, Stop> {
        let mut elements = Vec::new();
        while elements.len() < len {
            let done = elements.len();
            let room = self.batch::<T>(done, len);
            elements.reserve_exact(room);
            // In parts that stay in the cache between their zeros and their bytes.
            for _ in 0..room.div_ceil(part_len::<T>()) {
                let (begin, part) =
                    (elements.len(), part_len::<T>().min(done + room - elements.len()));
                elements.resize(begin + part, T::zeroed());
                self.fill_pulled(cast_slice_mut(&mut elements[begin..]))?;
            }
        }
        Ok(elements)
    }

    /// For how many elements more to make room, of `len` of which `done` are there: all of them if
    /// their bytes are there too, else no more than there were already.
    #[inline]
    pub(crate) fn batch<T>(&self, done: usize, len: usize) -> usize {
        let left = len - done;
        if !self.is_pulling() || planted(Fault::TrustedLength) {
            return left;
        }
        left.min(done.max(BATCH_BYTES / size_of::<T>().max(1)).max(1))
    }
}

/// How many elements are copied at a time.
const fn part_len<T>() -> usize {
    let len = WINDOW_BYTES / size_of::<T>();
    if len == 0 { 1 } else { len }
}

/// What waits of a pulled stream, at most, unless a value has a longer run.
pub(super) const WINDOW_BYTES: usize = 64 << 10;
/// The window at first: most streams are short.
const WINDOW_BYTES_MIN: usize = 4 << 10;
/// What is shorter goes through the window, many at a time.
const DIRECT_BYTES: usize = 4 << 10;
/// The memory for the first elements of a sequence whose bytes have not arrived.
const BATCH_BYTES: usize = 64 << 10;
