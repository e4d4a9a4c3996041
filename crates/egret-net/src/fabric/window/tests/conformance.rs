//! The conformance suite over the simulator, with and without loss, and over `udp`.

use std::time::Duration;

use crate::conformance::{Case, Profile, cases, run_on_threads};
use crate::fabric::Fabric;
use crate::fabric::common::tests::all_pass_on_threads;
use crate::fabric::sim::Sim;
use crate::fabric::udp::UdpFabric;
use crate::rt::trials;
use crate::vi::{Encrypt, NicOptions, Wait};

/// What is expected where links lose, or do not.
fn profile(lossy: bool) -> Profile {
    Profile { kills: false, largest: 1 << 20, lossy, ..Profile::default() }
}

/// What fails in a world of this seed, whose links are as `weather` makes them.
pub(super) fn failures(seed: u64, lossy: bool, weather: impl Fn(&Sim)) -> Vec<String> {
    let profile = profile(lossy);
    let cases = cases(&Sim::new(0).windowed_nic("probe").limits(), &profile);
    assert!(cases.len() > 60, "{}", cases.len());
    let play = |case: &Case| {
        let sim = Sim::new(seed);
        weather(&sim);
        let nics = ["caller", "answerer"].map(|host| sim.windowed_nic(host));
        run_on_threads(case, &profile, nics).err()
    };
    cases.iter().filter_map(play).map(|failure| failure.to_string()).collect()
}

#[test]
fn conformance_over_a_link_without_faults() {
    let failures = failures(1, false, |_| {});
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Links that lose, double, reorder and damage.
fn lossy(sim: &Sim) {
    let link = sim.links().loss(0.05).duplicate(0.05).reorder(0.1).corrupt(0.02);
    link.latency(Duration::from_micros(100));
}

#[test]
fn conformance_over_lossy_links() {
    for seed in 0..trials(10) {
        let failures = failures(seed, true, lossy);
        assert!(failures.is_empty(), "seed {seed}: {}", failures.join("\n"));
    }
}

fn over_udp(wait: Wait, encrypt: Encrypt) {
    let options = NicOptions::new("").wait(wait).encrypt(encrypt);
    let open = move || UdpFabric.open(&options).unwrap();
    let profile = Profile { kills: false, ..Profile::default() };
    let cases = cases(&open().limits(), &profile);
    all_pass_on_threads(cases, profile, move || [open(), open()]);
}

#[test]
fn conformance_on_two_threads() {
    over_udp(Wait::Balanced, Encrypt::BetweenMachines);
}

#[test]
fn conformance_sealed() {
    over_udp(Wait::Balanced, Encrypt::Always);
}

#[test]
fn conformance_asleep() {
    over_udp(Wait::Frugal, Encrypt::BetweenMachines);
}
