//! What a hand-over becomes at its receiver.

use std::ops::{Deref, DerefMut};

use crate::buf::Buf;

/// Bytes that were [handed over](super::Vi::hand_over): the very buffer, between
/// processes that cooperate, or a copy of it.
///
/// A buffer of another process goes home when it is dropped, or when it is
/// handed back.
#[derive(Debug)]
pub enum Handed {
    /// The buffer, in which no byte was moved.
    Buffer(Buf),
    /// What was in it.
    Copy(Vec<u8>),
}

impl Handed {
    /// The buffer.
    ///
    /// # Errors
    ///
    /// The bytes, if they are a copy.
    pub fn into_buf(self) -> Result<Buf, Vec<u8>> {
        match self {
            Self::Buffer(buf) => Ok(buf),
            Self::Copy(bytes) => Err(bytes),
        }
    }
}

impl Deref for Handed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Buffer(buf) => buf.bytes(),
            Self::Copy(bytes) => bytes,
        }
    }
}

impl DerefMut for Handed {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Buffer(buf) => buf.bytes_mut(),
            Self::Copy(bytes) => bytes,
        }
    }
}
