//! The connections of a nic, by number.

use std::collections::BTreeMap;

/// The open connections of a nic, and the closed ones to which the program still has a handle.
#[derive(Debug)]
pub(in crate::fabric) struct ConnectionTable<K, L> {
    pub open: BTreeMap<K, L>,
    ended: BTreeMap<K, L>,
}

impl<K, L> Default for ConnectionTable<K, L> {
    fn default() -> Self {
        Self { open: BTreeMap::new(), ended: BTreeMap::new() }
    }
}

impl<K: Ord + Copy, L> ConnectionTable<K, L> {
    /// A connection, open or closed.
    #[inline]
    pub(in crate::fabric) fn any(&mut self, id: &K) -> Option<&mut L> {
        self.open.get_mut(id).or_else(|| self.ended.get_mut(id))
    }

    /// The connection of a handle, which has it until it is released.
    #[inline]
    pub(in crate::fabric) fn of_handle(&mut self, id: K) -> &mut L {
        self.any(&id).expect("a handle keeps it")
    }

    /// The connection of a handle, shared.
    pub(in crate::fabric) fn find(&self, id: K) -> &L {
        self.open.get(&id).or_else(|| self.ended.get(&id)).expect("a handle keeps it")
    }

    /// Moves a connection to the closed ones.
    pub(in crate::fabric) fn end(&mut self, id: K) -> Option<&mut L> {
        let link = self.open.remove(&id)?;
        Some(self.ended.entry(id).or_insert(link))
    }

    /// Drops a closed connection: its handle is gone.
    pub(in crate::fabric) fn release(&mut self, id: K) {
        self.ended.remove(&id);
    }
}
