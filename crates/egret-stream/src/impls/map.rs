//! Maps and sets. A key that comes twice is an error.

#![expect(clippy::disallowed_types, reason = "programs have such maps; nothing here makes one up")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use crate::describe::{Describe, PlanCursor};
use crate::error::WireError;
use crate::reader::Reader;
use crate::wire::{FromWire, Stop, Wire, WireSize, Written};
use crate::writer::Writer;

/// Writes the pairs of a map, given how many there are.
#[inline]
pub(crate) fn write_pairs<'w, K: Wire + 'w, V: Wire + 'w>(
    len: usize,
    pairs: impl Iterator<Item = (&'w K, &'w V)>,
    w: &mut Writer<'w>,
) -> Written {
    w.length(len)?;
    w.nested::<(K, V), _>(|w| {
        for (key, value) in pairs {
            w.element(|w| key.write(w), K::SIZE.and(V::SIZE))?;
            value.write(w)?;
        }
        Ok(())
    })
}

/// Writes the elements of a set, given how many there are.
#[inline]
pub(crate) fn write_set<'w, T: Wire + 'w>(
    len: usize,
    elements: impl Iterator<Item = &'w T>,
    w: &mut Writer<'w>,
) -> Written {
    w.length(len)?;
    w.nested::<T, _>(|w| {
        for element in elements {
            w.element(|w| element.write(w), T::SIZE)?;
        }
        Ok(())
    })
}

/// Reads pairs and gives each to `insert`, which says whether it was new; `memory` is that of
/// so many of a size.
#[inline]
pub(crate) fn read_pairs<'a, K: FromWire<'a>, V: FromWire<'a>, M>(
    r: &mut Reader<'a>,
    memory: fn(usize, usize) -> usize,
    make: impl FnOnce(usize) -> M,
    mut insert: impl FnMut(&mut M, K, V) -> bool,
) -> Result<M, Stop> {
    let len = r.length(K::SIZE.and(V::SIZE).of_element())?;
    r.nested::<(K, V), _, _>(|r| {
        let mut room = Room::new::<(K, V), M>(r, memory, len)?;
        let mut map = make(room.ready);
        for done in 0..len {
            room.for_one::<(K, V), M>(r, done)?;
            let (key, value) = r.element()?;
            if !insert(&mut map, key, value) {
                return Err(r.fail(WireError::Duplicate));
            }
        }
        Ok(map)
    })
}

/// Reads pairs of another version as [`read_pairs`] does.
fn planned_pairs<'a, K: FromWire<'a>, V: FromWire<'a>, M>(
    r: &mut Reader<'a>,
    plan: PlanCursor<'_>,
    memory: fn(usize, usize) -> usize,
    make: impl FnOnce(usize) -> M,
    mut insert: impl FnMut(&mut M, K, V) -> bool,
) -> Result<M, Stop> {
    let len = r.length(1)?;
    r.nested::<(K, V), _, _>(|r| {
        let mut room = Room::new::<(K, V), M>(r, memory, len)?;
        let mut map = make(room.ready);
        for done in 0..len {
            room.for_one::<(K, V), M>(r, done)?;
            r.mark(plan)?;
            let (key, value) =
                (K::read_planned(r, plan.part(0))?, V::read_planned(r, plan.part(1))?);
            if !insert(&mut map, key, value) {
                return Err(r.fail(WireError::Duplicate));
            }
        }
        Ok(map)
    })
}

/// Reads elements of another version as [`read_set`] does.
fn planned_set<'a, T: FromWire<'a>, S>(
    r: &mut Reader<'a>,
    plan: PlanCursor<'_>,
    memory: fn(usize, usize) -> usize,
    make: impl FnOnce(usize) -> S,
    mut insert: impl FnMut(&mut S, T) -> bool,
) -> Result<S, Stop> {
    let len = r.length(1)?;
    r.nested::<T, _, _>(|r| {
        let mut room = Room::new::<T, S>(r, memory, len)?;
        let mut set = make(room.ready);
        for done in 0..len {
            room.for_one::<T, S>(r, done)?;
            r.mark(plan)?;
            let element = T::read_planned(r, plan.part(0))?;
            if !insert(&mut set, element) {
                return Err(r.fail(WireError::Duplicate));
            }
        }
        Ok(set)
    })
}

/// Reads elements as [`read_pairs`] does.
#[inline]
pub(crate) fn read_set<'a, T: FromWire<'a>, S>(
    r: &mut Reader<'a>,
    memory: fn(usize, usize) -> usize,
    make: impl FnOnce(usize) -> S,
    mut insert: impl FnMut(&mut S, T) -> bool,
) -> Result<S, Stop> {
    let len = r.length(T::SIZE.of_element())?;
    r.nested::<T, _, _>(|r| {
        let mut room = Room::new::<T, S>(r, memory, len)?;
        let mut set = make(room.ready);
        for done in 0..len {
            room.for_one::<T, S>(r, done)?;
            let element = r.element()?;
            if !insert(&mut set, element) {
                return Err(r.fail(WireError::Duplicate));
            }
        }
        Ok(set)
    })
}

/// For how many of `len` entries the memory is charged: for all of them if they have arrived.
struct Room {
    len: usize,
    ready: usize,
    memory: fn(usize, usize) -> usize,
}

impl Room {
    #[inline]
    fn new<T, M>(
        r: &mut Reader<'_>,
        memory: fn(usize, usize) -> usize,
        len: usize,
    ) -> Result<Self, Stop> {
        let ready = r.batch::<T>(0, len);
        r.charge::<M>(memory(ready, size_of::<T>()))?;
        Ok(Self { len, ready, memory })
    }

    /// Charges that of the entries that follow, if `done` are all that were.
    #[inline]
    fn for_one<T, M>(&mut self, r: &mut Reader<'_>, done: usize) -> Result<(), Stop> {
        if done < self.ready {
            return Ok(());
        }
        let before = (self.memory)(self.ready, size_of::<T>());
        self.ready += r.batch::<T>(done, self.len);
        r.charge::<M>((self.memory)(self.ready, size_of::<T>()).saturating_sub(before))
    }
}

/// The memory of a tree of `len` entries of a size: its nodes have room for 11, and but for the
/// root at least 5.
fn tree_bytes(len: usize, each: usize) -> usize {
    let nodes = match len {
        0 => 0,
        1..=11 => 1,
        more => more.div_ceil(5),
    };
    each.saturating_mul(11).saturating_add(NODE_BYTES).saturating_mul(nodes)
}

/// What a node has besides its entries, with its share of the nodes above.
const NODE_BYTES: usize = 64;

/// The memory of a hash table of `len` entries of a size: a power of two of them, of which an
/// eighth stays free, with a byte for each.
fn table_bytes(len: usize, each: usize) -> usize {
    let slots = match len {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        more => (more / 7).saturating_add(more).checked_next_power_of_two().unwrap_or(usize::MAX),
    };
    each.saturating_add(1).saturating_mul(slots).saturating_add(16)
}

fn describe_map<K: Wire, V: Wire>(d: &mut Describe) {
    d.group("map", |d| {
        d.field::<K>("key");
        d.field::<V>("value");
    });
}

impl<K: Wire, V: Wire> Wire for BTreeMap<K, V> {
    const SIZE: WireSize = WireSize::at_least(4);
    fn describe(d: &mut Describe) {
        describe_map::<K, V>(d);
    }
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        write_pairs(self.len(), self.iter(), w)
    }
    fn blank() -> Option<Self> {
        Some(Self::new())
    }
}

impl<'a, K: FromWire<'a> + Ord, V: FromWire<'a>> FromWire<'a> for BTreeMap<K, V> {
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        read_pairs(
            r,
            tree_bytes,
            |_| Self::new(),
            |map, key, value| map.insert(key, value).is_none(),
        )
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        if plan.is_same() {
            return Self::read(r);
        }
        let insert = |map: &mut Self, key, value| map.insert(key, value).is_none();
        planned_pairs(r, plan, tree_bytes, |_| Self::new(), insert)
    }
}

impl<K: Wire, V: Wire, S> Wire for HashMap<K, V, S> {
    const SIZE: WireSize = WireSize::at_least(4);
    fn describe(d: &mut Describe) {
        describe_map::<K, V>(d);
    }
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        write_pairs(self.len(), self.iter(), w)
    }
}

impl<'a, K, V, S> FromWire<'a> for HashMap<K, V, S>
where
    K: FromWire<'a> + Eq + Hash,
    V: FromWire<'a>,
    S: BuildHasher + Default,
{
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        let make = |capacity| Self::with_capacity_and_hasher(capacity, S::default());
        read_pairs(r, table_bytes, make, |map, key, value| map.insert(key, value).is_none())
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        if plan.is_same() {
            return Self::read(r);
        }
        let make = |capacity| Self::with_capacity_and_hasher(capacity, S::default());
        let insert = |map: &mut Self, key, value| map.insert(key, value).is_none();
        planned_pairs(r, plan, table_bytes, make, insert)
    }
}

impl<T: Wire> Wire for BTreeSet<T> {
    const SIZE: WireSize = WireSize::at_least(4);
    fn describe(d: &mut Describe) {
        d.group("set", T::describe);
    }
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        write_set(self.len(), self.iter(), w)
    }
    fn blank() -> Option<Self> {
        Some(Self::new())
    }
}

impl<'a, T: FromWire<'a> + Ord> FromWire<'a> for BTreeSet<T> {
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        read_set(r, tree_bytes, |_| Self::new(), Self::insert)
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        match plan.is_same() {
            true => Self::read(r),
            false => planned_set(r, plan, tree_bytes, |_| Self::new(), Self::insert),
        }
    }
}

impl<T: Wire, S> Wire for HashSet<T, S> {
    const SIZE: WireSize = WireSize::at_least(4);
    fn describe(d: &mut Describe) {
        d.group("set", T::describe);
    }
    fn write<'w>(&'w self, w: &mut Writer<'w>) -> Written {
        write_set(self.len(), self.iter(), w)
    }
}

impl<'a, T, S> FromWire<'a> for HashSet<T, S>
where
    T: FromWire<'a> + Eq + Hash,
    S: BuildHasher + Default,
{
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        let make = |capacity| Self::with_capacity_and_hasher(capacity, S::default());
        read_set(r, table_bytes, make, Self::insert)
    }
    fn read_planned(r: &mut Reader<'a>, plan: PlanCursor<'_>) -> Result<Self, Stop> {
        if plan.is_same() {
            return Self::read(r);
        }
        let make = |capacity| Self::with_capacity_and_hasher(capacity, S::default());
        planned_set(r, plan, table_bytes, make, Self::insert)
    }
}

/// Hash maps and sets whose bytes are the same for the same contents.
///
/// ```
/// # #![allow(clippy::disallowed_types)]
/// use std::collections::HashMap;
///
/// #[derive(egret_stream::Wire)]
/// struct Prices {
///     #[wire(with = egret_stream::canonical)]
///     by_name: HashMap<String, f64>,
/// }
/// ```
pub mod canonical {
    use super::{BTreeMap, BTreeSet, BuildHasher, HashMap, HashSet};
    use super::{Describe, FromWire, Hash, Reader, Stop, Wire, Writer, Written};

    /// Something whose order is not its own.
    /// The [module](super::canonical) has an example.
    pub trait Unordered: Wire {
        /// Writes it in order.
        ///
        /// # Errors
        ///
        /// The writer knows why.
        fn write_ordered<'w>(&'w self, w: &mut Writer<'w>) -> Written;
    }

    impl<K: Wire + Ord + Eq + Hash, V: Wire, S: BuildHasher> Unordered for HashMap<K, V, S> {
        fn write_ordered<'w>(&'w self, w: &mut Writer<'w>) -> Written {
            let ordered: BTreeMap<&K, &V> = self.iter().collect();
            super::write_pairs(ordered.len(), ordered.into_iter(), w)
        }
    }

    impl<T: Wire + Ord + Eq + Hash, S: BuildHasher> Unordered for HashSet<T, S> {
        fn write_ordered<'w>(&'w self, w: &mut Writer<'w>) -> Written {
            let ordered: BTreeSet<&T> = self.iter().collect();
            super::write_set(ordered.len(), ordered.into_iter(), w)
        }
    }

    /// Writes in order.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    pub fn write<'w, T: Unordered>(value: &'w T, w: &mut Writer<'w>) -> Written {
        value.write_ordered(w)
    }

    /// Reads in any order.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    pub fn read<'a, T: FromWire<'a>>(r: &mut Reader<'a>) -> Result<T, Stop> {
        T::read(r)
    }

    /// As it is without order.
    pub fn describe<T: Wire>(d: &mut Describe) {
        T::describe(d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_charged_what_it_takes() {
        for len in 1..5000 {
            let set = HashSet::<u64>::with_capacity(len);
            let free = if set.capacity() < 8 { 1 } else { set.capacity() / 7 };
            let slots = set.capacity() + free;
            assert!(table_bytes(len, 8) >= slots * 9, "{len}: {slots}");
            assert!(table_bytes(len, 8) <= 3 * len * 9 + 64, "{len}");
        }
        assert_eq!(table_bytes(usize::MAX, 8), usize::MAX);
        assert_eq!(tree_bytes(usize::MAX, 8), usize::MAX);
    }
}
