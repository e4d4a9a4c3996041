//! The roster by seeds, without threads, and its take-over by the model checker.

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::super::checker::{LoomAtomics, check};
use super::super::duty::{self, DutyTask};
use super::super::roster::{Employment, Fault, Roster, RosterOrder, STILL, THREADS_MAX, TICK};
use crate::fabric::sim;
use crate::fault::caught;
use crate::rt::{self, Instant};

/// A thread as the roster sees it.
#[derive(Debug)]
enum Thread {
    Coming,
    Driving,
    Outside { begun: DutyTask, since: Instant, lasts: bool },
    Parked { until: Option<Instant>, is_woken: bool },
    Ended,
}

/// Threads that do at random what a crew does, one after the other, in a time of their own.
struct Model {
    roster: Roster<usize>,
    threads: Vec<Thread>,
    now: Instant,
    /// When something last began or ended.
    moved: Instant,
    /// Until when nobody goes outside.
    calm: Instant,
    is_closed: bool,
    /// How many of a hundred that go outside stay there.
    lasting: u64,
    take_overs: usize,
}

fn below(below: u64) -> u64 {
    rt::random() % below
}

impl Model {
    fn new() -> Self {
        let (roster, now) = (Roster::default(), Instant::default());
        assert_eq!(roster.employ(), Employment::Start);
        let lasting = [0, 5, 30, 100][usize::try_from(below(4)).unwrap()];
        let threads = vec![Thread::Coming];
        Self {
            roster,
            threads,
            now,
            moved: now,
            calm: now,
            is_closed: false,
            lasting,
            take_overs: 0,
        }
    }

    /// One event at a thread. Whether there was one.
    fn event(&mut self, at: usize) -> bool {
        let now = self.now;
        match self.threads[at] {
            Thread::Coming => {
                let order = self.roster.started(&at, now);
                self.obey(at, order);
            }
            Thread::Driving if self.is_closed => {
                self.roster.leave(&at);
                self.threads[at] = Thread::Ended;
            }
            Thread::Driving if now >= self.calm && below(3) == 0 => return self.go_outside(at),
            Thread::Outside { begun, lasts, .. } if !lasts || self.is_closed => {
                if below(4) == 0 {
                    self.block(at);
                } else {
                    self.come_back(at, begun);
                }
            }
            Thread::Outside { .. } if below(20) == 0 => self.block(at),
            Thread::Parked { until, is_woken }
                if is_woken || until.is_some_and(|until| now >= until) =>
            {
                let order = self.roster.look(&at, now);
                self.take_overs += usize::from(order == RosterOrder::Drive);
                self.obey(at, order);
            }
            _ => return false,
        }
        true
    }

    fn obey(&mut self, at: usize, order: RosterOrder) {
        self.threads[at] = match order {
            RosterOrder::Drive => Thread::Driving,
            RosterOrder::Park(until) => Thread::Parked { until, is_woken: false },
            RosterOrder::End => Thread::Ended,
        };
    }

    /// The thread on duty goes outside, if there is or comes a standby.
    fn go_outside(&mut self, at: usize) -> bool {
        if !self.roster.has_standby() {
            match self.roster.employ() {
                Employment::Start if below(10) == 0 => {
                    self.roster.start_failed();
                    return false;
                }
                Employment::Start => self.threads.push(Thread::Coming),
                Employment::Present => {}
                Employment::Full => return false,
            }
        }
        let begun = self.roster.begin();
        if begun.wakes_standby {
            let standby = self.roster.call_standby();
            standby.into_iter().for_each(|standby| self.unpark(standby));
        }
        let lasts = below(100) < self.lasting;
        self.threads[at] = Thread::Outside { begun, since: self.now, lasts };
        self.moved = self.now;
        true
    }

    fn come_back(&mut self, at: usize, begun: DutyTask) {
        let is_on_duty = self.roster.on_duty() == Some(at);
        self.moved = self.now;
        let order = match self.roster.end(begun) {
            true => RosterOrder::Drive,
            false => self.roster.report(&at, self.now),
        };
        assert!(!is_on_duty || order == RosterOrder::Drive, "{at} was on duty and is not");
        self.obey(at, order);
    }

    /// A thread that is outside, relieved or not, says that it blocks.
    fn block(&mut self, at: usize) {
        let before = self.roster.on_duty();
        let named = self.roster.relieve(&at);
        assert!(named.is_none() || before == Some(at), "{at} relieves {before:?}");
        named.into_iter().for_each(|named| self.unpark(named));
    }

    fn unpark(&mut self, at: usize) {
        if let Thread::Parked { is_woken, .. } = &mut self.threads[at] {
            *is_woken = true;
        }
    }

    fn close(&mut self) {
        let told: Vec<_> = self.roster.close().collect();
        told.into_iter().for_each(|at| self.unpark(at));
        self.is_closed = true;
    }

    fn check(&self) {
        let alive = self.threads.iter().filter(|it| !matches!(it, Thread::Ended)).count();
        assert!(alive <= THREADS_MAX && alive == self.roster.threads(), "{alive} threads");
        let on_duty = self.roster.on_duty();
        let drives = |at: usize, it: &Thread| match it {
            Thread::Driving => true,
            Thread::Outside { .. } => on_duty == Some(at),
            Thread::Parked { is_woken, .. } => *is_woken && on_duty == Some(at),
            Thread::Coming | Thread::Ended => false,
        };
        let drivers = self.threads.iter().enumerate().filter(|(at, it)| drives(*at, it)).count();
        let has_begun = !matches!(self.threads[0], Thread::Coming) && !self.is_closed;
        assert_eq!(
            drivers,
            usize::from(has_begun || drivers == 1 && self.is_closed),
            "{on_duty:?}"
        );
        let is_outside = |at: usize| matches!(self.threads[at], Thread::Outside { .. });
        let is_at_hand = !self.is_closed && on_duty.is_some_and(|at| !is_outside(at));
        assert_eq!(self.roster.is_at_hand(), is_at_hand, "{on_duty:?}");
        for (at, thread) in self.threads.iter().enumerate() {
            match thread {
                Thread::Outside { since, .. } if on_duty == Some(at) && !self.is_closed => {
                    assert!(self.now - *since <= TICK * 2, "nobody takes over from {at}");
                }
                Thread::Parked { until: Some(until), .. } => {
                    let still = *until - self.moved;
                    assert!(still <= STILL + TICK * 3, "{at} looks though nothing happens");
                }
                _ => {}
            }
        }
    }

    /// What can happen now happens, in any order; then time goes on, to the next look at most.
    fn turn(&mut self) {
        if below(150) == 0 {
            self.calm = self.now + STILL * 2;
        }
        let threads = self.threads.len();
        for _ in 0..below(8) {
            let any = usize::try_from(below(threads as u64)).unwrap();
            let on_duty = self.roster.on_duty().filter(|_| below(2) == 0);
            self.event(on_duty.unwrap_or(any));
            self.check();
        }
        let is_due = |now: Instant, it: &Thread| match it {
            Thread::Coming => true,
            Thread::Parked { until, is_woken } => {
                *is_woken || until.is_some_and(|until| now >= until)
            }
            _ => false,
        };
        while let Some(at) = self.threads.iter().position(|it| is_due(self.now, it)) {
            self.event(at);
            self.check();
        }
        let most = [5, 50, 5_000][usize::try_from(below(3)).unwrap()];
        let next = self.threads.iter().filter_map(|it| match it {
            Thread::Parked { until, .. } => *until,
            _ => None,
        });
        let then = self.now + Duration::from_micros(below(most));
        self.now = next.chain([then]).min().expect("one at least");
        self.check();
    }
}

fn run_seeds(seeds: std::ops::Range<u64>) -> [usize; 2] {
    sim::count(seeds, |_| {
        let mut model = Model::new();
        for _ in 0..1000 {
            model.turn();
        }
        model.close();
        for _ in 0..50 {
            model.turn();
            for at in 0..model.threads.len() {
                model.event(at);
                model.check();
            }
        }
        let last = &model.threads;
        assert_eq!(model.roster.threads(), 0, "threads that do not end: {last:?}");
        [model.take_overs, model.threads.len()]
    })
}

#[test]
fn one_is_on_duty_and_what_lasts_is_taken_over() {
    let [take_overs, threads] = run_seeds(sim::seeds(300));
    println!("{take_overs} take-overs, {threads} threads");
    assert!(take_overs > 1000 && threads > 2000);
}

#[test]
fn seeds_find_what_is_planted() {
    let faults = [
        Fault::RelievesOther,
        Fault::Unnamed,
        Fault::Uncalled,
        Fault::NeverRests,
        Fault::ClosedUnheard,
        Fault::Crowded,
    ];
    for fault in faults {
        assert!(caught(fault, || _ = run_seeds(0..100)), "{fault:?} goes unnoticed");
    }
    assert!(caught(duty::Fault::TwoOnDuty, || _ = run_seeds(0..100)));
}

/// A roster with a thread on duty, 1, and its standby, 2; and what only who is on duty may touch.
struct Scene {
    roster: Roster<u32, LoomAtomics>,
    driven: UnsafeCell<()>,
}

fn scene() -> Arc<Scene> {
    let scene = Scene { roster: Roster::new(), driven: UnsafeCell::new(()) };
    for (thread, order) in [(1, RosterOrder::Drive), (2, RosterOrder::Park(None))] {
        assert_eq!(scene.roster.employ(), Employment::Start);
        assert_eq!(scene.roster.started(&thread, Instant::default()), order);
    }
    Arc::new(scene)
}

impl Scene {
    /// The checker panics if two do so at once.
    fn drive(&self) {
        self.driven.with_mut(|_| ());
    }

    /// The thread goes outside and comes back, relieved if `blocks` and it was on duty. Whether it
    /// is on duty still.
    fn go_outside(&self, me: u32, blocks: u32) -> bool {
        self.drive();
        let begun = self.roster.begin();
        if begun.wakes_standby {
            _ = self.roster.call_standby();
        }
        for _ in 0..blocks {
            _ = self.roster.relieve(&me);
        }
        let stays = self.roster.end(begun);
        if stays {
            self.drive();
        }
        stays
    }

    /// Looks some times, a tick apart. Whether the thread is on duty then.
    fn look(&self, me: u32, looks: u32) -> bool {
        let drives = (1..=looks).any(|tick| {
            self.roster.look(&me, Instant::default() + TICK * tick) == RosterOrder::Drive
        });
        if drives {
            self.drive();
        }
        drives
    }
}

/// The standby looks while the thread on duty goes outside and comes back: one of both is on duty,
/// and who was relieved stands by.
fn is_taken_over_or_not(blocks: u32) {
    let scene = scene();
    let standby = thread::spawn({
        let scene = Arc::clone(&scene);
        move || scene.look(2, 2)
    });
    let stays = scene.go_outside(1, blocks);
    if !stays {
        let order = scene.roster.report(&1, Instant::default());
        assert!(matches!(order, RosterOrder::Park(_)), "{order:?}");
    }
    // Who was named hears of it at its next look.
    let drives = standby.join().unwrap() || scene.look(2, 1);
    assert!(stays != drives, "one of both is on duty");
    assert_eq!(scene.roster.on_duty(), Some(if stays { 1 } else { 2 }));
}

/// A thread that was relieved says that it blocks once more, while its successor is outside and has
/// a standby of its own.
fn a_successor_stays() {
    let scene = scene();
    scene.drive();
    let begun = scene.roster.begin();
    assert_eq!(scene.roster.relieve(&1), Some(2));
    let successor = thread::spawn({
        let scene = Arc::clone(&scene);
        move || {
            assert!(scene.look(2, 1));
            assert_eq!(scene.roster.employ(), Employment::Start);
            _ = scene.roster.started(&3, Instant::default());
            assert!(scene.go_outside(2, 0), "nobody has looked");
        }
    });
    assert_eq!(scene.roster.relieve(&1), None, "2 is on duty");
    successor.join().unwrap();
    assert!(!scene.roster.end(begun));
    assert_eq!(scene.roster.report(&1, Instant::default()), RosterOrder::End, "3 stands by");
}

#[test]
fn a_take_over_by_the_model_checker() {
    check(|| is_taken_over_or_not(0));
    check(|| is_taken_over_or_not(1));
    check(|| is_taken_over_or_not(2));
    check(a_successor_stays);
}

#[test]
fn the_model_checker_finds_what_is_planted() {
    let outside: fn() = || is_taken_over_or_not(0);
    let blocks: fn() = || is_taken_over_or_not(1);
    assert!(caught(duty::Fault::InTwoSteps, || check(outside)), "a count in two steps");
    assert!(caught(duty::Fault::TwoOnDuty, || check(outside)), "two on duty");
    assert!(caught(Fault::Unnamed, || check(blocks)), "nobody is named");
    assert!(caught(Fault::RelievesOther, || check(a_successor_stays)), "a successor is relieved");
}
