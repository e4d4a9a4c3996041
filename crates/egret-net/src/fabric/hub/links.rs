//! The connections of a nic by their numbers.

use std::collections::BTreeMap;

/// Those that are open, and those that are over as long as somebody has a handle to them.
#[derive(Debug)]
pub(in crate::fabric) struct Links<K, L> {
    pub open: BTreeMap<K, L>,
    ended: BTreeMap<K, L>,
}

impl<K, L> Default for Links<K, L> {
    fn default() -> Self {
        Self { open: BTreeMap::new(), ended: BTreeMap::new() }
    }
}

impl<K: Ord + Copy, L> Links<K, L> {
    /// One that is open, or over.
    #[inline]
    pub(in crate::fabric) fn any(&mut self, id: &K) -> Option<&mut L> {
        self.open.get_mut(id).or_else(|| self.ended.get_mut(id))
    }

    /// The connection of a handle, which has it until it is released.
    #[inline]
    pub(in crate::fabric) fn of_handle(&mut self, id: K) -> &mut L {
        self.any(&id).expect("a handle keeps it")
    }

    /// The same, to look at.
    pub(in crate::fabric) fn find(&self, id: K) -> &L {
        self.open.get(&id).or_else(|| self.ended.get(&id)).expect("a handle keeps it")
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
