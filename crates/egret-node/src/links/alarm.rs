//! Alarms: tasks that are woken at a moment, by the thread that drives the links.

use std::collections::BTreeMap;
use std::fmt;
use std::task::Waker;

use egret_net::rt::Instant;

use super::Links;
use super::state::LinksState;
use crate::wakers::DeferredWaker;

impl Links {
    /// Wakes a task at a moment. The thread or event loop that drives the links then wakes the task,
    /// and sleeps no longer than until that moment. Links that no thread drives wake no task.
    ///
    /// ```
    /// # use std::future::poll_fn;
    /// # use std::task::Poll;
    /// # use std::time::Duration;
    /// # use egret_net::fabric::{Fabric, shm::ShmFabric};
    /// # use egret_net::rt;
    /// # use egret_net::vi::NicOptions;
    /// # use egret_node::{Links, LinksOptions};
    /// # let nic = ShmFabric.open(&NicOptions::new(&format!("alarm-{}", std::process::id())))?;
    /// let links = Links::open(nic, LinksOptions::default())?;
    /// let (at, mut alarm) = (rt::now() + Duration::from_millis(5), None);
    /// links.block_on(poll_fn(|context| {
    ///     if rt::now() >= at {
    ///         return Poll::Ready(());
    ///     }
    ///     alarm = Some(links.alarm(at, context.waker()));
    ///     Poll::Pending
    /// }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn alarm(&self, at: Instant, waker: &Waker) -> Alarm {
        let (key, is_unheard) = self.core.state.with(|state| state.alarms.set(at, waker));
        if is_unheard {
            self.core.nic.wake();
        }
        Alarm { links: self.clone(), key }
    }
}

/// An alarm that was set by [`Links::alarm`], which has an example. A dropped alarm does not ring.
#[must_use = "dropped, it does not ring"]
pub struct Alarm {
    links: Links,
    key: AlarmKey,
}

impl Alarm {
    /// Wakes another task instead. Returns false if the alarm has rung: it wakes no task any more
    /// then.
    #[must_use]
    pub fn set_waker(&self, waker: &Waker) -> bool {
        self.links.core.state.with(|state| state.alarms.set_waker(self.key, waker))
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.links.core.state.with(|state| state.alarms.remove(self.key));
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("at", &self.key.0).finish_non_exhaustive()
    }
}

impl LinksState {
    /// Wakes the tasks whose alarms are due.
    pub(super) fn ring_alarms(&mut self) {
        if self.alarms.is_set() {
            self.alarms.ring(self.fixed.nic.now());
        }
    }
}

/// When an alarm rings, and its number, which orders alarms of the same moment.
type AlarmKey = (Instant, u64);

/// The alarms of the links of a nic: a state machine.
#[derive(Debug, Default)]
pub(crate) struct AlarmQueue {
    set: BTreeMap<AlarmKey, DeferredWaker>,
    /// How many were set so far.
    count: u64,
    /// The moment that was last returned to a driver, which sleeps no longer than until then. An alarm
    /// that is set to an earlier moment wakes the driver.
    told: Option<Instant>,
    /// How often that moment is returned to drivers after the last alarm was removed, before they are
    /// told that there is none: else each of many calls that are awaited one after the other would
    /// wake the driver.
    repeats: u32,
}

impl AlarmQueue {
    /// Sets an alarm. Also returns whether drivers must be woken, because they would sleep for longer.
    pub(super) fn set(&mut self, at: Instant, waker: &Waker) -> (AlarmKey, bool) {
        let key = (at, self.count);
        self.count += 1;
        self.set.insert(key, DeferredWaker::of(waker));
        self.repeats = REPEATS_MAX;
        let is_unheard = self.told.is_none_or(|told| at < told);
        if is_unheard {
            self.told = Some(at);
        }
        (key, is_unheard)
    }

    fn set_waker(&mut self, key: AlarmKey, waker: &Waker) -> bool {
        let Some(known) = self.set.get_mut(&key) else { return false };
        if !known.is(waker) {
            *known = DeferredWaker::of(waker);
        }
        true
    }

    fn remove(&mut self, key: AlarmKey) {
        self.set.remove(&key);
    }

    /// Whether an alarm is set.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        !self.set.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.set.len()
    }

    /// Whether drivers are returned a moment.
    #[inline]
    pub(super) const fn is_told(&self) -> bool {
        self.told.is_some()
    }

    /// Until when a driver may sleep.
    pub(super) fn next(&mut self) -> Option<Instant> {
        match self.set.first_key_value() {
            Some(((at, _), _)) => self.told = Some(*at),
            None if self.repeats > 0 => self.repeats -= 1,
            None => self.told = None,
        }
        self.told
    }

    /// Wakes the tasks whose moment has come, at most [`RINGS_MAX`] of them. If there are more, the next
    /// moment has passed already.
    fn ring(&mut self, now: Instant) {
        for _ in 0..RINGS_MAX {
            match self.set.first_entry() {
                Some(first) if first.key().0 <= now => first.remove().wake(),
                _ => return,
            }
        }
    }
}

/// See [`AlarmQueue::repeats`]; above the number of times that a driver asks between two calls.
const REPEATS_MAX: u32 = 16;
/// Alarms that ring under one entry of the lock.
const RINGS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    struct Rings(AtomicU32);

    impl Wake for Rings {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn rings() -> (Arc<Rings>, Waker) {
        let rings = Arc::new(Rings(AtomicU32::new(0)));
        (Arc::clone(&rings), Waker::from(rings))
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn alarms_ring_in_their_order_and_not_before() {
        let mut alarms = AlarmQueue::default();
        let all = [(); 4].map(|()| rings());
        for (when, (_, waker)) in [30, 10, 20, 10].into_iter().zip(&all) {
            _ = alarms.set(at(when), waker);
        }
        let rang = || all.each_ref().map(|(rings, _)| rings.0.load(Ordering::Relaxed));
        for (now, first, expected) in [
            (9, Some(10), [0, 0, 0, 0]),
            (10, Some(20), [0, 1, 0, 1]),
            (29, Some(30), [0, 1, 1, 1]),
        ] {
            alarms.ring(at(now));
            assert_eq!((alarms.next(), rang()), (first.map(at), expected), "at {now} ms");
        }
        alarms.ring(at(30));
        assert_eq!(rang(), [1; 4]);
        assert!(!alarms.is_set());
    }

    #[test]
    fn an_alarm_that_is_removed_or_given_to_another_wakes_nobody_else() {
        let mut alarms = AlarmQueue::default();
        let [(a, wakes_a), (b, wakes_b)] = [(); 2].map(|()| rings());
        let (removed, _) = alarms.set(at(1), &wakes_a);
        let (given, _) = alarms.set(at(1), &wakes_a);
        alarms.remove(removed);
        assert!(alarms.set_waker(given, &wakes_b));
        alarms.ring(at(1));
        assert_eq!([a, b].map(|rings| rings.0.load(Ordering::Relaxed)), [0, 1]);
        // Both are gone, and nothing comes of it.
        assert!(!alarms.set_waker(given, &wakes_a));
        alarms.remove(given);
        assert!(!alarms.is_set());
    }

    #[test]
    fn a_driver_is_woken_if_it_would_sleep_for_too_long() {
        let mut alarms = AlarmQueue::default();
        let (_, waker) = rings();
        let set = |alarms: &mut AlarmQueue, ms| alarms.set(at(ms), &waker);
        assert_eq!(alarms.next(), None);
        let (first, is_unheard) = set(&mut alarms, 50);
        assert!(is_unheard, "it sleeps without an end");
        assert!(!set(&mut alarms, 60).1);
        let (sooner, is_unheard) = set(&mut alarms, 40);
        assert!(is_unheard);
        assert_eq!(alarms.next(), Some(at(40)));
        alarms.remove(sooner);
        assert!(!set(&mut alarms, 45).1, "it wakes at 40, and looks again");
        assert_eq!(alarms.next(), Some(at(45)));
        alarms.remove(first);
        assert!(set(&mut alarms, 42).1);
    }

    #[test]
    fn calls_one_after_the_other_do_not_wake_the_driver() {
        let mut alarms = AlarmQueue::default();
        let (_, waker) = rings();
        let mut woken = 0;
        for call in 0..1_000 {
            let (key, is_unheard) = alarms.set(at(30_000 + call), &waker);
            woken += u32::from(is_unheard);
            alarms.next();
            alarms.remove(key);
            // Who drives looks a few times more, and sleeps.
            (0..3).for_each(|_| _ = alarms.next());
        }
        assert_eq!(woken, 1);
        let told = std::iter::from_fn(|| alarms.next()).count();
        assert!(told < 100, "told {told} times of an alarm that is not there");
        assert!(!alarms.is_told());
    }

    #[test]
    fn ten_thousand_ring_in_turns() {
        let mut alarms = AlarmQueue::default();
        let (rings, waker) = rings();
        let keys: Vec<_> = (0..10_000).map(|n| alarms.set(at(n % 100), &waker).0).collect();
        keys.iter().step_by(2).for_each(|key| alarms.remove(*key));
        let mut turns = 0;
        while alarms.next().is_some_and(|next| next <= at(99)) && alarms.is_set() {
            alarms.ring(at(99));
            turns += 1;
        }
        assert_eq!(rings.0.load(Ordering::Relaxed), 5_000);
        assert_eq!(turns, 5_000_usize.div_ceil(RINGS_MAX));
    }
}
