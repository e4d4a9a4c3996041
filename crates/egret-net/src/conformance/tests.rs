//! The suite on the simulator: clean, under faults, and with faults planted.

use std::ops::Range;
use std::time::Duration;

use super::{Case, Failure, Party, Profile, Role, cases, meeting, run};
use crate::fabric::sim::{Fault, Sim, check, seeds};
use crate::fault::caught;
use crate::rt::{self, trials};
use crate::vi::LandingFault;

/// Runs both sides of a case in a simulated world.
fn run_in(sim: &Sim, case: &Case, profile: &Profile) -> Result<(), Failure> {
    let (here, there) = meeting();
    let fabric = (**sim).clone();
    let caller = Party::new(sim.nic("caller"), "answerer", Role::Caller, here)
        .with_kill(move || fabric.crash("answerer"));
    let answerer = Party::new(sim.nic("answerer"), "caller", Role::Answerer, there);
    run(case, profile, vec![caller, answerer])
}

fn all(profile: &Profile) -> Vec<Case> {
    cases(&Sim::new(0).nic("probe").limits(), profile)
}

#[test]
fn conformance_on_sim() {
    let profile = Profile::default();
    let failures: Vec<String> = all(&profile)
        .iter()
        .filter_map(|case| run_in(&Sim::new(1), case, &profile).err())
        .map(|failure| failure.to_string())
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn conformance_where_placing_takes_time() {
    let profile = Profile { largest: 1 << 20, messages: 50, ..Profile::default() };
    for case in all(&profile) {
        let sim = Sim::new(2);
        sim.placement(Duration::from_millis(1));
        run_in(&sim, &case, &profile).unwrap();
    }
}

/// What the links do to frames, at random: nothing much, or a lot.
fn spoil(sim: &Sim) {
    let below = |most: f64| {
        let thousandths = u32::try_from(rt::random() % 1_000).unwrap();
        most * f64::from(thousandths) / 1_000.0
    };
    let latency = Duration::from_micros(1 + rt::random() % 5_000);
    let links = sim.links().latency(latency).loss(below(0.05)).duplicate(below(0.05));
    links.reorder(below(0.1)).corrupt(below(0.02));
}

/// Nothing gets through for a while, some time soon: what is reliable survives it.
fn cut_off(sim: &Sim) {
    let cut = sim.elapsed() + Duration::from_micros(rt::random() % 200_000);
    sim.at(cut, |sim| sim.partition(&["caller"], &["answerer"]));
    sim.at(cut + Duration::from_micros(rt::random() % 300_000), |sim| sim.heal());
}

fn under_faults() -> Profile {
    Profile {
        lossy: true,
        largest: 200_000,
        messages: 60,
        patience: Duration::from_secs(120),
        quiet: Duration::from_millis(60),
        ..Profile::default()
    }
}

/// Every case in the world of each seed, one after the other.
fn under_the_faults_of(seeds: Range<u64>) {
    let profile = under_faults();
    let all = all(&profile);
    check(seeds, |sim| {
        for case in &all {
            spoil(sim);
            if case.level.is_reliable() {
                cut_off(sim);
            }
            run_in(sim, case, &profile).unwrap_or_else(|failure| panic!("{failure}"));
            // What was planned for this case is over before the next.
            sim.run_until(sim.elapsed() + Duration::from_millis(500));
        }
    });
}

/// The seeds of two tests, for two threads: `EGRET_SEEDS` or 20.
fn halves() -> [Range<u64>; 2] {
    let all = seeds(trials(20).max(4));
    let middle = all.start.midpoint(all.end);
    [all.start..middle, middle..all.end]
}

#[test]
fn conformance_under_faults_of_half_of_the_seeds() {
    let [half, _] = halves();
    under_the_faults_of(half);
}

#[test]
fn conformance_under_faults_of_the_other_half() {
    let [_, half] = halves();
    under_the_faults_of(half);
}

/// The first case that notices the fault, on clean links or on spoiled ones.
fn first_to_notice(fault: Option<Fault>) -> Option<Failure> {
    let patience = Duration::from_secs(15);
    let clean = Profile { largest: 32 << 20, messages: 100, patience, ..Profile::default() };
    let faulty = Profile { patience, ..under_faults() };
    for (profile, spoiled) in [(&clean, false), (&faulty, true)] {
        for case in all(profile) {
            let sim = Sim::new(3);
            if spoiled {
                spoil(&sim);
            }
            if let Some(fault) = fault {
                sim.plant(fault);
            }
            if let Err(failure) = run_in(&sim, &case, profile) {
                return Some(failure);
            }
        }
    }
    None
}

#[test]
fn planted_faults_are_found() {
    let found = first_to_notice(None);
    assert!(found.is_none(), "without a fault: {}", found.unwrap());
    for fault in Fault::ALL {
        let found = first_to_notice(Some(fault));
        let found = found.unwrap_or_else(|| panic!("{fault:?} was not noticed by any case"));
        println!("{fault:?} is noticed by {found}");
    }
}

/// All cases about landings, in a simulated world.
fn landings() {
    let profile = Profile { patience: Duration::from_secs(15), ..Profile::default() };
    for case in all(&profile).iter().filter(|case| case.name.starts_with("landing::")) {
        run_in(&Sim::new(4), case, &profile).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn planted_faults_of_landings_are_found() {
    landings();
    for fault in [
        LandingFault::SmallAsked,
        LandingFault::RestUnchecked,
        LandingFault::MostIgnored,
        LandingFault::LandedForgotten,
    ] {
        assert!(caught(fault, landings), "{fault:?} was not noticed by any case");
    }
}

#[test]
fn every_case_is_described() {
    let page = include_str!("../../../../docs/design/conformance.md");
    for case in all(&Profile::default()) {
        assert!(page.contains(&format!("| `{}` |", case.name)), "{} is missing", case.name);
    }
}
