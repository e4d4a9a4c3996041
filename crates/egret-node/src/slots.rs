//! Things with numbers that are given again when they are free.

/// A number of [`SlotTable`], and which of those who had it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotKey {
    pub(crate) index: u32,
    life: u32,
}

impl SlotKey {
    /// A number that no other key of the same table has.
    pub(crate) const fn to_bits(self) -> u64 {
        (self.life as u64) << 32 | self.index as u64
    }
}

/// A table whose places have numbers from 0 on, the lowest free one next.
#[derive(Debug)]
pub(crate) struct SlotTable<T> {
    places: Vec<SlotEntry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct SlotEntry<T> {
    life: u32,
    value: Option<T>,
}

impl<T> Default for SlotTable<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> SlotTable<T> {
    /// Puts `value` into a free place.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> SlotKey {
        match self.free.pop() {
            Some(index) => {
                let place = &mut self.places[index as usize];
                place.value = Some(value);
                SlotKey { index, life: place.life }
            }
            None => self.grow(value),
        }
    }

    #[cold]
    fn grow(&mut self, value: T) -> SlotKey {
        let index = u32::try_from(self.places.len()).expect("fewer than four billion");
        self.places.push(SlotEntry { life: 0, value: Some(value) });
        SlotKey { index, life: 0 }
    }

    /// The value at this number now.
    #[inline]
    pub(crate) fn at(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.value.as_mut()
    }

    /// The same, and the key.
    #[inline]
    pub(crate) fn entry_at(&mut self, index: u32) -> Option<(SlotKey, &mut T)> {
        let place = self.places.get_mut(index as usize)?;
        let key = SlotKey { index, life: place.life };
        place.value.as_mut().map(|value| (key, value))
    }

    /// The key of who has the place of this number now.
    pub(crate) fn key_at(&self, index: u32) -> Option<SlotKey> {
        let place = self.places.get(index as usize)?;
        place.value.as_ref().map(|_| SlotKey { index, life: place.life })
    }

    #[inline]
    pub(crate) fn get(&mut self, key: SlotKey) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.life == key.life { place.value.as_mut() } else { None }
    }

    pub(crate) fn look(&self, key: SlotKey) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        if place.life == key.life { place.value.as_ref() } else { None }
    }

    /// Empties the place.
    #[inline]
    pub(crate) fn remove(&mut self, key: SlotKey) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.life != key.life {
            return None;
        }
        let value = place.value.take()?;
        place.life = place.life.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    /// Empties the place, and drops who had it there.
    #[inline]
    pub(crate) fn clear(&mut self, key: SlotKey) {
        if let Some(place) = self.places.get_mut(key.index as usize)
            && place.life == key.life
            && place.value.is_some()
        {
            place.value = None;
            place.life = place.life.wrapping_add(1);
            self.free.push(key.index);
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (SlotKey, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(index, place)| {
            let key = SlotKey { index: u32::try_from(index).ok()?, life: place.life };
            place.value.as_mut().map(|value| (key, value))
        })
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.value.as_ref())
    }

    /// The keys of all that are there.
    pub(crate) fn keys(&self) -> Vec<SlotKey> {
        (0..self.places.len()).filter_map(|i| self.key_at(u32::try_from(i).ok()?)).collect()
    }

    pub(crate) const fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_again_and_its_old_key_is_not_taken_for_it() {
        let mut slots = SlotTable::default();
        let first = slots.insert("a");
        let other = slots.insert("b");
        assert_eq!((first.index, other.index, slots.len()), (0, 1, 2));
        assert_eq!(slots.remove(first), Some("a"));
        assert_eq!(slots.remove(first), None);
        let again = slots.insert("c");
        assert_eq!(again.index, 0);
        assert!(slots.get(first).is_none() && slots.get(again) == Some(&mut "c"));
        assert_eq!(slots.at(0), Some(&mut "c"));
        assert_eq!(slots.keys(), [again, other]);
    }
}
