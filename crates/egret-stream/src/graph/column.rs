//! The references of many objects of one class, looked at by columns.
//!
//! In most types a reference lies at the same place in every object. Then what it leads to is
//! found once for all of them, and a column of references is passed without asking which are
//! there and which are `None`: that is as good as random, and each guess that a processor gets
//! wrong costs more than the check.
//!
//! A column says yes or no. Which reference is wrong, and why, is for [`Check`] to say.

use std::ptr;

use egret_net::buf::{Ref, flat};

use super::check::Check;
use super::object::{Object, SeeRefs, Target};
use super::slot;

/// Where the references of the objects of a class lie.
#[derive(Debug)]
pub(super) struct RefColumns<'g> {
    /// The slot that they were found in.
    slot: &'g [u64],
    found: [RefColumn<'g>; COLUMNS_MAX],
    count: usize,
    check: Check<'g>,
}

/// References that lie at one place in each slot, or beside each other.
#[derive(Debug, Clone, Copy, Default)]
struct RefColumn<'g> {
    /// Words from the beginning of a slot.
    at: usize,
    /// How many there are beside each other.
    width: usize,
    /// The slots of the only class that they may lead to.
    to: &'g [u64],
    /// Words of such a slot.
    stride: usize,
}

/// What has no columns: too many references, or ones that may lead to several classes.
#[derive(Debug)]
pub(super) struct Uneven;

impl SeeRefs for RefColumns<'_> {
    type Stop = Uneven;

    fn see<T: Target + ?Sized>(&mut self, reference: &Ref<T>) -> Result<(), Uneven> {
        self.add::<T>(ptr::from_ref(reference).addr())
    }

    fn see_option<T: Target + ?Sized>(&mut self, reference: &Option<Ref<T>>) -> Result<(), Uneven> {
        self.add::<T>(ptr::from_ref(reference).addr())
    }
}

impl<'g> RefColumns<'g> {
    /// The columns of references of the objects in `slots`, if they are worth it.
    pub(super) fn of<T: Object>(check: &Check<'g>, slots: &'g [u64], class: usize) -> Option<Self> {
        let mut slots = slots.chunks_exact(words::<T>());
        if !T::EVEN || T::CHECKED || slots.len() < OBJECTS_LEAST * check.arenas.len() {
            return None;
        }
        let slot = slots.find(|slot| slot::is_object(slot[0], class))?;
        let value = flat::view_words::<T>(&slot[1..])?;
        let (found, check) = ([RefColumn::default(); COLUMNS_MAX], *check);
        let mut columns = Self { slot, found, count: 0, check };
        value.refs(&mut columns).ok()?;
        Some(columns)
    }

    fn add<T: Target + ?Sized>(&mut self, place: usize) -> Result<(), Uneven> {
        let mut arenas = self.check.arenas.iter().filter(|to| T::is_class(to.id, to.class));
        let (Some(arena), None) = (arenas.next(), arenas.next()) else { return Err(Uneven) };
        let at = place.wrapping_sub(self.slot.as_ptr().addr()) / slot::ALIGN;
        if at >= self.slot.len() {
            return Err(Uneven);
        }
        let to = &self.check.words[arena.slots.words()];
        let last = self.found[..self.count].last_mut();
        if let Some(last) = last.filter(|last| last.is_before(at, to)) {
            last.width += 1;
            return Ok(());
        }
        let column = self.found.get_mut(self.count).ok_or(Uneven)?;
        *column = RefColumn { at, width: 1, to, stride: arena.class.stride / slot::ALIGN };
        self.count += 1;
        Ok(())
    }

    /// Whether there is an object in each of these slots, and all is right with it. `false` means
    /// that one has to look.
    #[inline]
    pub(super) fn are_right<T: Object>(&self, slots: &[u64], class: usize) -> bool {
        let each = || slots.chunks_exact(words::<T>());
        each().all(|slot| slot::is_object(slot[0], class))
            && (T::ANY || each().all(|slot| flat::view_words::<T>(&slot[1..]).is_some()))
            && self.found[..self.count].iter().all(|column| column.leads(slots, words::<T>()))
    }
}

impl RefColumn<'_> {
    /// Whether a reference belongs to it that lies at a place behind it.
    fn is_before(&self, at: usize, to: &[u64]) -> bool {
        self.at + self.width == at && self.width < WIDTH_MAX && ptr::eq(self.to, to)
    }

    fn leads(&self, slots: &[u64], words: usize) -> bool {
        match self.width {
            1 => self.all_lead::<1>(slots, words),
            2 => self.all_lead::<2>(slots, words),
            3 => self.all_lead::<3>(slots, words),
            _ => self.all_lead::<WIDTH_MAX>(slots, words),
        }
    }

    /// Whether each reference is `None`, or leads to an object.
    ///
    /// The header that it leads to has its class besides its stamp, and is that of an object of
    /// the class it stands in, or the whole is refused when that class is passed.
    fn all_lead<const WIDTH: usize>(&self, slots: &[u64], words: usize) -> bool {
        let Self { at, to, stride, .. } = *self;
        assert!(at < words && WIDTH <= words - at, "a reference lies in its object");
        // There is nothing that one could lead to; else `None` is taken for one to the first.
        let to = if to.is_empty() { &[0][..] } else { to };
        let mut wrong = 0;
        for slot in slots.chunks_exact(words) {
            for &bits in &slot[at..at + WIDTH] {
                let index = (bits & 0xffff_ffff) as u32 as usize;
                let Some(header) = to.get(index * stride) else { return false };
                let is_some = u64::from(bits != 0).wrapping_neg();
                wrong |= (*header ^ (bits >> 32)) & is_some;
            }
        }
        wrong == 0
    }
}

/// Words from one slot to the next.
pub(super) const fn words<T>() -> usize {
    slot::stride(size_of::<T>()) / slot::ALIGN
}

/// References beside each other that are looked at together.
const WIDTH_MAX: usize = 4;
/// As many columns are remembered without memory of the heap.
const COLUMNS_MAX: usize = 16;
/// Objects for each class there is from which on the search for columns is a small part.
const OBJECTS_LEAST: usize = 4;
