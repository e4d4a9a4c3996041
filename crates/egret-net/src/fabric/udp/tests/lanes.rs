//! Faults of lanes over posted messages, planted: a case of the conformance suite finds each.

use std::time::Duration;

use super::conformance::{all, nic};
use crate::conformance::{Case, Party, Profile, Role, meeting_of_threads, run};
use crate::fault::caught;
use crate::rt;
use crate::vi::Wait;
use crate::vi::lane_counts::Fault;

/// Whether a side of the case notices the fault, which is planted on both.
fn is_noticed(case: Case, fault: Fault, profile: &Profile) -> bool {
    let (caller, answerer) = (nic("", Wait::Balanced), nic("", Wait::Balanced));
    let (here, there) = (caller.host().to_owned(), answerer.host().to_owned());
    let [near, far] = meeting_of_threads();
    let other = {
        let profile = profile.clone();
        rt::spawn("answerer", move || {
            let party = Party::new(answerer, &here, Role::Answerer, far);
            caught(fault, || run(&case, &profile, vec![party]).unwrap())
        })
        .unwrap()
    };
    let party = Party::new(caller, &there, Role::Caller, near);
    let is_noticed = caught(fault, || run(&case, profile, vec![party]).unwrap());
    other.join().unwrap() | is_noticed
}

#[test]
fn planted_faults_of_lanes_are_found() {
    let profile = Profile { kills: false, patience: Duration::from_secs(2), ..Profile::default() };
    let cases = all(&profile);
    let case = cases.iter().find(|case| case.name == "eager::arrived_past_drops").unwrap();
    for fault in [Fault::CountsDrained, Fault::AsksOnce] {
        assert!(is_noticed(*case, fault, &profile), "{fault:?} was not noticed by {case}");
    }
}
