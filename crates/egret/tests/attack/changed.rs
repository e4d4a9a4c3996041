//! What somebody achieves who changes bits of what passes.

use std::time::Duration;

use egret::rmi::CallError;
use egret::vi::Encrypt;

use crate::scene::{HOME, Scene, play};

/// Calls that are made while bits change.
const CALLS: u64 = 60;

#[test]
fn changed_bits_of_calls_end_connections_and_never_arrive() {
    play("changed::changed_bits_of_calls_end_connections_and_never_arrive", || {
        let mut scene = Scene::open(Encrypt::default());
        let mut peer = scene.member("default");
        let away = scene.away().with_deadline(Duration::from_secs(5));
        // The connections of the registry stay, so that both are members.
        let registry = scene.registry.address().to_owned();
        scene.relay.order(&format!("change 100000 7 {registry}"));
        let mut failed = 0;
        for call in 0..CALLS {
            let numbers: Vec<u64> = (0..2000).map(|number| number * call).collect();
            match away.add(&numbers) {
                Ok(sums) => assert!(sums.iter().zip(&numbers).all(|(sum, at)| *sum == at + 1)),
                Err(CallError::PeerDied { .. } | CallError::Deadline { .. }) => failed += 1,
                Err(why) => panic!("{why}"),
            }
        }
        assert!(scene.relay.count("changed") > 0, "bits were changed");
        assert!(failed > 0, "and calls failed for it");
        assert!(failed < CALLS, "others came through: {failed}");
        scene.relay.order("change 0 0 nobody");
        scene.talk(&away, "again").unwrap();
        peer.order(&format!("call {HOME} again"));
        assert_eq!((scene.died(), peer.count("died")), (0, 0));
    });
}

#[test]
fn changed_bits_of_handshakes_let_nobody_in_as_another() {
    play("changed::changed_bits_of_handshakes_let_nobody_in_as_another", || {
        let mut scene = Scene::open(Encrypt::default());
        let mut failed = 0;
        for seed in 0..6 {
            let mut peer = scene.peer();
            scene.relay.order(&format!("change 150 {seed} nobody"));
            let said = peer.ask(&scene.joining("default"));
            if said != "done" {
                failed += 1;
                assert!(said.starts_with("failed: the registry"), "{said}");
            }
            scene.relay.order("change 0 0 nobody");
        }
        assert!(failed > 0 && scene.relay.count("changed") > 5);
        let mut peer = scene.member("default");
        peer.order(&format!("call {HOME} again"));
        let away = scene.away();
        scene.talk(&away, "again").unwrap();
    });
}
