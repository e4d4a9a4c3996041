//! The conformance suite: two nics in one process, and two processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::conformance::{Case, Failure, Meeting, Party, Profile, Role, cases, run};
use crate::fabric::Fabric;
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

/// A meeting of two threads.
#[derive(Debug)]
struct Threads {
    counts: Arc<[AtomicU64; 2]>,
    own: usize,
}

impl Meeting for Threads {
    fn come(&self) -> u64 {
        self.counts[self.own].fetch_add(1, Ordering::SeqCst) + 1
    }

    fn other(&self) -> u64 {
        self.counts[1 - self.own].load(Ordering::SeqCst)
    }
}

/// Runs each side of a case on a thread of its own.
fn run_on_threads(case: Case, profile: &Profile, wait: Wait) -> Result<(), Failure> {
    let unique = rt::random();
    let (here, there) = (format!("caller-{unique}"), format!("answerer-{unique}"));
    let counts = Arc::new([const { AtomicU64::new(0) }; 2]);
    let answerer = {
        let (here, there, profile) = (here.clone(), there.clone(), profile.clone());
        let meeting = Threads { counts: Arc::clone(&counts), own: 1 };
        rt::spawn("answerer", move || {
            let meeting = Box::new(meeting);
            run(
                &case,
                &profile,
                vec![Party::new(nic(&there, wait), &here, Role::Answerer, meeting)],
            )
        })
        .unwrap()
    };
    let meeting = Box::new(Threads { counts, own: 0 });
    let caller = Party::new(nic(&here, wait), &there, Role::Caller, meeting);
    run(&case, profile, vec![caller])?;
    answerer.join().unwrap()
}

fn all_on_threads(profile: &Profile, wait: Wait) {
    let run = |case: Case| {
        let started = rt::now();
        let failure = run_on_threads(case, profile, wait).err();
        // A wake-up that was lost is made up for by the deadline of what was waited for.
        let waited = rt::now() - started;
        assert!(waited < profile.patience, "{case} took {waited:?}");
        failure
    };
    let failures: Vec<_> = all(profile).into_iter().filter_map(run).collect();
    let failures: Vec<String> = failures.iter().map(Failure::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn conformance_on_two_threads() {
    all_on_threads(&Profile { kills: false, ..Profile::default() }, Wait::Balanced);
}

#[test]
fn conformance_asleep_with_shareable_buffers() {
    let profile = Profile { kills: false, shareable: true, ..Profile::default() };
    all_on_threads(&profile, Wait::Frugal);
}
