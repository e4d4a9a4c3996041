//! Who may have a link.

use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::vi::{PublicKey, Vi};

use super::hostile::{Stage, hello, say};
use crate::Links;
use crate::am::fault::{Fault, caught};
use crate::link::LinkError;
use crate::link::control::{LinkControl, LinkHello, VERSION};

const LIAR: &str = "liar";

fn other_key() -> PublicKey {
    PublicKey::from_bytes([7; 32])
}

/// Links of hosts that have one with the honest node.
fn links(stage: &Stage) -> usize {
    stage.nodes[0].links.account().links
}

/// The links of the honest node, from now on closed to strangers, and how many there are.
fn closed(stage: &Stage) -> (&Links, usize) {
    let honest = &stage.nodes[0].links;
    honest.close_to_strangers();
    (honest, links(stage))
}

/// The hostile node connects and says hello.
fn called(stage: &Stage) -> Vi {
    let vi = stage.connect();
    say(&vi, &hello());
    stage.steps(100);
    vi
}

fn calls(link: u64, incarnation: u64) -> LinkControl {
    LinkControl::Hello(LinkHello { version: VERSION, link, incarnation, host: LIAR.to_owned() })
}

#[test]
fn unlisted_peers_wait_and_listed_peers_get_a_link() {
    let sim = Sim::new(1);
    let stage = Stage::new(&sim);
    let (honest, before) = closed(&stage);
    let _vi = called(&stage);
    assert_eq!((links(&stage), honest.account().strangers), (before, 1), "it waits");
    honest.allow(LIAR, stage.nic.key());
    stage.steps(100);
    assert_eq!((links(&stage), honest.account().strangers), (before + 1, 0));
    let unknown = honest.wait_connect("nobody", Duration::ZERO);
    assert!(matches!(unknown, Err(LinkError::NotMember { .. })), "{unknown:?}");
}

fn another_key_has_no_link() {
    let sim = Sim::new(2);
    let stage = Stage::new(&sim);
    let (honest, before) = closed(&stage);
    honest.allow(LIAR, Some(other_key()));
    let vi = called(&stage);
    assert_eq!((links(&stage), honest.account().strangers), (before, 1), "it may be another life");
    stage.pass(Duration::from_secs(11));
    assert_eq!((links(&stage), honest.account().strangers), (before, 0));
    assert!(vi.error().is_some());
}

/// Another life of a host calls before the honest node has heard of it.
#[test]
fn another_life_waits_until_it_is_listed() {
    let sim = Sim::new(6);
    let stage = Stage::new(&sim);
    let (honest, before) = closed(&stage);
    honest.allow(LIAR, Some(other_key()));
    let vi = called(&stage);
    honest.disallow(LIAR, Some(other_key()));
    honest.allow(LIAR, stage.nic.key());
    stage.steps(100);
    assert_eq!((links(&stage), honest.account().strangers), (before + 1, 0));
    stage.pass(Duration::from_secs(20));
    assert!(vi.error().is_none() && links(&stage) == before + 1, "it stays");
}

/// Who is not listed any more keeps a link for a few seconds, and who is listed again for good.
fn a_peer_that_left_loses_its_link() {
    let sim = Sim::new(7);
    let stage = Stage::new(&sim);
    let (honest, before) = closed(&stage);
    honest.allow(LIAR, stage.nic.key());
    let vi = called(&stage);
    honest.disallow(LIAR, stage.nic.key());
    stage.steps(100);
    assert_eq!(links(&stage), before + 1, "what is under way arrives");
    honest.allow(LIAR, stage.nic.key());
    stage.pass(Duration::from_secs(10));
    assert_eq!(links(&stage), before + 1);
    honest.disallow(LIAR, stage.nic.key());
    stage.pass(Duration::from_secs(6));
    assert!(vi.error().is_some() && links(&stage) == before);
}

/// Who is not listed has a link for as long as such have one.
fn the_unlisted_go() {
    let sim = Sim::new(8);
    let stage = Stage::new(&sim);
    let (honest, before) = (&stage.nodes[0].links, links(&stage));
    honest.keep_unlisted_for(Duration::from_secs(3));
    let vi = called(&stage);
    assert_eq!(links(&stage), before + 1);
    stage.pass(Duration::from_secs(4));
    assert!(vi.error().is_some() && links(&stage) == before);
    let vi = called(&stage);
    honest.allow(LIAR, stage.nic.key());
    stage.pass(Duration::from_secs(20));
    assert!(vi.error().is_none() && links(&stage) == before + 1);
}

/// Whoever had the host before has no link when it is listed as another's.
fn a_host_that_is_listed_anew_has_no_link_of_before() {
    let sim = Sim::new(3);
    let stage = Stage::new(&sim);
    let (honest, before) = closed(&stage);
    honest.allow(LIAR, stage.nic.key());
    let _vi = called(&stage);
    assert_eq!(links(&stage), before + 1);
    honest.disallow(LIAR, stage.nic.key());
    honest.allow(LIAR, Some(other_key()));
    stage.steps(100);
    assert_eq!(links(&stage), before);
}

/// What is said of a host that is called only changes nothing of it.
#[test]
fn a_called_host_accepts_no_link_of_another_key() {
    let sim = Sim::new(4);
    let stage = Stage::new(&sim);
    let (honest, before) = closed(&stage);
    honest.allow_calling(LIAR, Some(other_key()));
    honest.allow(LIAR, stage.nic.key());
    honest.disallow(LIAR, Some(other_key()));
    let vi = called(&stage);
    assert_eq!((links(&stage), honest.account().strangers), (before, 0));
    honest.end_link_of(LIAR, other_key(), "said by somebody");
    assert!(vi.error().is_some());
}

/// The same process links again with a higher number, and not with one that it had.
fn an_older_call_does_not_replace_a_later_one() {
    let sim = Sim::new(5);
    let stage = Stage::new(&sim);
    let first = stage.connect();
    say(&first, &calls(5, 6));
    stage.steps(100);
    for number in [5, 4, 0] {
        let older = stage.connect();
        say(&older, &calls(number, 6));
        stage.steps(100);
        assert!(first.error().is_none(), "call {number} has ended the link of call 5");
    }
    let later = stage.connect();
    say(&later, &calls(6, 6));
    stage.steps(100);
    assert!(first.error().is_some() && later.error().is_none());
}

#[test]
fn scenes_hold() {
    another_key_has_no_link();
    a_peer_that_left_loses_its_link();
    the_unlisted_go();
    a_host_that_is_listed_anew_has_no_link_of_before();
    an_older_call_does_not_replace_a_later_one();
}

#[test]
fn planted_faults_are_found() {
    assert!(caught(Fault::AnyKey, another_key_has_no_link));
    assert!(caught(Fault::UnlistedStay, a_peer_that_left_loses_its_link));
    assert!(caught(Fault::UnlistedStay, the_unlisted_go));
    assert!(caught(Fault::AnyKey, a_host_that_is_listed_anew_has_no_link_of_before));
    assert!(caught(Fault::AnyNumber, an_older_call_does_not_replace_a_later_one));
}
