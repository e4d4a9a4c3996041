//! What somebody achieves who says again what was said before.

use std::sync::atomic::Ordering;

use egret::vi::Encrypt;

use crate::scene::{HOME, Scene, play};

#[test]
fn what_was_said_before_lets_nobody_in_and_calls_nobody() {
    play("replayed::what_was_said_before_lets_nobody_in_and_calls_nobody", || {
        let mut scene = Scene::open(Encrypt::default());
        let mut peer = scene.member("default");
        peer.order(&format!("call {HOME} once"));
        let away = scene.away();
        scene.talk(&away, "once").unwrap();
        let members = scene.home.members();
        // Handshakes and all that followed, to whom they were said.
        let refused = scene.relay.count("replay");
        assert!(refused >= 2, "the registry and a node have ended {refused} of them");
        assert_eq!(scene.home.members(), members);
        assert_eq!((scene.desk.calls.load(Ordering::Relaxed), peer.count("calls")), (1, 1));
        peer.order(&format!("call {HOME} twice"));
        scene.talk(&away, "twice").unwrap();
        assert_eq!((scene.desk.calls.load(Ordering::Relaxed), peer.count("calls")), (2, 2));
        assert_eq!((scene.died(), peer.count("died")), (0, 0));
    });
}

#[test]
fn what_was_answered_before_is_no_registry() {
    play("replayed::what_was_answered_before_is_no_registry", || {
        let mut scene = Scene::open(Encrypt::default());
        let mut peer = scene.member("default");
        peer.order("leave");
        scene.relay.order("answer-old yes");
        let mut second = scene.peer();
        let refused = second.ask(&scene.joining("default"));
        assert!(refused.starts_with("failed: the registry"), "{refused}");
        scene.relay.order("answer-old no");
        second.order(&scene.joining("default"));
        second.order(&format!("call {HOME} hello"));
        assert_eq!(scene.died(), 0);
    });
}
