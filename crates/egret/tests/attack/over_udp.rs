//! The same attacks on nodes that talk over udp: what is changed, repeated or forged is as good as
//! lost, and what is lost is said again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use egret::vi::{Encrypt, Secret};

use crate::actor::Actor;
use crate::member::DeskStub;
use crate::recorded::hex;
use crate::scene::{HOME, Scene, play};
use crate::spaces::{FALSE, OWN_PORT};

const ASKED: &str = "marker-of-a-call-over-udp";
/// Calls each way while somebody attacks.
const CALLS: u64 = 30;

/// Both nodes, whose datagrams lead through the relay.
fn open(encrypt: Encrypt, setting: &str) -> (Scene, Actor, DeskStub) {
    let mut scene = Scene::open_over("udp", encrypt);
    let peer = scene.member(setting);
    let (home, away) = (scene.home_host(), scene.away_host());
    scene.relay.order(&format!("udp goals {home} {away}"));
    let away = scene.away().with_deadline(Duration::from_secs(30));
    (scene, peer, away)
}

/// Both call each other, and each call arrives once.
fn converse(scene: &Scene, peer: &mut Actor, away: &DeskStub) {
    let before = (scene.desk.calls.load(Ordering::Relaxed), peer.count("calls"));
    for call in 0..CALLS {
        let numbers: Vec<u64> = (0..2000).map(|number| number * call).collect();
        let sums = away.add(&numbers).unwrap();
        assert!(sums.iter().zip(&numbers).all(|(sum, number)| *sum == number + 1));
        peer.order(&format!("call {HOME} {ASKED}"));
    }
    let after = (scene.desk.calls.load(Ordering::Relaxed), peer.count("calls"));
    assert_eq!(after, (before.0 + CALLS, before.1 + CALLS), "each call arrives once");
}

#[test]
fn recorded_datagrams_do_not_contain_the_calls() {
    play("over_udp::recorded_datagrams_do_not_contain_the_calls", || {
        let (mut scene, mut peer, away) = open(Encrypt::default(), "default");
        converse(&scene, &mut peer, &away);
        assert!(scene.relay.count("udp seen") > CALLS, "what was said was seen");
        assert_eq!(scene.relay.count(&format!("udp find {}", hex(ASKED))), 0);
    });
}

/// And so the test above would see it.
#[test]
fn recorded_unencrypted_datagrams_contain_the_calls() {
    play("over_udp::recorded_unencrypted_datagrams_contain_the_calls", || {
        let (mut scene, mut peer, away) = open(Encrypt::Never, "off");
        converse(&scene, &mut peer, &away);
        assert!(scene.relay.count(&format!("udp find {}", hex(ASKED))) > 0);
    });
}

#[test]
fn changed_and_dropped_datagrams_are_said_again() {
    play("over_udp::changed_and_dropped_datagrams_are_said_again", || {
        let (mut scene, mut peer, away) = open(Encrypt::default(), "default");
        converse(&scene, &mut peer, &away);
        scene.relay.order("udp every 8 8 0");
        converse(&scene, &mut peer, &away);
        assert!(scene.relay.count("udp changed") > 10 && scene.relay.count("udp dropped") > 10);
        assert_eq!((scene.died(), peer.count("died")), (0, 0));
    });
}

#[test]
fn handshakes_that_are_changed_and_dropped_are_made_again() {
    play("over_udp::handshakes_that_are_changed_and_dropped_are_made_again", || {
        let (mut scene, mut peer, away) = open(Encrypt::default(), "default");
        scene.relay.order("udp every 6 6 2");
        converse(&scene, &mut peer, &away);
        assert!(scene.relay.count("udp changed") > 10 && scene.relay.count("udp dropped") > 10);
        assert_eq!((scene.died(), peer.count("died")), (0, 0));
    });
}

#[test]
fn what_is_said_again_calls_nobody() {
    play("over_udp::what_is_said_again_calls_nobody", || {
        let (mut scene, mut peer, away) = open(Encrypt::default(), "default");
        // Each other datagram comes twice, and then all of them come once more.
        scene.relay.order("udp every 0 0 2");
        converse(&scene, &mut peer, &away);
        assert!(scene.relay.count("udp replay") > CALLS);
        converse(&scene, &mut peer, &away);
        assert_eq!((scene.died(), peer.count("died")), (0, 0));
    });
}

/// Datagrams that are led astray, if it is not for a while.
const ALL: u64 = u64::MAX;

/// The order to lead so many datagrams to a host to another place, handshakes with the sign of one who
/// has this secret.
fn diversion(host: &str, place: &str, secret: &str, most: u64) -> String {
    let bytes = secret.rsplit_once('.').map_or(secret, |(_, bytes)| bytes);
    format!("udp divert {host} {place} {bytes} {most}")
}

#[test]
fn datagrams_that_are_led_to_another_member_call_nobody_there() {
    play("over_udp::datagrams_that_are_led_to_another_member_call_nobody_there", || {
        let (mut scene, mut peer, away) = open(Encrypt::default(), "default");
        let (home, secret) = (scene.home_host(), scene.bare_secret());
        let (mut third, place) = (scene.third(), format!("{FALSE}:{OWN_PORT}"));
        assert_eq!(scene.host_of(2), place);
        // Handshakes: another answers who has the secret, and not the key.
        scene.relay.order(&diversion(&home, &place, &secret, ALL));
        let refused = peer.ask(&format!("call {HOME} {ASKED}"));
        assert!(refused.contains("another key than was expected"), "{refused}");
        assert!(scene.relay.count("udp led") > 0, "it was led astray");
        scene.relay.order("udp divert");
        // The system under the relay lets only that side begin again which has begun before.
        peer.order(&format!("call {HOME} {ASKED}"));
        converse(&scene, &mut peer, &away);
        // And what is said on a connection, for a while: another knows nothing of it.
        for _ in 0..5 {
            scene.relay.order(&diversion(&home, &place, &secret, 8));
            converse(&scene, &mut peer, &away);
            assert_eq!(scene.relay.count("udp led"), 8);
        }
        assert_eq!(third.count("calls"), 0, "nobody has called it");
        assert_eq!((scene.died(), peer.count("died"), third.count("died")), (0, 0, 0));
        assert!(
            scene.home.id_of(2).and_then(|node| scene.home.member(node)).is_some(),
            "it is a member"
        );
    });
}

#[test]
fn an_impostor_that_answers_datagrams_is_not_called() {
    play("over_udp::an_impostor_that_answers_datagrams_is_not_called", || {
        let (mut scene, mut peer, away) = open(Encrypt::default(), "default");
        let (home, secret) = (scene.home_host(), scene.bare_secret());
        let (_, port) = home.rsplit_once(':').unwrap();
        let place = format!("{FALSE}:{port}");
        // One who has the secret of the pool, and one who has another, with and without a handshake that
        // is signed for it.
        let other = Secret::random().reveal().unwrap();
        let is_another = "another key than was expected";
        for (has, signed, why) in [
            (&secret, secret.as_str(), is_another),
            (&other, &other, is_another),
            (&other, "unsigned", "failed: "),
        ] {
            let mut impostor = scene.impostor();
            impostor.order(&format!("links {home} {has} udp"));
            scene.relay.order(&diversion(&home, &place, signed, ALL));
            let refused = peer.ask(&format!("call {HOME} {ASKED}"));
            assert!(refused.contains(why), "{refused}");
            assert!(scene.relay.count("udp led") > 0, "it was led astray");
            assert_eq!(impostor.count("made"), 0, "and gave nobody a link there");
        }
        assert_eq!(scene.desk.calls.load(Ordering::Relaxed), 0);
        scene.relay.order("udp divert");
        // The system under the relay lets only that side begin again which has begun before.
        peer.order(&format!("call {HOME} {ASKED}"));
        converse(&scene, &mut peer, &away);
        assert_eq!((scene.died(), peer.count("died")), (0, 0));
    });
}

#[test]
fn an_impostor_that_sends_datagrams_gets_no_link() {
    play("over_udp::an_impostor_that_sends_datagrams_gets_no_link", || {
        let (mut scene, mut peer, away) = open(Encrypt::default(), "default");
        converse(&scene, &mut peer, &away);
        let (home, there, secret) = (scene.home_host(), scene.away_host(), scene.bare_secret());
        let mut impostor = scene.impostor();
        // It has the address of rank 0, also to rank 1, and hears what rank 1 answers.
        impostor.order(&format!("links {home} {secret} udp"));
        let refused = impostor.ask(&format!("connect {there}"));
        assert!(refused.starts_with("failed: "), "{refused}");
        assert!(scene.relay.count("udp answered") > 0, "both handshakes were answered");
        assert_eq!(impostor.count("linked"), 0);
        converse(&scene, &mut peer, &away);
        assert_eq!((scene.died(), peer.count("died")), (0, 0));
    });
}
