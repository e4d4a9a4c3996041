//! Why something could not be written or read.

use std::fmt;

use thiserror::Error;

/// Why a value could not be written, or could not be read. Nothing of a value that was not written is in
/// the stream; no part of a value that was not read is handed out.
///
/// ```
/// use egret_stream::{WireError, read, write};
///
/// let mut memory = [0; 2];
/// assert_eq!(write(&7_u32, &mut memory), Err(WireError::Full { needed: 4, left: 2 }));
/// assert_eq!(read::<u32>(&memory), Err(WireError::End { needed: 4, left: 2 }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The buffer has no room for the value.
    #[error("full: {needed} more bytes are needed and {left} are left")]
    Full {
        /// How many bytes did not fit any more, at least.
        needed: usize,
        /// How many were left.
        left: usize,
    },
    /// The value is nested deeper than the bound of the writer or reader.
    #[error("too deep: the value is nested deeper than the bound allows, at {0}")]
    TooDeep(&'static str),
    /// A value holds itself by strong references, and its type cannot be filled in
    /// later.
    #[error(
        "a cycle of strong references through {0}: use `Weak` on the way back, or \
         `Rc<RefCell<T>>` with `T: Default`"
    )]
    StrongCycle(&'static str),
    /// One shared value is reached as two types.
    #[error("a shared value is reached as {first} and as {second}: a reader could not share it")]
    TwoViews {
        /// The first.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A cell is borrowed for writing, or a lock is taken.
    #[error("{0} is in use elsewhere: it is borrowed for writing, or locked")]
    InUse(&'static str),
    /// The length of a sequence is not known before its end.
    #[error("a sequence whose length is not known before its end")]
    NoLength,
    /// The function that takes the chunks refused.
    #[error("the taker of chunks refused: {0}")]
    Refused(String),
    /// The source of a pulling reader broke off.
    #[error("the stream breaks off: {0}")]
    Aborted(String),
    /// The stream ends within the value.
    #[error("the stream ends: {needed} bytes are needed and {left} are left")]
    End {
        /// How many bytes were needed, at least.
        needed: usize,
        /// How many were left.
        left: usize,
    },
    /// The stream goes on behind the last value.
    #[error("{0} bytes are left behind the last value")]
    Rest(usize),
    /// The bytes are no value of the type.
    #[error("the bytes are not a valid {0}")]
    Invalid(Cause),
    /// A string is not UTF-8.
    #[error("a string that is not UTF-8")]
    NotUtf8,
    /// A key or an element is there twice.
    #[error("a map or set has the same key twice")]
    Duplicate,
    /// The value takes more memory than the reader may take for its stream.
    #[error(
        "too large in memory: {name} needs {needed} bytes, and {left} are left of the {budget} \
         that the reader may take; `Reader::with_memory` sets how many"
    )]
    Memory {
        /// The type that memory was asked for.
        name: &'static str,
        /// How many bytes of memory.
        needed: usize,
        /// How many were left.
        left: usize,
        /// How many there were in the beginning: what
        /// [`with_memory`](crate::Reader::with_memory) says, or
        /// [`MEMORY_BYTES`](crate::MEMORY_BYTES) and [`MEMORY_FACTOR`](crate::MEMORY_FACTOR) times
        /// the length of the stream.
        budget: usize,
    },
    /// What is to be read in place lies in two chunks.
    #[error("{0} lies in two chunks and cannot be read in place: read it as owned")]
    Split(&'static str),
    /// What is to be read in place is not aligned.
    #[error("{0} is not aligned in this buffer and cannot be read in place: read it as owned")]
    Misaligned(&'static str),
    /// A reference to a shared value that was not in the stream.
    #[error("a reference to shared value {0}, which is not there")]
    NoSuchShared(u32),
    /// A shared value is of another type.
    #[error("shared value {id} is no {wanted}")]
    SharedAsOther {
        /// Which.
        id: u32,
        /// The type that was asked for.
        wanted: &'static str,
    },
    /// A number of a type that was not announced.
    #[error("type number {0} was not announced")]
    NoSuchType(u32),
    /// A type that this program does not know.
    #[error("type `{0}` is not registered here")]
    UnknownType(String),
    /// A type that is known, but not as this trait.
    #[error("type `{name}` is not registered as `{wanted}`")]
    NotA {
        /// The type in the stream.
        name: String,
        /// The trait that was asked for.
        wanted: &'static str,
    },
    /// A type whose structure is another one here.
    #[error("type `{name}` differs: {difference}")]
    Differs {
        /// The type.
        name: String,
        /// The first difference in words, if the sender's structure was announced; else
        /// the fingerprints.
        difference: String,
    },
    /// A field cannot be read as what it is at the writer.
    #[error("{field}: here it is {here}, there {there}")]
    Incompatible {
        /// Where it is: `Order.prices[]`.
        field: String,
        /// Its type here, or that there is nothing.
        here: String,
        /// Its type at the writer.
        there: String,
    },
    /// A value is of a variant that the writer has and this program does not.
    #[error("variant `{variant}` of `{name}` is known to the writer and not here")]
    UnknownVariant {
        /// The enum.
        name: String,
        /// The variant.
        variant: String,
    },
    /// The user's check of the value failed.
    #[error("the check of {name} failed: {why}")]
    Check {
        /// The type.
        name: &'static str,
        /// What the check said.
        why: String,
    },
    /// The code of a type refused.
    #[error("{0}")]
    Custom(String),
}

/// What the bytes are not, in [`WireError::Invalid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause(&'static str);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Bytes that are no value of a type; it becomes a [`WireError::Invalid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invalid(&'static str);

impl Invalid {
    /// The bytes are no `what`.
    #[must_use]
    pub const fn new(what: &'static str) -> Self {
        Self(what)
    }
}

impl From<Invalid> for WireError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(Cause(invalid.0))
    }
}
