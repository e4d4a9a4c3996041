//! Fair queue: callers take turns, so that a caller with many waiting calls does not delay one with a single call.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// What waits, each with the turn of its caller in which it comes: the first of every caller
/// comes before the second of any. Within a turn, and of one caller, the order is that in which
/// they came.
#[derive(Debug)]
pub(crate) struct FairQueue<K: Ord, T> {
    waiting: BinaryHeap<FairQueueEntry<T>>,
    /// The turn of each caller's last one. Those that have passed mean nothing.
    last: BTreeMap<K, u64>,
    /// How many of them there are when those that have passed are forgotten.
    remembered: usize,
    /// The turn that is being served.
    turn: u64,
    next: u64,
}

#[derive(Debug)]
struct FairQueueEntry<T> {
    turn: u64,
    number: u64,
    what: T,
}

impl<K: Ord + Copy, T> FairQueue<K, T> {
    pub(crate) fn push(&mut self, caller: K, what: T) {
        if self.last.len() >= self.remembered {
            let now = self.turn;
            self.last.retain(|_, last| *last > now);
            self.remembered = (2 * self.last.len()).max(REMEMBERED);
        }
        let last = self.last.entry(caller).or_insert(0);
        *last = self.turn.max(*last) + 1;
        self.waiting.push(FairQueueEntry { turn: *last, number: self.next, what });
        self.next += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let first = self.waiting.pop()?;
        self.turn = first.turn;
        Some(first.what)
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.waiting.retain(|waiting| keep(&waiting.what));
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// All that waits.
    pub(crate) fn into_all(self) -> impl Iterator<Item = T> {
        self.waiting.into_iter().map(|waiting| waiting.what)
    }
}

impl<K: Ord, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        let (waiting, last) = (BinaryHeap::new(), BTreeMap::new());
        Self { waiting, last, remembered: REMEMBERED, turn: 0, next: 0 }
    }
}

/// Greater is what comes first.
impl<T> Ord for FairQueueEntry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.turn, other.number).cmp(&(self.turn, self.number))
    }
}

impl<T> PartialOrd for FairQueueEntry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for FairQueueEntry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for FairQueueEntry<T> {}

/// Callers whose turns may be remembered though they have passed.
const REMEMBERED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn all(turns: &mut FairQueue<u32, u32>) -> Vec<u32> {
        std::iter::from_fn(|| turns.pop()).collect()
    }

    #[test]
    fn callers_take_turns_and_the_calls_of_each_stay_in_order() {
        let mut turns = FairQueue::default();
        (10..15).for_each(|call| turns.push(1, call));
        (20..22).for_each(|call| turns.push(2, call));
        assert_eq!(all(&mut turns), [10, 20, 11, 21, 12, 13, 14]);
        // Who comes later waits for no turns that others have had, and owes none.
        (10..14).for_each(|call| turns.push(1, call));
        assert_eq!((turns.pop(), turns.pop()), (Some(10), Some(11)));
        turns.push(3, 30);
        turns.push(1, 14);
        assert_eq!(all(&mut turns), [12, 30, 13, 14]);
    }

    #[test]
    fn what_is_taken_out_changes_nothing_for_others() {
        let mut turns = FairQueue::default();
        (10..14).for_each(|call| turns.push(1, call));
        turns.push(2, 20);
        turns.retain(|call| *call != 11);
        assert_eq!((turns.len(), all(&mut turns)), (4, vec![10, 20, 12, 13]));
        assert!(turns.is_empty());
    }

    #[test]
    fn callers_that_have_gone_are_forgotten() {
        let mut turns = FairQueue::default();
        for caller in 0..1000 {
            turns.push(caller, caller);
            assert_eq!(turns.pop(), Some(caller));
        }
        assert!(turns.last.len() <= REMEMBERED);
    }
}
