//! The conformance suite: two nics in one process, and two processes.

use crate::conformance::{Case, Profile, cases};
use crate::fabric::Fabric;
use crate::fabric::common::tests::all_pass_on_threads;
use crate::fabric::shm::ShmFabric;
use crate::rt;
use crate::vi::{Nic, NicOptions, Trust, Wait};

/// A nic of a name that no other test has.
pub(super) fn nic(name: &str, wait: Wait) -> Nic {
    ShmFabric.open(&NicOptions::new(name).wait(wait)).unwrap()
}

/// One that asks for this level.
pub(super) fn trusting(name: &str, trust: Trust) -> Nic {
    ShmFabric.open(&NicOptions::new(name).trust(trust)).unwrap()
}

pub(super) fn all(profile: &Profile) -> Vec<Case> {
    let probe = nic(&format!("probe-{}-{}", std::process::id(), rt::random()), Wait::Frugal);
    cases(&probe.limits(), profile)
}

fn all_on_threads(profile: Profile, wait: Wait) {
    all_pass_on_threads(all(&profile), profile, move || {
        let unique = rt::random();
        ["caller", "answerer"].map(|name| nic(&format!("{name}-{unique}"), wait))
    });
}

#[test]
fn conformance_on_two_threads() {
    all_on_threads(Profile { kills: false, ..Profile::default() }, Wait::Balanced);
}

#[test]
fn conformance_asleep_with_shareable_buffers() {
    let profile = Profile { kills: false, shareable: true, ..Profile::default() };
    all_on_threads(profile, Wait::Frugal);
}
