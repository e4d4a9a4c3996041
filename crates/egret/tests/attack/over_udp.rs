//! The same attacks on nodes that talk over udp: what is changed, repeated or forged is as good as
//! lost, and what is lost is said again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use egret::net::vi::Encrypt;

use crate::actor::Actor;
use crate::member::DeskStub;
use crate::recorded::hex;
use crate::scene::{HOME, Scene, play};

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
fn who_records_datagrams_learns_nothing_of_them() {
    play("over_udp::who_records_datagrams_learns_nothing_of_them", || {
        let (mut scene, mut peer, away) = open(Encrypt::default(), "default");
        converse(&scene, &mut peer, &away);
        assert!(scene.relay.count("udp seen") > CALLS, "what was said was seen");
        assert_eq!(scene.relay.count(&format!("udp find {}", hex(ASKED))), 0);
    });
}

/// And so the test above would see it.
#[test]
fn who_records_datagrams_that_are_not_encrypted_reads_them() {
    play("over_udp::who_records_datagrams_that_are_not_encrypted_reads_them", || {
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
fn greetings_that_are_changed_and_dropped_are_made_again() {
    play("over_udp::greetings_that_are_changed_and_dropped_are_made_again", || {
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
