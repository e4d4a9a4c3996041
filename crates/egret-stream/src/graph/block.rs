//! The memory of a graph: one piece, which can grow.

use std::fmt;

use bytemuck::{cast_slice, cast_slice_mut};
use egret_net::buf::{Buf, Pool};

/// Memory that begins at a multiple of eight.
pub(super) enum Block {
    Heap(Vec<u64>),
    Pool(Buf, Option<Pool>),
    Other(Box<dyn Memory>),
}

/// Memory that is somebody else's invention: that of a mapped file.
pub(super) trait Memory: Send + Sync {
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl Block {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(words) => cast_slice(words),
            Self::Pool(buf, _) => buf.bytes(),
            Self::Other(memory) => memory.bytes(),
        }
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(words) => cast_slice_mut(words),
            Self::Pool(buf, _) => buf.bytes_mut(),
            Self::Other(memory) => memory.bytes_mut(),
        }
    }

    /// Makes it at least `bytes` long where it is; `false` if that cannot be.
    pub(super) fn extend(&mut self, bytes: usize) -> bool {
        match self {
            Self::Heap(words) => {
                if words.len() * 8 < bytes {
                    words.resize(bytes.div_ceil(8), 0);
                }
                true
            }
            Self::Pool(buf, _) => {
                let fits = bytes <= buf.capacity();
                let used = buf.len();
                if fits && used < bytes {
                    // What the buffer held before is nothing that a peer should see.
                    buf.resize(bytes);
                    buf.bytes_mut()[used..].fill(0);
                }
                fits
            }
            Self::Other(memory) => bytes <= memory.bytes().len(),
        }
    }

    /// Another block, of at least `bytes`: of the same pool, if there is one and it can.
    pub(super) fn another(&self, bytes: usize) -> Self {
        if let Self::Pool(_, Some(pool)) = self
            && let Ok(mut buf) = pool.take(bytes)
        {
            buf.bytes_mut().fill(0);
            return Self::Pool(buf, Some(pool.clone()));
        }
        Self::Heap(vec![0; bytes.div_ceil(8)])
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self {
            Self::Heap(_) => "on the heap",
            Self::Pool(..) => "in a pool",
            Self::Other(_) => "in a file",
        };
        write!(f, "Block({} bytes {place})", self.bytes().len())
    }
}
