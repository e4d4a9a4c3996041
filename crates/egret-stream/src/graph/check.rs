//! The one pass over a graph that arrived.
//!
//! Where the objects of a class begin is known from the head, so a reference is checked by
//! arithmetic and one look at the header that it leads to, whether that was passed already or
//! not. What is allocated is nothing.

use std::ptr;

use bytemuck::cast_slice;
use egret_net::buf::{Ref, flat};

use super::arena::Arena;
use super::class::short_name;
use super::column::{self, RefColumns};
use super::error::{GraphDefect, GraphRefusal};
use super::fault::{Fault, planted};
use super::head;
use super::object::{Object, SeeRefs, Target};
use super::slot;

/// A graph that is being looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check<'g> {
    pub(super) words: &'g [u64],
    pub(super) arenas: &'g [Arena],
}

type Checked<T> = Result<T, Box<GraphRefusal>>;

impl SeeRefs for Check<'_> {
    type Stop = Box<GraphRefusal>;

    #[inline]
    fn see<T: Target + ?Sized>(&mut self, reference: &Ref<T>) -> Checked<()> {
        if self.leads(*reference) { Ok(()) } else { Err(self.astray(reference)) }
    }
}

impl<'g> Check<'g> {
    /// Whether the reference leads to an object of its type.
    #[inline]
    pub(super) fn leads<T: Target + ?Sized>(&self, reference: Ref<T>) -> bool {
        let Some(arena) = self.arenas.get(usize::from(reference.class())) else { return false };
        let words = match T::SLOT_WORDS {
            0 => arena.class.stride / slot::ALIGN,
            words => words,
        };
        if reference.index() >= arena.count {
            return planted(Fault::PastTheEnd);
        }
        let place = arena.slots.start / slot::ALIGN + reference.index() as usize * words;
        is_of::<T>(arena) && self.words.get(place).is_some_and(|header| *header == reference.head())
    }

    /// Looks at everything.
    pub(super) fn all<Root: Object>(mut self, root: Option<Ref<Root>>) -> Checked<()> {
        for class in 0..self.arenas.len() {
            (self.arenas[class].class.check)(&mut self, class)?;
        }
        let is_there = root.is_some_and(|root| self.leads(root));
        if is_there { Ok(()) } else { Err(GraphRefusal::at(head::ROOT, GraphDefect::Root)) }
    }

    #[cold]
    fn astray<T: Target + ?Sized>(&self, reference: &Ref<T>) -> Box<GraphRefusal> {
        let offset = self.offset(ptr::from_ref(reference).cast());
        let (class, index) = (reference.class(), reference.index());
        let arena = self.arenas.get(usize::from(class));
        let reason = match arena {
            Some(arena) if !T::is_class(arena.id, arena.class) => GraphDefect::OtherClass {
                found: arena.class.name.clone(),
                wanted: short_name::<T>(),
            },
            _ => GraphDefect::Dangling { class, index },
        };
        GraphRefusal::at(offset, reason)
    }

    /// Where in the graph this is.
    fn offset(&self, place: *const u8) -> usize {
        place.addr().wrapping_sub(self.words.as_ptr().addr())
    }

    fn bytes(&self) -> &'g [u8] {
        cast_slice(self.words)
    }

    fn arena(&self, class: usize) -> (&'g Arena, &'g [u8]) {
        let arena = &self.arenas[class];
        (arena, &self.bytes()[arena.slots.range()])
    }

    /// Whether there is an object in a slot; or it is refused.
    #[inline]
    fn has_object(&self, slot: &[u8], class: usize) -> Checked<bool> {
        let header = slot::header(slot).unwrap_or_default();
        if slot::is_object(header, class) {
            return Ok(true);
        }
        if slot::is_empty(header, class) {
            return Ok(false);
        }
        let name = self.arenas[class].class.name.clone();
        Err(GraphRefusal::at(self.offset(slot.as_ptr()), GraphDefect::Header { name }))
    }

    /// Checks the references of a value, and what it says of itself.
    #[inline]
    fn value<T: Object>(&mut self, value: &T) -> Checked<()> {
        if T::REFS {
            value.refs(self)?;
        }
        if let Err(why) = own_check(value) {
            let offset = self.offset(ptr::from_ref(value).cast());
            return Err(GraphRefusal::at(
                offset,
                GraphDefect::Check { name: short_name::<T>(), why },
            ));
        }
        Ok(())
    }

    #[cold]
    fn refuse<T: Object>(&self, bytes: &[u8]) -> Checked<()> {
        if planted(Fault::AnyBits) { Ok(()) } else { Err(self.no_value::<T>(bytes)) }
    }

    #[cold]
    fn no_value<T: Object>(&self, bytes: &[u8]) -> Box<GraphRefusal> {
        let (offset, what) = T::fault(bytes);
        let at = self.offset(bytes.as_ptr()) + offset;
        GraphRefusal::at(at, GraphDefect::Value { name: short_name::<T>(), what })
    }
}

#[inline]
fn is_of<T: Target + ?Sized>(arena: &Arena) -> bool {
    T::is_class(arena.id, arena.class) || planted(Fault::AnyClass)
}

/// What a value says of itself.
#[inline]
fn own_check<T: Object>(value: &T) -> Result<(), String> {
    if T::CHECKED && !planted(Fault::Unchecked) { value.check() } else { Ok(()) }
}

/// Whether a slice begins behind the one before.
fn is_apart(start: usize, free: usize) -> bool {
    start >= free || planted(Fault::Overlapping)
}

/// Checks the objects of a class; gives how many slots have none.
pub(super) fn objects<T: Object>(check: &mut Check<'_>, class: usize) -> Checked<u32> {
    let slots = &check.words[check.arenas[class].slots.words()];
    let columns = RefColumns::of::<T>(check, slots, class);
    let mut empty = 0;
    for batch in slots.chunks(BATCH * column::words::<T>()) {
        let is_right = |columns: &RefColumns<'_>| columns.are_right::<T>(batch, class);
        if !columns.as_ref().is_some_and(is_right) {
            empty += each::<T>(check, class, cast_slice(batch))?;
        }
    }
    Ok(empty)
}

/// Checks objects one by one.
pub(super) fn each<T: Object>(check: &mut Check<'_>, class: usize, slots: &[u8]) -> Checked<u32> {
    let mut empty = 0;
    for slot in slots.chunks_exact(slot::stride(size_of::<T>())) {
        if !check.has_object(slot, class)? {
            empty += 1;
            continue;
        }
        let bytes = &slot[slot::HEADER..slot::HEADER + size_of::<T>()];
        match flat::view::<T>(bytes) {
            Some(value) => check.value(value)?,
            None => check.refuse::<T>(bytes)?,
        }
    }
    Ok(empty)
}

/// Checks the slices of a class.
pub(super) fn slices<T: Object>(check: &mut Check<'_>, class: usize) -> Checked<u32> {
    spans(check, class, |check, bytes| {
        if !T::ANY {
            let mut elements = bytes.chunks_exact(size_of::<T>());
            if let Some(wrong) = elements.find(|element| !T::is_value(element)) {
                return Err(check.no_value::<T>(wrong));
            }
        }
        if T::REFS || T::CHECKED {
            let elements = flat::views::<T>(bytes).unwrap_or_default();
            elements.iter().try_for_each(|element| check.value(element))?;
        }
        Ok(())
    })
}

/// Checks the texts of a graph.
pub(super) fn texts(check: &mut Check<'_>, class: usize) -> Checked<u32> {
    spans(check, class, |check, bytes| match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(GraphRefusal::at(
            check.offset(bytes.as_ptr()) + error.valid_up_to(),
            GraphDefect::Text,
        )),
    })
}

/// Checks where slices are: inside their class's elements, each behind the one before.
fn spans<'g>(
    check: &mut Check<'g>,
    class: usize,
    mut see: impl FnMut(&mut Check<'g>, &'g [u8]) -> Checked<()>,
) -> Checked<u32> {
    let (arena, slots) = check.arena(class);
    let data = &check.bytes()[arena.data.range()];
    let size = arena.class.element.unwrap_or(1);
    let (mut empty, mut free) = (0, 0);
    for slot in slots.chunks_exact(slot::SPAN_STRIDE) {
        let is_object = check.has_object(slot, class)?;
        let (start, count) = slot::span(slot).unwrap_or_default();
        let end = start + count * size;
        if !is_apart(start, free) || end > data.len() {
            let reason = GraphDefect::Span { count: u32::try_from(count).unwrap_or(u32::MAX) };
            return Err(GraphRefusal::at(check.offset(slot[slot::HEADER..].as_ptr()), reason));
        }
        free = end;
        if is_object {
            see(check, &data[start..end])?;
        } else {
            empty += 1;
        }
    }
    Ok(empty)
}

/// Objects that are looked at together: they lie in the nearest cache.
const BATCH: usize = 128;
