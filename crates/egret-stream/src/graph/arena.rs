//! Where the objects of one class lie in the block.

use std::any::TypeId;
use std::ops::Range;

use egret_net::buf::Ref;

use super::class::GraphClass;
use super::slot;

/// The objects of one class. A power of two in size, so that it is found by a shift.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Arena {
    /// Of the class; here because each access looks at it.
    pub(super) id: TypeId,
    /// The reference to the first slot as a new one; the next differ by their index.
    pub(super) first: u64,
    /// How many slots there are, with and without an object.
    pub(super) count: u32,
    /// The slots.
    pub(super) slots: Extent,
    /// The elements, if they are slices or texts.
    pub(super) data: Extent,
    pub(super) class: &'static GraphClass,
    /// How many slots have no object.
    pub(super) empty: u32,
    /// Slots that an object can get. `None`: not searched yet.
    pub(super) free: Option<Vec<u32>>,
}

/// A part of the block, in bytes, all multiples of eight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: usize,
    pub(super) len: usize,
    /// What it could have without moving.
    pub(super) room: usize,
}

/// One of the two parts that an arena has in the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArenaPart {
    Slots,
    Data,
}

impl Arena {
    /// One without an object.
    pub(super) fn new(class: &'static GraphClass) -> Self {
        let (slots, data) = (Extent::default(), Extent::default());
        let (id, free) = (class.id, Some(Vec::new()));
        Self { id, first: 0, count: 0, slots, data, class, empty: 0, free }
    }

    /// Counts one slot more, and gives the reference to what will be there.
    #[inline]
    pub(super) fn count_one<T: ?Sized>(&mut self) -> Ref<T> {
        let reference = Ref::from_bits(self.first | u64::from(self.count));
        self.count += 1;
        reference.expect("a seed is a stamp")
    }

    /// Where the slot with this number begins, if there is one.
    #[inline]
    pub(super) fn at(&self, index: u32, stride: usize) -> Option<usize> {
        (index < self.count).then(|| self.slots.start + index as usize * stride)
    }

    /// How many objects there are. Of a graph that is believed it is what is said, less what
    /// was taken away since.
    pub(super) fn living(&self) -> u32 {
        self.count.saturating_sub(self.empty)
    }

    pub(super) fn extent(&mut self, part: ArenaPart) -> &mut Extent {
        match part {
            ArenaPart::Slots => &mut self.slots,
            ArenaPart::Data => &mut self.data,
        }
    }

    /// The slots that have no object and may get one.
    pub(super) fn free(&mut self, block: &[u8]) -> &mut Vec<u32> {
        let (slots, stride, empty) = (self.slots, self.class.stride, self.empty);
        self.free.get_or_insert_with(|| {
            let slots = block.get(slots.start..slots.start + slots.len).unwrap_or_default();
            let headers = slots.chunks_exact(stride).map(slot::header).zip(0..);
            let is_free = |header: u64| is_free(header);
            let free = headers.filter(|(header, _)| header.is_some_and(is_free));
            free.map(|(_, index)| index).take(empty as usize).collect()
        })
    }
}

impl Extent {
    pub(super) fn end(&self) -> usize {
        self.start + self.len
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// The same in words.
    pub(super) fn words(&self) -> Range<usize> {
        let first = self.start / slot::ALIGN;
        first..first + self.len / slot::ALIGN
    }
}

/// Whether a slot with this header may get an object: one that was the last stamp's may not,
/// for the next would be known by a stamp that others may remember.
pub(super) fn is_free(header: u64) -> bool {
    header & slot::EMPTY != 0 && slot::stamp(header) < slot::STAMP_MAX
}
