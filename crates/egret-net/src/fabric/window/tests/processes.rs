//! The conformance suite over `udp` in two processes, of which one may die.

use crate::conformance::{Case, Profile, cases};
use crate::fabric::Fabric;
use crate::fabric::common::tests::{all_pass, answer, in_two_processes};
use crate::fabric::udp::UdpFabric;
use crate::vi::Nic;

fn nic() -> Nic {
    UdpFabric.open(&"".into()).unwrap()
}

fn all() -> Vec<Case> {
    let cases = cases(&nic().limits(), &Profile::default());
    assert!(cases.len() > 60, "{}", cases.len());
    cases
}

/// What the child is to do.
const PART: &str = "EGRET_TEST_WINDOW_PART";
const CHILD: &str = "fabric::window::tests::processes::child";

/// Not a test by itself: what the child does.
#[test]
fn child() {
    answer(PART, |_| (nic(), Profile::default(), all()));
}

#[test]
fn conformance_in_two_processes() {
    all_pass(all(), |case| in_two_processes(case, &Profile::default(), nic(), (CHILD, PART, "")));
}
