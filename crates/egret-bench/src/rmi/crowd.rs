//! Remote calls that are not alone: several callers, both sides at once, behind one that blocks.

use std::rc::Rc;
use std::time::Duration;

use crate::limit::Stopwatch;
use anyhow::{Context, Result, ensure};
use egret::rt::{self, JoinHandle};

use super::calls::RmiNodes;
use super::object::compute;
use crate::measure::{Probe, Sample};

/// What a method does for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodWork {
    Sleeps,
    Computes,
}

impl MethodWork {
    /// How many call at once.
    pub(crate) const fn callers(self) -> usize {
        match self {
            Self::Sleeps => 4,
            Self::Computes => 16,
        }
    }

    /// How many can do it at once.
    fn at_once(self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        match self {
            Self::Sleeps => self.callers(),
            Self::Computes => cores,
        }
    }
}

/// Calls of several threads, of a method that works for a while.
pub(crate) struct Crowd {
    pub(crate) calls: Rc<RmiNodes>,
    pub(crate) work: MethodWork,
}

impl Probe for Crowd {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let work = self.work;
        self.calls.run(|_| {
            let stub = self.calls.stub();
            on_threads(work.callers(), rounds, &|each| {
                let stub = stub.clone();
                Box::new(move || {
                    (0..each).all(|_| match work {
                        MethodWork::Sleeps => stub.sleep(AWHILE).is_ok(),
                        MethodWork::Computes => stub.compute(AWHILE).is_ok(),
                    })
                })
            })
        })
    }
}

/// The same without calls, on as many threads as can do it at once.
pub(crate) struct WorkAlone(pub(crate) MethodWork);

impl Probe for WorkAlone {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let work = self.0;
        on_threads(work.at_once(), rounds, &|each| {
            Box::new(move || {
                (0..each).for_each(|_| match work {
                    MethodWork::Sleeps => rt::sleep(AWHILE),
                    MethodWork::Computes => compute(AWHILE),
                });
                true
            })
        })
    }
}

/// What a thread does; whether it went well.
type ThreadBody = Box<dyn FnOnce() -> bool + Send>;

/// Has so many threads do something `rounds` times in all; `body` is given how often each does it.
fn on_threads(threads: usize, rounds: u64, body: &dyn Fn(u64) -> ThreadBody) -> Result<Sample> {
    let each = rounds.div_ceil(threads as u64);
    let start = rt::now();
    let start_one = |_| Ok(rt::spawn("caller", body(each))?);
    let all: Vec<JoinHandle<bool>> = (0..threads).map(start_one).collect::<Result<_>>()?;
    let all = all.into_iter().map(|thread| thread.join().ok().filter(|is_done| *is_done));
    all.collect::<Option<Vec<_>>>().context("a call failed")?;
    // As if there had been as many rounds as were asked for.
    let took = rt::now() - start;
    Ok(Sample::Total(took.mul_f64(rounds as f64 / (each * threads as u64) as f64)))
}

/// A call of a plain method that is sent behind one of a method that blocks.
pub(crate) struct CallBehindBlocked(pub(crate) Rc<RmiNodes>);

impl Probe for CallBehindBlocked {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        self.0.run(|_| {
            let stub = self.0.stub();
            let mut times = Vec::with_capacity(usize::try_from(rounds)?);
            for _ in 0..rounds {
                let blocks = stub.begin().block(BLOCKED);
                let start = Stopwatch::start();
                stub.plain()?;
                times.push(start.nanos());
                blocks.wait()?;
            }
            Ok(Sample::Times(times))
        })
    }
}

/// Calls of a plain method, while the other side calls one here.
pub(crate) struct Crossing(pub(crate) Rc<RmiNodes>);

impl Probe for Crossing {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        self.0.run(|_| {
            let stub = self.0.stub();
            ensure!(stub.cross(true)?, "the other side has no thread to call with");
            let mut times = Vec::with_capacity(usize::try_from(rounds)?);
            for _ in 0..rounds {
                let start = Stopwatch::start();
                stub.plain()?;
                times.push(start.nanos());
            }
            ensure!(stub.cross(false)?, "a call of the other side failed");
            Ok(Sample::Times(times))
        })
    }
}

/// How long a method sleeps or computes.
const AWHILE: Duration = Duration::from_micros(50);
/// How long one blocks.
const BLOCKED: Duration = Duration::from_millis(3);
/// Nanoseconds for which others may wait behind it.
pub(crate) const BEHIND_MAX: f64 = 400_000.0;
