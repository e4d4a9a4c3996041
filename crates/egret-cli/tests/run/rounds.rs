//! Kills at any moment. `EGRET_ROUNDS` says how often, `EGRET_SEED` from where.

use std::time::Duration;

use egret::rt;
use rustix::process::Signal;

use crate::job::{Job, Process, kill};
use crate::kills::WRAPPER;

#[test]
fn nothing_stays_behind_whoever_is_killed_whenever() {
    let (seed, rounds) = seed_and_rounds(24);
    for round in 0..rounds {
        let dice = &mut Dice(seed.wrapping_add(round));
        let grace = dice.one_of(&["0", "0.01", "0.1"]).expect("a time");
        let job = Job::start(&["-n", "2", "--grace", grace, "sh", "-c", WRAPPER]);
        rt::sleep(Duration::from_micros(dice.below(60_000)));
        let whom = dice.one_of(&job.mark.processes());
        eprintln!("seed {seed}, round {round}: killing {whom:?}");
        end(job, whom, dice);
    }
}

fn end(job: Job, whom: Option<Process>, dice: &mut Dice) {
    if let Some(whom) = &whom {
        kill(whom.pid, Signal::KILL);
    }
    // The end of some is no failure of the job; then it is asked to end. Not after the end of the
    // launcher: without guard and launcher there is nobody to end what processes have started.
    if !whom.is_some_and(|whom| job.is_egret(&whom)) {
        rt::sleep(Duration::from_micros(dice.below(20_000)));
        job.signal(dice.one_of(&[Signal::KILL, Signal::TERM, Signal::INT]).expect("a signal"));
        job.signal(Signal::INT);
        job.signal(Signal::INT);
    }
    job.end();
}

/// From where, and how often: `usual` unless the environment says another number.
pub(crate) fn seed_and_rounds(usual: u64) -> (u64, u64) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    (number("EGRET_SEED").unwrap_or_else(rt::random), number("EGRET_ROUNDS").unwrap_or(usual))
}

/// Numbers from a seed.
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 29)) % limit.max(1)
    }

    pub(crate) fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        all.get(usize::try_from(self.below(all.len() as u64)).expect("an index")).cloned()
    }
}
