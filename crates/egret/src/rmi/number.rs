//! Numbers of calls.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number by which a call can be cancelled: none is given twice in a process, and none is 0.
#[inline]
pub(crate) fn new_number() -> u64 {
    NUMBERS.with(|own| {
        let (next, end) = own.get();
        let next = if next < end { next } else { TAKEN.fetch_add(NUMBERS_TAKEN, Relaxed) };
        let end = next | (NUMBERS_TAKEN - 1);
        own.set((next + 1, end + 1));
        next
    })
}

thread_local! {
    /// The numbers that the thread gives: the next one, and behind the last.
    static NUMBERS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The first number that no thread has taken.
static TAKEN: AtomicU64 = AtomicU64::new(NUMBERS_TAKEN);
/// Numbers that a thread takes at once.
const NUMBERS_TAKEN: u64 = 1 << 10;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use egret_net::rt;

    use super::*;

    #[test]
    fn no_call_has_the_number_of_another() {
        let some = || (0..3 * NUMBERS_TAKEN).map(|_| new_number()).collect::<Vec<_>>();
        let spawned = [(); 4].map(|()| rt::spawn("numbers", some).expect("a thread"));
        let mut all = some();
        all.extend(spawned.into_iter().flat_map(|it| it.join().expect("it does not panic")));
        let count = all.len();
        let all = BTreeSet::from_iter(all);
        assert_eq!(all.len(), count);
        assert!(!all.contains(&0), "0 is no number");
    }
}
