//! Memory in words that has one owner, wherever it is from.

use std::any::TypeId;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;

use super::buffer::Buf;
use super::mapped_file::MappedFile;
use super::pool::Pool;

/// Words of memory: of the heap, of a buffer, or of a file. The owner reads and writes
/// them; the memory can become longer.
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
#[doc(hidden)]
pub struct Block {
    /// Where the words of `owner` are, so that finding them needs no look at what it is.
    start: NonNull<u64>,
    /// How many there are; never fewer than there were.
    words: usize,
    owner: BlockMemory,
    /// Parts of the words. All of them lie inside.
    runs: Vec<BlockRun>,
}

/// Words of a block that are of one kind, which is all that it says of them.
#[derive(Debug, Clone, Copy)]
struct BlockRun {
    id: TypeId,
    start: NonNull<u64>,
    words: usize,
    /// How many it can have; all of them are words of the block.
    room: usize,
}

/// The memory of a [`Block`], by what frees it.
#[doc(hidden)]
#[derive(Debug)]
pub enum BlockMemory {
    /// The heap.
    Heap(Vec<u64>),
    /// A buffer, and the pool from which larger ones are taken.
    Pool(Buf, Option<Pool>),
    /// A file.
    File(MappedFile),
}

/// What the two below rest on.
const _: fn() = || {
    fn anywhere<T: Send + Sync>() {}
    anywhere::<BlockMemory>();
};

// SAFETY: the words are the owner's, which any thread may have; `start` is no more than where.
unsafe impl Send for Block {}
// SAFETY: through a shared reference the words can only be read.
unsafe impl Sync for Block {}

impl Block {
    /// The memory of `owner`: its whole words. `None` if it does not begin at a multiple of
    /// eight bytes, as a part of a buffer may.
    #[must_use]
    pub fn new(owner: BlockMemory) -> Option<Self> {
        let mut block = Self { start: NonNull::dangling(), words: 0, owner, runs: Vec::new() };
        block.look().then_some(block)
    }

    /// A buffer of `pool` that can have `bytes`, of which none is used yet.
    ///
    /// # Errors
    ///
    /// If the pool has none.
    pub fn in_pool(pool: &Pool, bytes: usize) -> Result<Self, super::MemoryError> {
        let mut buf = pool.take(bytes)?;
        buf.resize(0);
        let block = Self::new(BlockMemory::Pool(buf, Some(pool.clone())));
        Ok(block.expect("the buffers of a pool begin at multiples of 64"))
    }

    /// Words of the heap.
    #[must_use]
    pub fn on_heap(words: Vec<u64>) -> Self {
        Self::new(BlockMemory::Heap(words)).expect("words begin at multiples of eight")
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
        // borrows.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }

    /// Remembers which words are of the kind `id`, as the run with this number, so that
    /// [`part`](Self::part) need not compare with the end of the block. It can become `room`
    /// words long.
    ///
    /// # Panics
    ///
    /// If these are not all words of the block, or a run with a smaller number is missing.
    pub fn set_run(&mut self, run: usize, id: TypeId, range: Range<usize>, room: usize) {
        let is_inside = range.start <= self.words && room <= self.words - range.start;
        let fits = range.start <= range.end && range.end - range.start <= room;
        assert!(is_inside && fits, "{range:?} of {room} in a block of {} words", self.words);
        let (start, words) = (self.at(range.start), range.end - range.start);
        let new = BlockRun { id, start, words, room };
        if run == self.runs.len() {
            self.runs.push(new);
        } else {
            self.runs[run] = new;
        }
    }

    /// Lengthens a run by as many words.
    ///
    /// # Panics
    ///
    /// If there is no such run, or it has no room for them.
    #[inline]
    pub fn lengthen_run(&mut self, run: usize, words: usize) {
        let run = &mut self.runs[run];
        assert!(words <= run.room - run.words, "a run has no more than its room");
        run.words += words;
    }

    /// Lengthens a run by `len` words, and gives these; `None` if it is not of this kind or has no
    /// room for them.
    #[inline]
    #[must_use]
    pub fn push(&mut self, run: usize, id: TypeId, len: usize) -> Option<&mut [u64]> {
        let run = self.runs.get_mut(run).filter(|run| run.id == id)?;
        if len > run.room - run.words {
            return None;
        }
        let at = run.words;
        run.words += len;
        // SAFETY: the room of a run is inside the block, as in `find`, and so many words of it
        // follow.
        let start = unsafe { run.start.add(at) };
        // SAFETY: see `words_mut`.
        Some(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) })
    }

    /// Whether the run with this number is of this kind.
    #[inline]
    #[must_use]
    pub fn is_run(&self, run: usize, id: TypeId) -> bool {
        self.runs.get(run).is_some_and(|run| run.id == id)
    }

    /// `len` words from `at` on of the run with this number, if it is of this kind and has them.
    #[inline]
    #[must_use]
    pub fn part(&self, run: usize, id: TypeId, at: usize, len: usize) -> Option<&[u64]> {
        let start = self.find(run, id, at, len)?;
        // SAFETY: `find` gives the place of so many words of the block; see `words`.
        Some(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) })
    }

    /// As [`part`](Self::part), to be written.
    #[inline]
    #[must_use]
    pub fn part_mut(
        &mut self,
        run: usize,
        id: TypeId,
        at: usize,
        len: usize,
    ) -> Option<&mut [u64]> {
        let start = self.find(run, id, at, len)?;
        // SAFETY: as in `part`; see `words_mut`.
        Some(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) })
    }

    #[inline]
    fn find(&self, run: usize, id: TypeId, at: usize, len: usize) -> Option<NonNull<u64>> {
        let run = self.runs.get(run).filter(|run| run.id == id)?;
        if at.checked_add(len)? > run.words {
            return None;
        }
        // SAFETY: so many words of the run follow. It was inside the block when it was set, the
        // block has not lost words since, and its start is renewed when they move.
        Some(unsafe { run.start.add(at) })
    }

    /// Where the word with this number is.
    fn at(&self, word: usize) -> NonNull<u64> {
        assert!(word <= self.words, "word {word} of {}", self.words);
        // SAFETY: inside the words of the block, or at their end.
        unsafe { self.start.add(word) }
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

    /// Makes it at least `bytes` long where it is; `false` if that cannot be. What comes into use
    /// is zero: what a buffer held before is not for those who get this.
    #[must_use = "it says whether it is so long"]
    pub fn extend(&mut self, bytes: usize) -> bool {
        let words = bytes.div_ceil(WORD);
        if words <= self.words {
            return true;
        }
        match &mut self.owner {
            BlockMemory::Heap(memory) => memory.resize(words, 0),
            BlockMemory::Pool(buf, _) if words <= buf.capacity() / WORD => {
                let used = buf.len();
                buf.resize(words * WORD);
                buf.bytes_mut()[used..].fill(0);
            }
            BlockMemory::Pool(..) | BlockMemory::File(_) => return false,
        }
        self.look()
    }

    /// Another one of at least `bytes`: of the same pool, if it is in one that can, else of the
    /// heap.
    #[must_use]
    pub fn another(&self, bytes: usize) -> Self {
        if let BlockMemory::Pool(_, Some(pool)) = &self.owner
            && let Ok(mut block) = Self::in_pool(pool, bytes.next_multiple_of(WORD))
            && block.extend(bytes)
        {
            return block;
        }
        Self::on_heap(vec![0; bytes.div_ceil(WORD)])
    }

    /// Takes larger buffers from `pool`, if it is a buffer.
    pub fn grow_in(&mut self, pool: &Pool) {
        if let BlockMemory::Pool(_, from) = &mut self.owner {
            *from = Some(pool.clone());
        }
    }

    /// The buffer, if it is one.
    #[must_use]
    pub fn buf(&self) -> Option<&Buf> {
        match &self.owner {
            BlockMemory::Pool(buf, _) => Some(buf),
            _ => None,
        }
    }

    /// The memory as what it is.
    #[must_use]
    pub fn into_owner(self) -> BlockMemory {
        self.owner
    }

    /// Finds the words of the owner; `false` if they are not aligned.
    fn look(&mut self) -> bool {
        // Pointers, not references: what the owner reads meanwhile must not end them.
        let (start, words) = match &mut self.owner {
            BlockMemory::Heap(words) => (NonNull::new(words.as_mut_ptr()), words.len()),
            BlockMemory::Pool(buf, _) => (Some(buf.slot().start.cast()), buf.len() / WORD),
            BlockMemory::File(file) => (Some(file.base.cast()), file.len / WORD),
        };
        let start = start.expect("a vector has an address");
        assert!(words >= self.words, "a block does not become shorter");
        let before = self.start;
        (self.start, self.words) = (start, words);
        for run in 0..self.runs.len() {
            let first = (self.runs[run].start.addr().get() - before.addr().get()) / WORD;
            self.runs[run].start = self.at(first);
        }
        start.is_aligned()
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.owner {
            BlockMemory::Heap(_) => "of the heap",
            BlockMemory::Pool(..) => "of a pool",
            BlockMemory::File(_) => "of a file",
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
    fn a_part_is_inside_its_run() {
        let mut block = Block::on_heap((0..10).collect());
        let (id, other) = (TypeId::of::<u8>(), TypeId::of::<u16>());
        block.set_run(0, id, 2..6, 4);
        assert_eq!(block.part(0, id, 1, 3), Some(&[3, 4, 5][..]));
        assert_eq!(block.part(0, id, 1, 4), None, "past the end of the run");
        assert_eq!(block.part(0, id, usize::MAX, 2), None);
        assert_eq!(block.part(0, other, 0, 1), None, "of another kind");
        assert_eq!(block.part(1, id, 0, 1), None, "no such run");
        block.part_mut(0, id, 0, 1).unwrap()[0] = 7;
        assert_eq!(block.words()[2], 7);
        block.set_run(0, other, 9..10, 1);
        assert_eq!(block.part(0, other, 0, 1), Some(&[9][..]));
        assert!(block.part(0, other, 0, 2).is_none());
        assert!(block.extend(1 << 20));
        assert_eq!(block.part(0, other, 0, 1), Some(&[9][..]), "it moved along");
        assert!(block.push(0, other, 1).is_none(), "no room");
        block.set_run(0, other, 9..10, 3);
        block.lengthen_run(0, 1);
        assert_eq!(block.part(0, other, 0, 2), Some(&[9, 0][..]));
        block.set_run(0, id, 0..0, block.words().len());
        block.lengthen_run(0, block.words().len());
        assert_eq!(block.part(0, id, 3, 1), Some(&[3][..]));
    }

    #[test]
    fn what_is_pushed_stays_in_its_room() {
        let mut block = Block::on_heap((0..10).collect());
        let (id, other) = (TypeId::of::<u8>(), TypeId::of::<u16>());
        block.set_run(0, id, 3..5, 6);
        assert!(block.push(0, other, 1).is_none() && block.push(1, id, 1).is_none());
        assert!(block.push(0, id, 5).is_none() && block.push(0, id, usize::MAX).is_none());
        block.push(0, id, 3).unwrap().copy_from_slice(&[11, 12, 13]);
        assert_eq!(block.part(0, id, 1, 4), Some(&[4, 11, 12, 13][..]));
        assert!(block.extend(1 << 20));
        block.push(0, id, 1).unwrap()[0] = 14;
        assert!(block.push(0, id, 1).is_none(), "full");
        assert_eq!(block.words()[..10], [0, 1, 2, 3, 4, 11, 12, 13, 14, 9]);
    }

    #[test]
    #[should_panic(expected = "no more than its room")]
    fn a_run_does_not_outgrow_its_room() {
        let mut block = Block::on_heap(vec![0; 10]);
        block.set_run(0, TypeId::of::<u8>(), 3..7, 5);
        block.lengthen_run(0, 2);
    }

    #[test]
    #[should_panic(expected = "3..9 of 8 in a block of 10 words")]
    fn the_room_of_a_run_is_inside_its_block() {
        Block::on_heap(vec![0; 10]).set_run(0, TypeId::of::<u8>(), 3..9, 8);
    }

    #[test]
    #[should_panic(expected = "8..10 of 1 in a block of 10 words")]
    fn a_run_has_room_for_itself() {
        Block::on_heap(vec![0; 10]).set_run(0, TypeId::of::<u8>(), 8..10, 1);
    }

    #[test]
    fn nothing_is_left_of_what_a_buffer_held() {
        let pool = Pool::builder().class(64, 1).class(128, 1).build().unwrap();
        for bytes in [64, 128] {
            pool.take(bytes).unwrap().bytes_mut().fill(7);
        }
        let mut block = Block::in_pool(&pool, 64).unwrap();
        assert!(block.extend(60));
        let larger = block.another(100);
        assert!(larger.buf().is_some());
        assert_eq!([block.bytes(), larger.bytes()].concat(), [0; 64 + 104]);
    }

    #[test]
    fn the_owner_can_be_read_in_between() {
        let pool = Pool::new(64, 1).unwrap();
        let mut block = Block::in_pool(&pool, 64).unwrap();
        assert!(block.extend(64));
        for number in 1..3 {
            block.words_mut()[7] = number;
            let bytes = block.buf().expect("a buffer").bytes();
            assert_eq!(bytes[56..], number.to_ne_bytes());
        }
    }

    #[test]
    fn parts_of_words_are_left_out() {
        let pool = Pool::new(64, 1).unwrap();
        let (head, rest) = pool.take(20).unwrap().split_at(3);
        assert!(Block::new(BlockMemory::Pool(rest, None)).is_none(), "not aligned");
        assert_eq!(Block::new(BlockMemory::Pool(head, None)).unwrap().words().len(), 0);
    }
}
