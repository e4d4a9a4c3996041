//! The connections of a nic by their numbers.

use std::collections::BTreeMap;

/// Those that are open, and those that are over as long as somebody has a handle to them.
#[derive(Debug)]
pub(in crate::fabric) struct Links<K, L> {
    open: BTreeMap<K, L>,
    ended: BTreeMap<K, L>,
}

impl<K, L> Default for Links<K, L> {
    fn default() -> Self {
        Self { open: BTreeMap::new(), ended: BTreeMap::new() }
    }
}

impl<K: Ord + Copy, L> Links<K, L> {
    pub(in crate::fabric) fn insert(&mut self, id: K, link: L) {
        self.open.insert(id, link);
    }

    /// One that is open.
    #[inline]
    pub(in crate::fabric) fn get_mut(&mut self, id: &K) -> Option<&mut L> {
        self.open.get_mut(id)
    }

    pub(in crate::fabric) fn get(&self, id: &K) -> Option<&L> {
        self.open.get(id)
    }

    /// One that is open, or over.
    #[inline]
    pub(in crate::fabric) fn any_mut(&mut self, id: &K) -> Option<&mut L> {
        self.open.get_mut(id).or_else(|| self.ended.get_mut(id))
    }

    /// The connection of a handle, which has it until it is released.
    #[inline]
    pub(in crate::fabric) fn of_handle(&mut self, id: K) -> &mut L {
        self.any_mut(&id).expect("a handle keeps it")
    }

    /// The same, to look at.
    pub(in crate::fabric) fn find(&self, id: K) -> &L {
        self.open.get(&id).or_else(|| self.ended.get(&id)).expect("a handle keeps it")
    }

    /// How many are open.
    #[inline]
    pub(in crate::fabric) fn len(&self) -> usize {
        self.open.len()
    }

    /// The numbers of those that are open.
    pub(in crate::fabric) fn keys(&self) -> impl Iterator<Item = &K> {
        self.open.keys()
    }

    /// Those that are open.
    pub(in crate::fabric) fn values_mut(&mut self) -> impl Iterator<Item = &mut L> {
        self.open.values_mut()
    }

    /// One that was open is over.
    pub(in crate::fabric) fn end(&mut self, id: K) -> Option<&mut L> {
        let link = self.open.remove(&id)?;
        Some(self.ended.entry(id).or_insert(link))
    }

    /// The handle to one that is over is gone.
    pub(in crate::fabric) fn release(&mut self, id: K) {
        self.ended.remove(&id);
    }
}
