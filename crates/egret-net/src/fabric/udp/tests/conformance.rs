//! The conformance suite: two nics in one process, and two processes.

use crate::conformance::{Case, Profile, cases};
use crate::fabric::Fabric;
use crate::fabric::common::tests::{all_pass, all_pass_on_threads, answer, in_two_processes};
use crate::fabric::udp::UdpDatagrams;
use crate::vi::{Encrypt, Nic, NicOptions, Wait};

pub(super) fn nic(host: &str, wait: Wait) -> Nic {
    nic_that(host, wait, Encrypt::BetweenMachines)
}

fn nic_that(host: &str, wait: Wait, encrypt: Encrypt) -> Nic {
    UdpDatagrams.open(&NicOptions::new(host).wait(wait).encrypt(encrypt)).unwrap()
}

/// Of one level, and on loopback nothing is lost.
pub(super) fn all(profile: &Profile) -> Vec<Case> {
    let cases = cases(&nic("", Wait::Frugal).limits(), profile);
    assert!(cases.len() > 12 && cases.iter().all(|case| !case.level.is_reliable()));
    cases
}

fn all_on_threads(host: &'static str, wait: Wait, encrypt: Encrypt) {
    let profile = Profile { kills: false, ..Profile::default() };
    // One end that wants it is enough.
    let nics = move || [nic_that(host, wait, encrypt), nic(host, wait)];
    all_pass_on_threads(all(&profile), profile, nics);
}

#[test]
fn conformance_on_two_threads() {
    all_on_threads("", Wait::Balanced, Encrypt::BetweenMachines);
}

#[test]
fn conformance_sealed() {
    all_on_threads("", Wait::Balanced, Encrypt::Always);
}

#[test]
fn conformance_asleep_over_ipv6() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("skipped: no IPv6 here");
        return;
    }
    all_on_threads("::1", Wait::Frugal, Encrypt::BetweenMachines);
}

/// What the child is to do.
const PART: &str = "EGRET_TEST_UDP_PART";
const CHILD: &str = "fabric::udp::tests::conformance::child";

/// Not a test by itself: what the child does.
#[test]
fn child() {
    answer(PART, |_| (nic("", Wait::Balanced), Profile::default(), all(&Profile::default())));
}

#[test]
fn conformance_in_two_processes() {
    all_pass(all(&Profile::default()), |case| {
        let caller = nic("", Wait::Balanced);
        in_two_processes(case, &Profile::default(), caller, (CHILD, PART, ""))
    });
}
