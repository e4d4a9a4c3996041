//! What somebody achieves who cuts connections off.

use egret::node::Departure;
use egret::rmi::CallError;
use egret::vi::Encrypt;

use crate::scene::{HOME, SOON, Scene, play};

#[test]
fn connections_that_are_cut_off_end_with_errors() {
    play("cut::connections_that_are_cut_off_end_with_errors", || {
        let mut scene = Scene::open(Encrypt::default());
        // In the opening, behind it, in the asking, in the first records.
        for bytes in [0, 40, 100, 300] {
            scene.relay.order(&format!("cut {bytes}"));
            let mut peer = scene.peer();
            let refused = peer.ask(&scene.joining("default"));
            assert!(refused.starts_with("failed: the registry"), "{bytes}: {refused}");
        }
        scene.relay.order("cut never");
        let mut peer = scene.member("default");
        peer.order(&format!("call {HOME} hello"));
        let away = scene.away();
        scene.talk(&away, "hello").unwrap();
        assert_eq!(scene.died(), 0, "who never joined has not died");
        // The member's connections end without a word: it has died, and is told so.
        scene.relay.order("end");
        let ended = scene.talk(&away, "hello").unwrap_err();
        assert!(matches!(ended, CallError::PeerDied { .. }), "{ended}");
        let fate = scene.home.wait_fate(away.object().node, SOON);
        assert!(matches!(fate, Some(Departure::Died { .. })), "{fate:?}");
        let mut again = scene.member("default");
        again.order(&format!("call {HOME} hello"));
    });
}
