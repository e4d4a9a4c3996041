//! Workers by seeds, without threads.

use egret_net::fabric::sim::{count, seeds};
use egret_net::rt;

use super::*;
use crate::rmi::fault::{Fault, caught};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Worker {
    Coming,
    Runs(u64),
    Away(u64),
    Idle { is_woken: bool },
    Ended,
}

/// Workers that do at random what they do, one after the other.
struct Model {
    staff: WorkerRules<u64, u64, usize>,
    workers: Vec<Worker>,
    /// Threads that were lent and have not come.
    lent: usize,
    /// What became of each call: whether it ran, or was given back.
    calls: Vec<Option<bool>>,
    busy_max: usize,
    is_closed: bool,
    /// How many of a hundred threads cannot be started.
    failing: u64,
}

const THREADS_MAX: usize = 12;

fn below(below: u64) -> u64 {
    rt::random() % below
}

fn index(end: usize) -> usize {
    usize::try_from(below(end as u64)).unwrap()
}

impl Model {
    fn new() -> Self {
        let busy_max = 1 + index(5);
        let staff = WorkerRules::new(busy_max, THREADS_MAX);
        let failing = [0, 0, 30][index(3)];
        let (workers, calls) = (Vec::new(), Vec::new());
        Self { staff, workers, lent: 0, calls, busy_max, is_closed: false, failing }
    }

    /// Does what helps.
    fn give(&mut self, help: &WorkerHelp<usize>) {
        match *help {
            WorkerHelp::None => {}
            WorkerHelp::Lend => self.lent += 1,
            WorkerHelp::Wake(at) => {
                assert!(matches!(self.workers[at], Worker::Idle { .. }), "{at} is not idle");
                self.workers[at] = Worker::Idle { is_woken: true };
            }
            WorkerHelp::Employ if below(100) < self.failing => {
                let unrun: Vec<_> = self.staff.miss().into_all().collect();
                unrun.into_iter().for_each(|call| self.over(call, false));
            }
            WorkerHelp::Employ => self.workers.push(Worker::Coming),
        }
    }

    fn push(&mut self) {
        let call = self.calls.len() as u64;
        self.calls.push(None);
        match self.staff.push(below(3), call, below(4) == 0) {
            Err(back) => {
                assert!(self.is_closed && back == call);
                self.over(call, false);
            }
            Ok(help) => self.give(&help),
        }
    }

    fn over(&mut self, call: u64, has_run: bool) {
        let before = self.calls[usize::try_from(call).unwrap()].replace(has_run);
        assert_eq!(before, None, "call {call} is over twice");
    }

    fn next(&mut self, at: usize, has_run: bool, is_up: bool) {
        self.workers[at] = Worker::Coming;
        self.workers[at] = match self.staff.next(&at, has_run, is_up) {
            WorkerStep::Run(call) => {
                self.over(call, true);
                let busy = self.count(|it| matches!(it, Worker::Runs(_)));
                assert!(busy < self.busy_max, "{busy} are busy");
                Worker::Runs(call)
            }
            WorkerStep::Park => Worker::Idle { is_woken: false },
            WorkerStep::End(help) => {
                self.workers[at] = Worker::Ended;
                self.give(&help);
                Worker::Ended
            }
        };
    }

    fn count(&self, which: impl Fn(Worker) -> bool) -> usize {
        self.workers.iter().filter(|it| which(**it)).count()
    }

    /// One event at a worker.
    fn event(&mut self, at: usize) {
        match self.workers[at] {
            Worker::Coming | Worker::Idle { is_woken: true } => self.next(at, false, false),
            // Who hears of the end does not wait for its time to be up.
            Worker::Idle { .. } if !self.is_closed && below(6) == 0 => self.next(at, false, true),
            Worker::Runs(call) if below(3) == 0 => {
                self.workers[at] = Worker::Away(call);
                let help = self.staff.away();
                self.give(&help);
            }
            Worker::Runs(_) => self.next(at, true, false),
            Worker::Away(call) if below(2) == 0 || self.is_closed => {
                self.staff.back();
                self.workers[at] = Worker::Runs(call);
            }
            _ => {}
        }
    }

    fn check(&self) {
        let alive = self.count(|it| it != Worker::Ended);
        assert!(alive <= THREADS_MAX && alive == self.staff.threads, "{alive} threads");
        let comes = |it| matches!(it, Worker::Coming | Worker::Idle { is_woken: true });
        let coming = self.count(comes) + self.lent;
        assert_eq!(coming, self.staff.coming, "threads on their way");
        if self.staff.queue.is_empty() || coming > 0 || self.is_closed {
            return;
        }
        // Somebody is busy for each that may be, or there are no more threads; somebody in any case.
        let busy = self.count(|it| matches!(it, Worker::Runs(_)));
        let least = if self.failing > 0 { 1 } else { self.busy_max };
        assert!(busy >= least || alive == THREADS_MAX, "calls wait, and {busy} are busy");
    }

    fn turn(&mut self) {
        match below(if self.is_closed { 20 } else { 4 }) {
            0 => self.push(),
            1 if below(8) == 0 => self.change(),
            2 if self.lent > 0 => self.lent_event(),
            _ if self.workers.is_empty() => {}
            _ => {
                let at = index(self.workers.len());
                // Most of them have ended.
                let is_left = |at: &usize| self.workers[*at] != Worker::Ended;
                let at = (at..self.workers.len()).chain(0..at).find(is_left).unwrap_or(at);
                self.event(at);
            }
        }
        self.check();
    }

    /// A thread that was lent comes, or does not.
    fn lent_event(&mut self) {
        self.lent -= 1;
        let (call, help) = match below(4) {
            0 => (None, self.staff.miss_lent()),
            _ => self.staff.come_lent(),
        };
        call.into_iter().for_each(|call| self.over(call, true));
        self.give(&help);
    }

    /// Somebody who is no worker does something about them.
    fn change(&mut self) {
        match below(3) {
            0 => {
                self.busy_max = 1 + index(5);
                for _ in 0..self.staff.set_busy_max(self.busy_max) {
                    let help = self.staff.help();
                    self.give(&help);
                }
            }
            1 => {
                if let Some(call) = self.staff.pop() {
                    self.over(call, true);
                }
            }
            _ => {
                let (waiting, forgotten) =
                    (self.staff.queue.len(), below(self.calls.len() as u64 + 1));
                self.staff.retain(|call| *call != forgotten);
                if self.staff.queue.len() < waiting {
                    self.over(forgotten, false);
                }
            }
        }
    }

    fn close(&mut self) {
        self.is_closed = true;
        let (idle, calls) = self.staff.close();
        let calls: Vec<_> = calls.into_all().collect();
        for at in idle {
            self.workers[at] = Worker::Idle { is_woken: true };
        }
        calls.into_iter().for_each(|call| self.over(call, false));
    }
}

fn run_seeds(seeds: std::ops::Range<u64>) -> [usize; 2] {
    count(seeds, |_| {
        let mut model = Model::new();
        for _ in 0..600 {
            model.turn();
        }
        model.close();
        for _ in 0..400 {
            model.turn();
        }
        assert!(model.calls.iter().all(Option::is_some), "a call was lost");
        let left = model.count(|it| it != Worker::Ended);
        assert_eq!(left, 0, "workers that do not end: {:?}", model.workers);
        [model.calls.len(), model.workers.len()]
    })
}

#[test]
fn every_call_is_run_once_by_a_bounded_number_of_workers() {
    let [calls, workers] = run_seeds(seeds(300));
    println!("{calls} calls, {workers} workers");
    assert!(calls > 10_000 && workers > 1000);
}

#[test]
fn seeds_find_what_is_planted() {
    for fault in [
        Fault::IdleTwice,
        Fault::WakeLost,
        Fault::AwayBusy,
        Fault::LentLost,
        Fault::MissUnheard,
        Fault::CloseUnheard,
    ] {
        assert!(caught(fault, || _ = run_seeds(0..100)), "{fault:?} goes unnoticed");
    }
}
