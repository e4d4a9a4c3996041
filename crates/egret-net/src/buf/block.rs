//! Memory in words that has one owner, wherever it is from.

use std::fmt;
use std::ptr::NonNull;

use super::buffer::Buf;
use super::mapped_file::MappedFile;
use super::pool::Pool;

/// Words of memory: of the heap, of a buffer, or of a file. Whoever has it reads and writes
/// them; it can become longer.
///
/// ```
/// use egret_net::buf::{Block, Pool};
///
/// let pool = Pool::builder().class(64, 1).class(4096, 1).build()?;
/// let mut block = Block::in_pool(&pool, 64)?;
/// assert!(block.extend(64) && !block.extend(65), "a buffer is as long as it is");
/// block.bytes_mut()[63] = 7;
///
/// let larger = block.another(100); // of the same pool
/// assert!(larger.buf().is_some());
/// assert!(larger.another(10_000).buf().is_none(), "the pool has none, the heap has");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Block {
    /// Where the words of `owner` are, so that finding them needs no look at what it is.
    start: NonNull<u64>,
    words: usize,
    owner: Owner,
}

/// Who frees the memory of a [`Block`].
#[derive(Debug)]
pub enum Owner {
    /// The heap.
    Heap(Vec<u64>),
    /// A buffer, and the pool from which larger ones are taken.
    Pool(Buf, Option<Pool>),
    /// A file.
    File(MappedFile),
}

// SAFETY: the words are the owner's, which any thread may have; `start` is no more than where.
unsafe impl Send for Block {}
// SAFETY: through a shared reference the words can only be read.
unsafe impl Sync for Block {}

impl Block {
    /// The memory of `owner`: its whole words. `None` if it does not begin at a multiple of
    /// eight bytes, as a part of a buffer may.
    #[must_use]
    pub fn new(owner: Owner) -> Option<Self> {
        let mut block = Self { start: NonNull::dangling(), words: 0, owner };
        block.look().then_some(block)
    }

    /// A buffer of `pool` that can have `bytes`, of which none is used yet.
    ///
    /// # Errors
    ///
    /// If the pool has none.
    pub fn in_pool(pool: &Pool, bytes: usize) -> Result<Self, super::TakeError> {
        let mut buf = pool.take(bytes)?;
        buf.resize(0);
        let block = Self::new(Owner::Pool(buf, Some(pool.clone())));
        Ok(block.expect("the buffers of a pool begin at multiples of 64"))
    }

    /// Words of the heap.
    #[must_use]
    pub fn on_heap(words: Vec<u64>) -> Self {
        Self::new(Owner::Heap(words)).expect("words begin at multiples of eight")
    }

    /// The words.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        // SAFETY: `look` found so many initialised words of the owner there, aligned, and nobody
        // has changed the owner since without calling it again. They are written through
        // `&mut self` alone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// The words, to be written.
    #[inline]
    #[must_use]
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above; and the owner has the only right to write them, which `&mut self`
        // borrows. `look` had `start` from a `&mut`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }

    /// The bytes of the words.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.words())
    }

    /// The bytes of the words, to be written.
    #[inline]
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self.words_mut())
    }

    /// Makes it at least `bytes` long where it is; `false` if that cannot be.
    #[must_use = "it says whether it is so long"]
    pub fn extend(&mut self, bytes: usize) -> bool {
        let words = bytes.div_ceil(WORD);
        if words <= self.words {
            return true;
        }
        match &mut self.owner {
            Owner::Heap(memory) => memory.resize(words, 0),
            Owner::Pool(buf, _) if words * WORD <= buf.capacity() => buf.resize(words * WORD),
            Owner::Pool(..) | Owner::File(_) => return false,
        }
        self.look()
    }

    /// Another one of at least `bytes`: of the same pool, if it is in one that can, else of the
    /// heap. The bytes of a buffer are what was left in it.
    #[must_use]
    pub fn another(&self, bytes: usize) -> Self {
        if let Owner::Pool(_, Some(pool)) = &self.owner
            && let Ok(mut block) = Self::in_pool(pool, bytes.next_multiple_of(WORD))
            && block.extend(bytes)
        {
            return block;
        }
        Self::on_heap(vec![0; bytes.div_ceil(WORD)])
    }

    /// The buffer, if it is one.
    #[must_use]
    pub fn buf(&self) -> Option<&Buf> {
        match &self.owner {
            Owner::Pool(buf, _) => Some(buf),
            _ => None,
        }
    }

    /// The memory as what it is.
    #[must_use]
    pub fn into_owner(self) -> Owner {
        self.owner
    }

    /// Finds the words of the owner; `false` if they are not aligned.
    fn look(&mut self) -> bool {
        let bytes = match &mut self.owner {
            Owner::Heap(words) => bytemuck::cast_slice_mut(words),
            Owner::Pool(buf, _) => buf.bytes_mut(),
            Owner::File(file) => file.as_mut(),
        };
        self.words = bytes.len() / WORD;
        self.start = NonNull::from(bytes).cast();
        self.start.is_aligned()
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.owner {
            Owner::Heap(_) => "of the heap",
            Owner::Pool(..) => "of a pool",
            Owner::File(_) => "of a file",
        };
        write!(f, "Block({} words {place})", self.words)
    }
}

const WORD: usize = size_of::<u64>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_where_they_grow() {
        let pool = Pool::new(256, 2).unwrap();
        let blocks = [Block::on_heap(Vec::new()), Block::in_pool(&pool, 200).unwrap()];
        for mut block in blocks {
            assert!(block.words().is_empty());
            assert!(block.extend(12));
            block.words_mut().copy_from_slice(&[1, 2]);
            assert!(block.extend(64) && block.words().len() == 8);
            assert!(block.extend(20) && block.words().len() == 8, "never shorter");
            assert_eq!(&block.words()[..2], [1, 2]);
        }
        assert_eq!(pool.available(256), 2);
    }

    #[test]
    fn parts_of_words_are_left_out() {
        let pool = Pool::new(64, 1).unwrap();
        let (head, rest) = pool.take(20).unwrap().split_at(3);
        assert!(Block::new(Owner::Pool(rest, None)).is_none(), "not aligned");
        assert_eq!(Block::new(Owner::Pool(head, None)).unwrap().words().len(), 0);
    }
}
