//! The objects of a graph in their block: finding, adding and taking away.
//!
//! Finding an object is: its class by the reference, whether that is the type asked for (two
//! words to compare), whether the index is one of its slots, the address, whether the header is
//! the reference's upper half (so it lives, and is the one that was meant), and whether its bits
//! are a value, for types of which not all are. The cache lines are that of the arena, which
//! all accesses to the class share, and the object's own.

use std::any::TypeId;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use bytemuck::cast_slice_mut;
use egret_net::buf::{Block, Ref, flat};
use egret_net::rt;

use super::arena::{Arena, ArenaPart, is_free};
use super::class::{GraphClasses, short_name};
use super::fault::{Fault, planted};
use super::head;
use super::object::Object;
use super::slot;

/// A block, and where in it the objects of each class are.
#[doc(hidden)]
#[derive(Debug)]
pub struct Store {
    pub(super) block: Block,
    /// By class.
    pub(super) arenas: Vec<Arena>,
    /// Where the part of the block that is in use ends.
    pub(super) end: usize,
    /// Stamps of new slots.
    pub(super) seed: u32,
    /// Whether a reference may lead to an object that does not exist: an object was removed.
    pub(super) may_dangle: bool,
}

impl Store {
    /// One without objects.
    pub(super) fn new(classes: &'static GraphClasses, mut block: Block) -> Self {
        let arenas = classes.all.iter().map(Arena::new).collect();
        let end = head::bytes(classes.all.len());
        let block = if block.extend(end) { block } else { block.another(end) };
        Self::over(block, arenas, end)
    }

    /// One with objects, which lie in `block` as `arenas` say.
    pub(super) fn over(block: Block, arenas: Vec<Arena>, end: usize) -> Self {
        let mut store = Self { block, arenas, end, seed: 0, may_dangle: false };
        store.set_seed(seed());
        store.set_runs();
        store
    }

    /// Gives new slots this stamp.
    pub(super) fn set_seed(&mut self, seed: u32) {
        self.seed = seed;
        for (arena, class) in self.arenas.iter_mut().zip(0..) {
            arena.first = Ref::<()>::new(class, 0, seed).expect("a seed is a stamp").to_bits();
        }
    }

    #[inline]
    pub(super) fn object<T: Object>(&self, reference: Ref<T>) -> Option<&T> {
        let (id, hint) = (TypeId::of::<T>(), usize::from(T::hint().class()));
        let (at, words) = place(reference);
        let slot = match self.block.is_run(hint, id) {
            true => self.block.part(hint, id, at, words)?,
            false => self.block.part(unforeseen(reference), id, at, words)?,
        };
        let (header, value) = slot.split_first()?;
        if !is_meant(*header, reference) {
            return None;
        }
        flat::view_words(value)
    }

    #[inline]
    pub(super) fn object_mut<T: Object>(&mut self, reference: Ref<T>) -> Option<&mut T> {
        let (id, hint) = (TypeId::of::<T>(), usize::from(T::hint().class()));
        let (at, words) = place(reference);
        let slot = match self.block.is_run(hint, id) {
            true => self.block.part_mut(hint, id, at, words)?,
            false => self.block.part_mut(unforeseen(reference), id, at, words)?,
        };
        let (header, value) = slot.split_first_mut()?;
        if *header != reference.head() {
            return None;
        }
        flat::view_words_mut(value)
    }

    fn set_runs(&mut self) {
        (0..self.arenas.len()).for_each(|class| self.set_run(class));
    }

    /// Tells the block which words the slots of a class are.
    #[inline]
    fn set_run(&mut self, class: usize) {
        let Arena { id, slots, class: of, .. } = self.arenas[class];
        let room = slots.room.min(of.stride.saturating_mul(COUNT_MAX));
        self.block.set_run(class, id, slots.words(), room / slot::ALIGN);
    }

    /// Whether it leads to an object, of whatever class.
    pub(super) fn contains<T: ?Sized>(&self, reference: Ref<T>) -> bool {
        self.slot(reference).is_some()
    }

    /// The slot of an object of any class.
    pub(super) fn slot<T: ?Sized>(&self, reference: Ref<T>) -> Option<&[u8]> {
        let arena = self.arenas.get(usize::from(reference.class()))?;
        let at = arena.at(reference.index(), arena.class.stride)?;
        let slot = self.block.bytes().get(at..at + arena.class.stride)?;
        (slot::header(slot)? == reference.head()).then_some(slot)
    }

    pub(super) fn slice<T: Object>(&self, reference: Ref<[T]>) -> Option<&[T]> {
        flat::views(self.elements::<[T]>(reference, size_of::<T>())?)
    }

    pub(super) fn slice_mut<T: Object>(&mut self, reference: Ref<[T]>) -> Option<&mut [T]> {
        let range = self.span::<[T]>(reference, size_of::<T>())?;
        flat::views_mut(self.block.bytes_mut().get_mut(range)?)
    }

    pub(super) fn element<T: Object>(&self, reference: Ref<[T]>, at: usize) -> Option<&T> {
        let bytes = self.elements::<[T]>(reference, size_of::<T>())?;
        flat::view(bytes.chunks_exact(size_of::<T>()).nth(at)?)
    }

    pub(super) fn element_mut<T: Object>(
        &mut self,
        reference: Ref<[T]>,
        at: usize,
    ) -> Option<&mut T> {
        let range = self.span::<[T]>(reference, size_of::<T>())?;
        let bytes = self.block.bytes_mut().get_mut(range)?;
        flat::view_mut(bytes.chunks_exact_mut(size_of::<T>()).nth(at)?)
    }

    pub(super) fn text(&self, reference: Ref<str>) -> Option<&str> {
        std::str::from_utf8(self.elements::<str>(reference, 1)?).ok()
    }

    pub(super) fn text_mut(&mut self, reference: Ref<str>) -> Option<&mut str> {
        let range = self.span::<str>(reference, 1)?;
        std::str::from_utf8_mut(self.block.bytes_mut().get_mut(range)?).ok()
    }

    fn elements<T: ?Sized + 'static>(&self, reference: Ref<T>, size: usize) -> Option<&[u8]> {
        let range = self.span(reference, size)?;
        self.block.bytes().get(range)
    }

    /// Where the elements of a slice are in the block.
    fn span<T: ?Sized + 'static>(&self, reference: Ref<T>, size: usize) -> Option<Range<usize>> {
        let arena = self.arenas.get(usize::from(reference.class()))?;
        if arena.id != TypeId::of::<T>() {
            return None;
        }
        let (start, count) = slot::span(self.slot(reference)?)?;
        let end = start.checked_add(count.checked_mul(size)?)?;
        (end <= arena.data.len).then(|| arena.data.start + start..arena.data.start + end)
    }

    /// Adds an object.
    ///
    /// The value goes to no other function: it would have to lie in memory then, and be read from
    /// there in larger pieces than it was just written in, which takes a processor longer than all
    /// the rest.
    #[inline]
    pub(super) fn insert<T: Object>(&mut self, value: T) -> Ref<T> {
        let (id, class) = (TypeId::of::<T>(), usize::from(T::hint().class()));
        let words = const { slot::stride(size_of::<T>()) / slot::ALIGN };
        // An empty slot comes before a new one.
        let arena = self.arenas.get_mut(class).filter(|arena| arena.empty == 0);
        let next = arena.and_then(|arena| Some((self.block.push(class, id, words)?, arena)));
        let (slot, reference) = match next {
            Some((slot, arena)) => {
                arena.slots.len += words * slot::ALIGN;
                (slot, arena.count_one())
            }
            None => self.claim(),
        };
        let (header, rest) = slot.split_first_mut().expect("a slot has a header");
        *header = reference.head();
        let rest = cast_slice_mut::<u64, u8>(&mut rest[..words - 1]);
        let (place, fill) = rest.split_at_mut(size_of::<T>());
        place.copy_from_slice(flat::bytes_of(std::slice::from_ref(&value)));
        fill.fill(0);
        reference
    }

    /// Adds a slice or a text of elements that are `bytes`.
    pub(super) fn insert_span<T: ?Sized + 'static>(
        &mut self,
        bytes: &[u8],
        count: usize,
    ) -> Ref<T> {
        self.insert_span_in(self.class_of::<T>(), bytes, count)
    }

    /// Adds a slice to a class.
    pub(super) fn insert_span_in<T: ?Sized>(
        &mut self,
        class: usize,
        bytes: &[u8],
        count: usize,
    ) -> Ref<T> {
        let count = u32::try_from(count).expect("a slice has less than 2^32 elements");
        let len = bytes.len().next_multiple_of(slot::ALIGN);
        let start = self.extend(class, ArenaPart::Data, len);
        let words = (start - self.arenas[class].data.start) / slot::ALIGN;
        let words = u32::try_from(words).expect("the slices of a class have less than 32 GiB");
        let (place, fill) = self.block.bytes_mut()[start..start + len].split_at_mut(bytes.len());
        place.copy_from_slice(bytes);
        fill.fill(0);
        let (at, reference) = self.append(class, slot::SPAN_STRIDE);
        let slot = &mut self.block.bytes_mut()[at..at + slot::SPAN_STRIDE];
        slot[..8].copy_from_slice(&reference.head().to_le_bytes());
        slot[8..12].copy_from_slice(&words.to_le_bytes());
        slot[12..].copy_from_slice(&count.to_le_bytes());
        reference
    }

    /// Adds an object to a class as the bytes of its value, with what fills the slot.
    pub(super) fn insert_raw(&mut self, class: usize, value: &[u8]) {
        let (at, reference): (_, Ref<()>) = self.append(class, slot::HEADER + value.len());
        let slot = &mut self.block.bytes_mut()[at..at + slot::HEADER + value.len()];
        slot[..slot::HEADER].copy_from_slice(&reference.head().to_le_bytes());
        slot[slot::HEADER..].copy_from_slice(value);
    }

    /// The reference to what is in a slot, if there is something.
    pub(super) fn ref_at<T: ?Sized>(&self, class: usize, index: u32) -> Option<Ref<T>> {
        let arena = &self.arenas[class];
        let at = arena.at(index, arena.class.stride)?;
        let header = slot::header(self.block.bytes().get(at..)?)?;
        let stamp = (header & slot::EMPTY == 0).then(|| slot::stamp(header))?;
        Ref::new(u8::try_from(class).ok()?, index, stamp)
    }

    /// Takes an object out; its slot is empty from now on.
    pub(super) fn remove<T: ?Sized>(&mut self, reference: Ref<T>) -> bool {
        if self.slot(reference).is_none() {
            return false;
        }
        let arena = &mut self.arenas[usize::from(reference.class())];
        let Some(at) = arena.at(reference.index(), arena.class.stride) else { return false };
        let header = reference.head() | slot::EMPTY;
        arena.empty += 1;
        self.may_dangle = true;
        // Slices are not reused: they follow one another, so that none can lie on another.
        if arena.class.element.is_none()
            && is_free(header)
            && let Some(free) = &mut arena.free
        {
            free.push(reference.index());
        }
        let (stride, data, span) = (arena.class.stride, arena.data, arena.class.element);
        let slot = &mut self.block.bytes_mut()[at..at + stride];
        slot[..slot::HEADER].copy_from_slice(&header.to_le_bytes());
        // What was taken out does not travel.
        match span {
            None => slot[slot::HEADER..].fill(0),
            Some(size) => {
                let (start, count) = slot::span(slot).unwrap_or_default();
                let end = start.saturating_add(count.saturating_mul(size)).min(data.len);
                let range = data.start + start.min(end)..data.start + end;
                self.block.bytes_mut()[range].fill(0);
            }
        }
        true
    }

    /// Makes room for `count` more objects of a type.
    pub(super) fn reserve<T: Object>(&mut self, count: usize) {
        let class = self.class_of::<T>();
        let extent = self.arenas[class].slots;
        let needed = count.checked_mul(slot::stride(size_of::<T>()));
        let room = needed.and_then(|needed| needed.checked_add(extent.len));
        let room = room.filter(|room| isize::try_from(*room).is_ok());
        let room = room.expect("no memory has room for so many objects");
        if extent.room < room {
            self.grow(class, ArenaPart::Slots, room.max(extent.room.saturating_mul(2)));
        }
    }

    /// Makes room in a class that has nothing yet.
    pub(super) fn make_room(&mut self, class: usize, slots: usize, data: usize) {
        for (part, room) in [(ArenaPart::Slots, slots), (ArenaPart::Data, data)] {
            if room > 0 {
                self.grow(class, part, room);
            }
        }
    }

    /// The number of the class of `T`.
    ///
    /// # Panics
    ///
    /// If the graph has no such objects.
    #[inline]
    pub(super) fn class_of<T: ?Sized + 'static>(&self) -> usize {
        match self.find_class::<T>() {
            Some(class) => class,
            None => self.no_class::<T>(),
        }
    }

    #[inline]
    pub(super) fn find_class<T: ?Sized + 'static>(&self) -> Option<usize> {
        self.arenas.iter().position(|arena| arena.id == TypeId::of::<T>())
    }

    #[cold]
    fn no_class<T: ?Sized>(&self) -> ! {
        let names: Vec<_> = self.arenas.iter().map(|arena| &*arena.class.name).collect();
        let (name, names) = (short_name::<T>(), names.join("`, `"));
        panic!("nothing in this graph can refer to a `{name}`: its classes are `{names}`");
    }

    /// A slot for a new object: one that is empty, or the next.
    #[cold]
    #[inline(never)]
    fn claim<T: Object>(&mut self) -> (&mut [u64], Ref<T>) {
        let (class, stride) = (self.class_of::<T>(), slot::stride(size_of::<T>()));
        let is_empty = self.arenas[class].empty > 0;
        let claimed = if is_empty { self.reclaim(class, stride) } else { None };
        let (at, reference) = claimed.unwrap_or_else(|| self.append(class, stride));
        let first = at / slot::ALIGN;
        (&mut self.block.words_mut()[first..first + stride / slot::ALIGN], reference)
    }

    fn reclaim<T>(&mut self, class: usize, stride: usize) -> Option<(usize, Ref<T>)> {
        let arena = &mut self.arenas[class];
        let index = arena.free(self.block.bytes()).pop()?;
        let at = arena.at(index, stride)?;
        let last = slot::stamp(slot::header(self.block.bytes().get(at..)?)?);
        let stamp = stamp_after(last, self.seed);
        let reference = Ref::new(u8::try_from(class).ok()?, index, stamp)?;
        arena.empty -= 1;
        Some((at, reference))
    }

    /// The slot after the last one.
    #[inline]
    fn append<T: ?Sized>(&mut self, class: usize, stride: usize) -> (usize, Ref<T>) {
        let at = self.extend(class, ArenaPart::Slots, stride);
        let arena = &mut self.arenas[class];
        assert!((arena.count as usize) < COUNT_MAX, "a class has less than 2^32 objects");
        (at, arena.count_one())
    }

    /// Lengthens a part of the block, and gives where the new bytes begin.
    #[inline]
    fn extend(&mut self, class: usize, part: ArenaPart, bytes: usize) -> usize {
        let extent = self.arenas[class].extent(part);
        if extent.room - extent.len < bytes {
            let more = if extent.room < ROOM_SMALL { 4 } else { 2 };
            let room = (extent.room * more).max(extent.len + bytes).max(ROOM_LEAST);
            self.grow(class, part, room);
        }
        let extent = self.arenas[class].extent(part);
        let start = extent.end();
        extent.len += bytes;
        if part == ArenaPart::Slots {
            self.block.lengthen_run(class, bytes / slot::ALIGN);
        }
        start
    }

    /// Gives a part of the block more room: where it is if it is the last, else behind the
    /// others, else in another block.
    #[cold]
    fn grow(&mut self, class: usize, part: ArenaPart, room: usize) {
        let end = self.end;
        let extent = self.arenas[class].extent(part);
        let is_last = extent.room > 0 && extent.start + extent.room == end;
        let start = if is_last { extent.start } else { end };
        if !self.block.extend(start + room) {
            return self.relocate(class, part, room);
        }
        assert!(room >= extent.len, "room for less than there is");
        let from = extent.range();
        extent.start = start;
        extent.room = room;
        self.end = start + room;
        self.move_part(from, start);
        self.set_run(class);
    }

    fn move_part(&mut self, from: Range<usize>, start: usize) {
        if start != from.start && !planted(Fault::LeftBehind) {
            self.block.bytes_mut().copy_within(from.clone(), start);
            self.block.bytes_mut()[from].fill(0);
        }
    }

    /// Moves everything to another block, with `room` for one part.
    fn relocate(&mut self, class: usize, part: ArenaPart, room: usize) {
        let rooms = self.arenas.iter().map(|arena| arena.slots.room + arena.data.room);
        let needed = head::bytes(self.arenas.len()) + rooms.sum::<usize>() + room;
        let mut block = self.block.another(needed);
        let mut end = head::bytes(self.arenas.len());
        let from = self.block.bytes();
        let to = block.bytes_mut();
        for (number, arena) in self.arenas.iter_mut().enumerate() {
            for each in [ArenaPart::Slots, ArenaPart::Data] {
                let extent = arena.extent(each);
                to[end..end + extent.len].copy_from_slice(&from[extent.range()]);
                extent.start = end;
                if (number, each) == (class, part) {
                    extent.room = room;
                }
                end += extent.room;
            }
        }
        self.block = block;
        self.end = end;
        self.set_runs();
    }
}

/// Where in its class's run the slot of an object begins, and how many words it has.
#[inline]
fn place<T>(reference: Ref<T>) -> (usize, usize) {
    let words = slot::stride(size_of::<T>()) / slot::ALIGN;
    (reference.index() as usize * words, words)
}

/// Whether the object lives, is the one that was meant, and its class is the reference's.
#[inline(always)]
fn is_meant<T: Object>(header: u64, reference: Ref<T>) -> bool {
    header == reference.head() || planted(Fault::Stale)
}

/// The stamp of an object in the place of one with the stamp `last`: another than that of a copy of this
/// graph, half of the time.
fn stamp_after(last: u32, seed: u32) -> u32 {
    if planted(Fault::SameStamp) { last } else { (last + 1).max(seed) }
}

/// The class of an object whose type has another number in this graph than it had first.
#[cold]
fn unforeseen<T>(reference: Ref<T>) -> usize {
    usize::from(reference.class())
}

/// Stamps for the objects of a new graph: those of graphs made one after the other are far
/// apart, and there are more than eight million stamps after each.
fn seed() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if planted(Fault::SameSeed) {
        return 1;
    }
    let mut next = NEXT.fetch_add(1, Ordering::Relaxed);
    if next == 0 {
        next = (rt::random() >> 32) as u32;
        NEXT.store(next.wrapping_add(1).max(1), Ordering::Relaxed);
    }
    (next.wrapping_mul(SCATTER) >> 9) + 1
}

/// An odd number near the golden ratio of 2^32: its multiples do not come close to each other
/// for long.
const SCATTER: u32 = 0x9e37_79b1;

/// How many slots a class has at most.
const COUNT_MAX: usize = u32::MAX as usize;
/// Bytes of the first room that a part of the block gets.
const ROOM_LEAST: usize = 1024;
/// Below this many bytes a part grows faster than to twice its room.
const ROOM_SMALL: usize = 16 << 10;
