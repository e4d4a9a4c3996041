//! The spin policy: how a thread spends its time between its first look for what it waits for
//! and its sleep.
//!
//! The looks are the caller's: it drains, takes a completion, feeds its links. What lies between
//! them is the policy's. Looks come in rounds of 16 in which the clock is not asked: the clock costs
//! as much as a look that finds nothing, and a round lasts about as long as a message there and one
//! back, so that what comes at once is found without the clock. A look that drains asks the fabric
//! itself; it drives the nic with every fourth look only, and if it does nothing else a round has
//! 64 of them. A
//! `Frugal` nic is driven once, looks once more and sleeps. A `Spin` nic adds round to round. A
//! `Balanced` nic looks for 8 rounds, some round trips, for a sleep costs a hundred looks; but
//! looking pays only while the peer runs on another core, and otherwise takes the time of that
//! peer. What the last waits came to says which it is: after 2 waits in vain a wait has one round,
//! which is less than a system call takes, and one wait in 16 has all 8, in case the peer has its
//! core again. When the rounds are spent the thread gives way up to 16 times, for the peer may be
//! the next to run on this core; but to give way to a thread that computes is to stand still for
//! a time slice, while a sleeper that is woken comes first. So a turn of more than 50 µs, a few
//! times a sleep and a wake-up, is the last one, and the next 64 waits sleep without giving way.
//! A look takes the cache line away from a peer that is about to write it: a thread that has found
//! something 4 times without sending anything only listens, and pauses 16 times before each look,
//! in which the peer writes a few messages. A thread that answers pauses once before a look that
//! drives the nic, which reads several lines of the peer, and not at all before one that drains.
//! A side that only listens and takes messages faster than the peer writes them finds one each
//! time, in the line that the peer is writing: after a drain that has taken all it pauses 128
//! times, in which some tens of messages are written.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use super::Hub;
use crate::rt::{self, Deadline, Instant};
use crate::vi::machine::EventCount;
use crate::vi::{Nic, Op, Posted, Wait};

/// One wait of a thread for something of a [`Nic`](crate::vi::Nic): what it does between two
/// looks.
///
/// ```no_run
/// # use egret_net::{rt::Instant, vi::Nic};
/// # fn look() -> bool { true }
/// # fn run(nic: &Nic, deadline: Option<Instant>) -> bool {
/// let mut spin = nic.spin();
/// loop {
///     if look() {
///         return true;
///     }
///     if spin.again() {
///         continue;
///     }
///     if deadline.is_some_and(|deadline| nic.now() >= deadline) {
///         return false;
///     }
///     spin.wait(deadline);
/// }
/// # }
/// ```
#[doc(hidden)]
#[derive(Debug)]
pub struct Spin<'a> {
    hub: &'a Hub,
    /// What had happened when the nic was last driven, before the last look.
    seen: EventCount,
    /// Looks for one that drives the nic.
    per_drive: u32,
    /// Looks of a round.
    round: u32,
    /// Looks of this round so far.
    looks: u32,
    /// Rounds so far.
    rounds: u32,
    /// How often the thread is still to give way. `None` while it has rounds left.
    yields: Option<u32>,
}

impl<'a> Spin<'a> {
    #[inline]
    fn new(hub: &'a Hub, per_drive: u32, round: u32) -> Self {
        let spins = hub.wait != Wait::Frugal && hub.world.is_none();
        let per_drive = if spins { per_drive } else { 1 };
        let round = if spins { round } else { 1 };
        Self { hub, seen: hub.seen(), per_drive, round, looks: 0, rounds: 0, yields: None }
    }

    /// Whether to look again without asking the clock. Drives the nic now and then, with the last
    /// look of a round at the latest.
    #[inline]
    pub fn again(&mut self) -> bool {
        if self.looks == self.round {
            return false;
        }
        self.looks += 1;
        self.hub.history.pause(self.per_drive == 1);
        if self.looks.is_multiple_of(self.per_drive) {
            self.drive();
        }
        true
    }

    /// While something happens, if only for others, the rounds are not spent.
    #[inline]
    fn drive(&mut self) {
        let seen = self.hub.progress();
        if seen != self.seen {
            self.hub.history.heard();
            (self.seen, self.rounds, self.yields) = (seen, 0, None);
        }
    }

    /// Waits on after the last look of a round, in the way that the nic waits, at the latest
    /// `until`. May return early; the caller looks in any case.
    pub fn wait(&mut self, until: Option<Instant>) {
        self.go_on(until);
    }

    /// Whether it has slept.
    fn go_on(&mut self, until: Option<Instant>) -> bool {
        let hub = self.hub;
        if hub.world.is_none() && hub.wait == Wait::Balanced && self.has_rounds() {
            self.looks = 0;
            return false;
        }
        rt::waits::show();
        if let Some(world) = &hub.world {
            self.seen = hub.wait_in(&**world, self.seen, until);
            return true;
        }
        match hub.wait {
            Wait::Spin => self.looks = 0,
            Wait::Balanced if self.gives_way() => {}
            Wait::Balanced => {
                self.sleep(until);
                (self.looks, self.rounds, self.yields) = (0, 0, None);
                return true;
            }
            Wait::Frugal => {
                self.sleep(until);
                return true;
            }
        }
        false
    }

    /// Whether there is one round more.
    fn has_rounds(&mut self) -> bool {
        self.rounds += 1;
        self.yields.is_none() && self.rounds < self.hub.history.rounds()
    }

    /// Gives way once, if that may pay.
    fn gives_way(&mut self) -> bool {
        let history = &self.hub.history;
        let yields = self.yields.get_or_insert_with(|| history.missed());
        if *yields == 0 {
            return false;
        }
        *yields -= 1;
        let before = rt::now();
        rt::yield_now();
        if history.gave_way(rt::now() - before) {
            *yields = 0;
        }
        self.drive();
        true
    }

    fn sleep(&mut self, until: Option<Instant>) {
        self.hub.sleep(self.seen, until);
        self.seen = self.hub.seen();
    }
}

impl Drop for Spin<'_> {
    /// A wait that ends between two looks of a round has found something. One that ends after a
    /// round may have been late, and one that ends before the first look needed none.
    #[inline]
    fn drop(&mut self) {
        if self.looks > 0 && self.looks < self.round {
            self.hub.history.found();
        }
    }
}

impl Hub {
    /// A wait for what comes of driving.
    #[inline]
    pub(in crate::vi) fn spin(&self) -> Spin<'_> {
        Spin::new(self, 1, LOOKS)
    }

    /// A wait whose looks drain, and do nothing else: the first of them may be too soon.
    #[inline]
    pub(in crate::vi) fn spin_for_eager(&self) -> Spin<'_> {
        if self.wait != Wait::Frugal && self.world.is_none() {
            self.history.leave_time();
        }
        let per_drive = self.per_drive();
        Spin::new(self, per_drive, LOOKS * per_drive)
    }

    /// A wait whose looks drain, and do more: about as much as to drive.
    #[inline]
    fn spin_feeding(&self) -> Spin<'_> {
        Spin::new(self, self.per_drive(), LOOKS)
    }

    /// Looks that drain, for one that drives.
    #[inline]
    fn per_drive(&self) -> u32 {
        if self.is_at_once { DRAINS } else { 1 }
    }

    /// Waits until more has happened than was `seen`, at the latest `until`, in the way that the
    /// nic waits. May return early.
    pub(in crate::vi) fn wait(&self, seen: EventCount, until: Option<Instant>) -> EventCount {
        if let Some(world) = &self.world {
            return self.wait_in(&**world, seen, until);
        }
        let mut spin = self.spin();
        // The caller has driven the nic, and has looked once.
        (spin.seen, spin.looks) = (seen, 1);
        loop {
            while spin.seen == seen && spin.again() {}
            let is_late = until.is_some_and(|until| rt::now() >= until);
            if spin.seen != seen || is_late || spin.go_on(until) {
                return spin.seen;
            }
        }
    }
}

impl Nic {
    /// A wait of this thread in the way that the nic waits, for a loop whose look
    /// [drains](crate::vi::Drain::take) and takes what has completed.
    #[must_use]
    #[inline]
    pub fn spin(&self) -> Spin<'_> {
        self.hub.spin_feeding()
    }
}

/// What the last waits of a nic came to: a hint of what the next will come to. All threads of the
/// nic share it, and may spoil it for each other.
#[derive(Debug, Default)]
pub(super) struct History {
    /// How many waits in a row have spent their rounds.
    in_vain: AtomicU32,
    /// Waits to come in which no thread gives way.
    hurried: AtomicU32,
    /// Looks that have found something since this side last sent something.
    heard: AtomicU32,
    /// Whether the last of them has taken all there was.
    is_ahead: AtomicBool,
}

impl History {
    /// How many rounds the wait of a balanced nic has.
    fn rounds(&self) -> u32 {
        let in_vain = self.in_vain.load(Relaxed);
        let is_hopeless = in_vain >= IN_VAIN_MAX && !in_vain.is_multiple_of(TRY_EVERY);
        if is_hopeless { 1 } else { ROUNDS }
    }

    /// Looking has found something.
    #[inline]
    fn found(&self) {
        // Seldom written: it lies beside what other threads read.
        if self.in_vain.load(Relaxed) != 0 {
            self.in_vain.store(0, Relaxed);
        }
    }

    /// The rounds are spent. How often to give way then.
    fn missed(&self) -> u32 {
        self.in_vain.fetch_add(1, Relaxed);
        match self.hurried.load(Relaxed) {
            0 => YIELDS,
            hurried => {
                self.hurried.store(hurried - 1, Relaxed);
                0
            }
        }
    }

    /// Giving way once took so long. Whether that is too long to do it again.
    fn gave_way(&self, took: Duration) -> bool {
        let is_slow = took >= SLOW;
        if is_slow {
            self.hurried.store(HURRIED, Relaxed);
        }
        is_slow
    }

    /// Leaves the peer time to write, if this side only listens; and at each look that drives the
    /// nic, which reads more of the peer's lines than one.
    #[inline]
    fn pause(&self, drives: bool) {
        (0..self.pauses(drives)).for_each(|_| std::hint::spin_loop());
    }

    #[inline]
    fn pauses(&self, drives: bool) -> u32 {
        if self.heard.load(Relaxed) < LISTENS { u32::from(drives) } else { PAUSES }
    }

    /// A look has found something.
    #[inline]
    pub(super) fn heard(&self) {
        let heard = self.heard.load(Relaxed);
        if heard < LISTENS {
            self.heard.store(heard + 1, Relaxed);
        }
    }

    /// A drain has found something, and perhaps taken `all` there was.
    #[inline]
    pub(super) fn drained(&self, all: bool) {
        self.heard();
        if self.is_ahead.load(Relaxed) != all {
            self.is_ahead.store(all, Relaxed);
        }
    }

    /// Leaves peers time to write before the first look of a wait, if this side only listens and
    /// has just taken all there was.
    #[inline]
    fn leave_time(&self) {
        if self.is_ahead.load(Relaxed) && self.heard.load(Relaxed) >= LISTENS {
            self.is_ahead.store(false, Relaxed);
            (0..PAUSES_AHEAD).for_each(|_| std::hint::spin_loop());
        }
    }

    /// This side sends something, unless it is about to listen more.
    #[inline]
    pub(super) fn posted(&self, posted: &Posted) {
        if !matches!(posted.op(), Op::Recv) {
            self.spoke();
        }
    }

    /// This side sends something.
    #[inline]
    pub(super) fn spoke(&self) {
        // Seldom written: it lies beside what other threads read.
        if self.heard.load(Relaxed) != 0 {
            self.heard.store(0, Relaxed);
            self.is_ahead.store(false, Relaxed);
        }
    }
}

/// How long a wait may last. It asks the time when it must: not for what comes at once.
#[derive(Debug)]
pub(in crate::vi) struct WaitClock {
    deadline: Deadline,
    started: Option<Instant>,
}

impl WaitClock {
    #[inline]
    pub(in crate::vi) const fn of(deadline: Deadline) -> Self {
        Self { deadline, started: None }
    }

    /// Until when the wait may last.
    ///
    /// # Errors
    ///
    /// If that has passed: how long the wait has lasted.
    pub(in crate::vi) fn until(&mut self, hub: &Hub) -> Result<Option<Instant>, Duration> {
        let now = hub.now();
        let started = *self.started.get_or_insert(now);
        let until = self.deadline.until_from(started);
        if until.is_some_and(|until| now >= until) { Err(now - started) } else { Ok(until) }
    }
}

// The reasons for these numbers are in the first paragraph.

/// Looks of a round that drive, or do about as much.
const LOOKS: u32 = 16;
/// Looks that drain, for one that drives.
const DRAINS: u32 = 4;
/// Rounds of a balanced nic.
const ROUNDS: u32 = 8;
/// After so many waits in vain there is one round.
const IN_VAIN_MAX: u32 = 2;
/// One of so many such waits has all rounds.
const TRY_EVERY: u32 = 16;
/// How often to give way.
const YIELDS: u32 = 16;
/// Giving way that takes so long does not pay.
const SLOW: Duration = Duration::from_micros(50);
/// Waits after that in which no thread gives way.
const HURRIED: u32 = 64;
/// Looks in a row that find something, of a side that only listens.
const LISTENS: u32 = 4;
/// Pauses before a look of such a side.
const PAUSES: u32 = 16;
/// Pauses of such a side before a wait, if it has taken all there was.
const PAUSES_AHEAD: u32 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_few_when_in_vain_and_tried_again() {
        let history = History::default();
        for _ in 0..IN_VAIN_MAX {
            assert_eq!(history.rounds(), ROUNDS);
            history.missed();
        }
        let rounds: Vec<u32> = (0..2 * TRY_EVERY)
            .map(|_| {
                history.missed();
                history.rounds()
            })
            .collect();
        assert_eq!(rounds.iter().filter(|rounds| **rounds == ROUNDS).count(), 2);
        assert_eq!(history.rounds(), 1);
        history.found();
        assert_eq!(history.rounds(), ROUNDS);
    }

    #[test]
    fn after_a_slow_one_nobody_gives_way_for_a_while() {
        let history = History::default();
        assert!(!history.gave_way(SLOW / 2));
        assert_eq!(history.missed(), YIELDS);
        assert!(history.gave_way(SLOW));
        for _ in 0..HURRIED {
            assert_eq!(history.missed(), 0);
        }
        assert_eq!(history.missed(), YIELDS);
    }

    #[test]
    fn a_side_that_only_listens_pauses_until_it_sends() {
        let history = History::default();
        for _ in 0..LISTENS {
            assert_eq!(history.pauses(false), 0);
            history.heard();
        }
        assert_eq!(history.pauses(true), PAUSES);
        history.drained(true);
        assert!(history.is_ahead.load(Relaxed));
        history.leave_time();
        assert!(!history.is_ahead.load(Relaxed), "once for each drain");
        history.spoke();
        assert_eq!(history.pauses(false), 0);
    }
}
