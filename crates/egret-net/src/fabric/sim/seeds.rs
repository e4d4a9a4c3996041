//! Running a scenario over many seeds.

use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Sim;
use super::threads::text;
use crate::rt;

/// Runs `scenario` in a new world for each seed. The first that panics is
/// reported with its seed and trace; `EGRET_SEED` runs that seed alone.
///
/// ```
/// use egret_net::fabric::sim::{check, seeds};
/// use egret_net::rt::Deadline;
/// use egret_net::vi::{Address, ViOptions};
///
/// check(seeds(20), |sim| {
///     sim.link("a", "b").loss(0.1);
///     let (a, b) = (sim.nic("a"), sim.nic("b"));
///     let listener = b.listen("x", 0, &ViOptions::default()).unwrap();
///     let to = Address::new("b", "x", 0);
///     let connecting = a.connect(&to, &ViOptions::default(), Deadline::DEFAULT);
///     assert!(listener.wait_accept(Deadline::DEFAULT).is_ok());
///     assert!(a.block_on(connecting).is_ok());
/// });
/// ```
///
/// # Panics
///
/// If the scenario does, with the seed, the command that repeats it, and what
/// happened last.
pub fn check(seeds: impl IntoIterator<Item = u64>, scenario: impl Fn(&Sim)) {
    if let Some(seed) = seed_from_env() {
        return run(seed, &scenario);
    }
    for seed in seeds {
        run(seed, &scenario);
    }
}

/// As [`check`], with what each run counted, added up.
///
/// ```
/// use egret_net::fabric::sim::count;
///
/// // A nic that restarts has the name that it had.
/// let [restarted] = count(0..10, |sim| {
///     let _nic = sim.nic("a");
///     sim.crash("a");
///     sim.restart("a");
///     [usize::from(sim.nic("a").host() == "a")]
/// });
/// assert_eq!(restarted, 10);
/// ```
///
/// # Panics
///
/// As [`check`].
pub fn count<const N: usize>(
    seeds: impl IntoIterator<Item = u64>,
    scenario: impl Fn(&Sim) -> [usize; N],
) -> [usize; N] {
    let total = Cell::new([0; N]);
    check(seeds, |sim| {
        let mut sums = total.get();
        sums.iter_mut().zip(scenario(sim)).for_each(|(sum, count)| *sum += count);
        total.set(sums);
    });
    total.get()
}

/// Which seeds to try: as many as `usual`, or what `EGRET_SEEDS` says, `10000` or `200..10000`.
///
/// [`check`] has an example.
///
/// # Panics
///
/// If that says neither.
#[must_use]
pub fn seeds(usual: u64) -> Range<u64> {
    let Ok(said) = std::env::var("EGRET_SEEDS") else { return 0..usual };
    let (first, end) = said.split_once("..").unwrap_or(("0", &said));
    let number = |text: &str| text.parse::<u64>().ok();
    let range = number(first).zip(number(end)).map(|(first, end)| first..end);
    range
        .unwrap_or_else(|| panic!("EGRET_SEEDS={said} is neither a number nor two with .. between"))
}

/// The seed in `EGRET_SEED`.
///
/// ```
/// use egret_net::fabric::sim::{Sim, seed_from_env};
///
/// let sim = Sim::new(seed_from_env().unwrap_or(42));
/// ```
///
/// # Panics
///
/// If it is set and not a number: a seed that is ignored repeats nothing.
#[must_use]
pub fn seed_from_env() -> Option<u64> {
    let seed = std::env::var("EGRET_SEED").ok()?;
    Some(seed.parse().unwrap_or_else(|_| panic!("EGRET_SEED={seed} is not a number")))
}

fn run(seed: u64, scenario: impl Fn(&Sim)) {
    let sim = Sim::new(seed);
    let ran = catch_unwind(AssertUnwindSafe(|| scenario(&sim)));
    let said = match (ran, sim.panic_of_thread()) {
        (Ok(()), None) => return,
        (Ok(()), Some(said)) => said,
        (Err(panic), _) => text(&*panic).to_owned(),
    };
    let (report, thread) = (sim.report(), rt::current());
    drop(sim);
    let test = thread.name().unwrap_or("NAME");
    panic!("{said}\nrepeat with: EGRET_SEED={seed} cargo test {test}\n{report}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_failing_seed_is_named() {
        let found = catch_unwind(|| {
            check(0..100, |sim| {
                sim.run_until(Duration::from_secs(1));
                assert!(!rt::random().is_multiple_of(7), "a seventh of all seeds");
            });
        });
        let said = *found.unwrap_err().downcast::<String>().unwrap();
        assert!(said.contains("a seventh of all seeds"), "{said}");
        assert!(said.contains("EGRET_SEED="), "{said}");
        assert!(said.contains("the_failing_seed_is_named"), "{said}");
    }
}
