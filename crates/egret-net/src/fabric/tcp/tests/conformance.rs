//! The conformance suite: two nics in one process.

use super::sealed::{as_before, record_max};
use crate::conformance::{Case, Profile, cases};
use crate::fabric::Fabric;
use crate::fabric::common::tests::all_pass_on_threads;
use crate::fabric::tcp::TcpFabric;
use crate::vi::{Nic, NicOptions, Wait};

pub(super) const V4: &str = "127.0.0.1";
pub(super) const V6: &str = "::1";

pub(super) fn nic(host: &str, wait: Wait) -> Nic {
    TcpFabric.open(&NicOptions::new(host).wait(wait)).unwrap()
}

pub(super) fn all(profile: &Profile) -> Vec<Case> {
    cases(&nic(V4, Wait::Frugal).limits(), profile)
}

/// Whether this machine has the address.
pub(super) fn has(host: &str) -> bool {
    let opened = TcpFabric.open(&host.into());
    if let Err(why) = &opened {
        println!("skipped: {why}");
    }
    opened.is_ok()
}

pub(super) fn all_on_threads(host: &'static str, wait: Wait) {
    let profile = Profile { kills: false, ..Profile::default() };
    let records = record_max();
    all_pass_on_threads(all(&profile), profile, move || {
        as_before(records, || [(); 2].map(|()| nic(host, wait)))
    });
}

#[test]
fn conformance_on_two_threads() {
    all_on_threads(V4, Wait::Balanced);
}

#[test]
fn conformance_asleep() {
    all_on_threads(V4, Wait::Frugal);
}

#[test]
fn conformance_on_two_threads_over_ipv6() {
    if has(V6) {
        all_on_threads(V6, Wait::Balanced);
    }
}
