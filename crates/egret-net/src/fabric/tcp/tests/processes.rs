//! Two real processes: this test, started again as the answerer.

use super::conformance::{V4, V6, all, has, nic};
use super::sealed::{as_before, record_max};
use crate::conformance::Profile;
use crate::fabric::common::tests::{all_pass, answer, in_two_processes};
use crate::vi::Wait;

/// What the child is to do, and where it is to listen.
const PART: &str = "EGRET_TEST_TCP_PART";
const CHILD: &str = "fabric::tcp::tests::processes::child";
/// Behind the place of a child whose nic seals.
const SEALED: &str = " sealed";

/// Not a test by itself: what the child does.
#[test]
fn child() {
    answer(PART, |told| {
        let place = told.trim_end_matches(SEALED);
        let records = (place != told).then_some(usize::MAX);
        let nic = as_before(records, || nic(place, Wait::Balanced));
        (nic, Profile::default(), all(&Profile::default()))
    });
}

pub(super) fn all_in_processes(host: &'static str) {
    let records = record_max();
    all_pass(all(&Profile::default()), move |case| {
        let caller = as_before(records, || nic(host, Wait::Balanced));
        let told = format!("{host}{}", if records.is_some() { SEALED } else { "" });
        in_two_processes(case, &Profile::default(), caller, (CHILD, PART, &told))
    });
}

#[test]
fn conformance_in_two_processes() {
    all_in_processes(V4);
}

#[test]
fn conformance_in_two_processes_over_ipv6() {
    if has(V6) {
        all_in_processes(V6);
    }
}
