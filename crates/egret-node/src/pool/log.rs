//! A log of which the newest entries are kept.

use std::collections::VecDeque;

/// The newest entries of a log, each with its number: at most [`ENTRIES_MAX`] and [`BYTES_MAX`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BoundedLog<T> {
    /// The number of the first entry that is kept.
    first: u64,
    /// Each entry with its bytes.
    entries: VecDeque<(T, usize)>,
    bytes: usize,
}

impl<T> BoundedLog<T> {
    /// An empty log whose first entry will have this number.
    pub(crate) const fn beginning_at(first: u64) -> Self {
        Self { first, entries: VecDeque::new(), bytes: 0 }
    }

    /// Appends an entry of so many bytes, and drops the oldest ones that are too many by that.
    pub(crate) fn push(&mut self, entry: T, bytes: usize) {
        self.entries.push_back((entry, bytes));
        self.bytes += bytes;
        while self.entries.len() > ENTRIES_MAX || (self.bytes > BYTES_MAX && self.entries.len() > 1)
        {
            let dropped = self.entries.pop_front().map_or(0, |(_, bytes)| bytes);
            self.bytes -= dropped;
            self.first += 1;
        }
    }

    /// The number of the oldest entry that is kept.
    pub(crate) const fn first(&self) -> u64 {
        self.first
    }

    /// The number of the entry that comes next.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The entry of this number, if it is kept.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get(index).map(|(entry, _)| entry)
    }

    /// The entries that are kept.
    #[cfg(test)]
    pub(crate) fn to_vec(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.from(self.first).map(|(entry, _)| entry.clone()).collect()
    }

    /// The entries from this number on, each with its bytes; none if some of them are dropped.
    pub(crate) fn from(&self, number: u64) -> impl Iterator<Item = (&T, usize)> {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let index = index.unwrap_or(usize::MAX).min(self.entries.len());
        self.entries.range(index..).map(|(entry, bytes)| (entry, *bytes))
    }
}

/// Entries of a log that are kept.
pub(crate) const ENTRIES_MAX: usize = 64 << 10;
/// Bytes of them, unless one entry has more.
pub(crate) const BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_are_kept_by_their_numbers() {
        let mut log = BoundedLog::beginning_at(7);
        for number in 7..7 + 2 * ENTRIES_MAX as u64 {
            assert_eq!(log.next(), number);
            log.push(number, 1);
        }
        assert_eq!(log.first(), 7 + ENTRIES_MAX as u64);
        assert_eq!(log.get(log.first() - 1), None);
        assert_eq!(log.get(log.first()), Some(&log.first()));
        assert_eq!(log.from(log.next() - 2).count(), 2);
        assert_eq!(log.from(0).count(), 0, "entry 0 is dropped");
        log.push(0, BYTES_MAX);
        assert_eq!((log.from(log.first()).count(), log.bytes), (1, BYTES_MAX));
        log.push(0, 2 * BYTES_MAX);
        assert_eq!((log.next() - log.first(), log.bytes), (1, 2 * BYTES_MAX));
    }
}
