//! What somebody gains who has the secret of the pool, the address of a node and the path to it,
//! and not its key.

use std::sync::atomic::Ordering;

use egret::vi::Encrypt;

use crate::actor::Actor;
use crate::scene::{HOME, Scene, play};
use crate::spaces::{FALSE, OWN_PORT, THERE};

/// The order to connect callers of a host with the impostor, who has the secret.
fn diversion(host: &str, secret: &str) -> String {
    let (_, port) = host.rsplit_once(':').unwrap();
    format!("divert {host} {FALSE}:{port} {}", secret.rsplit_once('.').unwrap().1)
}

#[test]
fn another_registry_with_the_secret_is_refused_by_its_key() {
    play("impostors::another_registry_with_the_secret_is_refused_by_its_key", || {
        let mut scene = Scene::open(Encrypt::default());
        let mut impostor = scene.impostor();
        let (place, secret) = (scene.registry.address().to_owned(), scene.bare_secret());
        impostor.order(&format!("registry {place} {secret}"));
        scene.relay.order(&diversion(&place, &secret));
        let mut peer = scene.peer();
        let refused = peer.ask(&scene.joining("default"));
        assert!(refused.contains("another key than was expected"), "{refused}");
        assert_eq!(impostor.count("events"), 0, "nobody has asked it anything");
        // Without the registry's key the secret is proven to anybody who has it: this is the way that
        // was taken above.
        peer.order(&format!("join {place} {secret} default tcp {THERE}"));
        assert_eq!(impostor.count("events"), 1);
        peer.order("leave");

        scene.relay.order(&format!("divert {place}"));
        peer.order(&scene.joining("default"));
        peer.order(&format!("call {HOME} hello"));
        assert_eq!(scene.died(), 0);
    });
}

#[test]
fn another_node_with_the_secret_and_the_address_is_not_called() {
    play("impostors::another_node_with_the_secret_and_the_address_is_not_called", || {
        let mut scene = Scene::open(Encrypt::default());
        let (host, secret) = (scene.home_host(), scene.bare_secret());
        let mut impostor = scene.impostor();
        impostor.order(&format!("links {host} {secret} tcp"));
        let mut peer = scene.member("default");
        scene.relay.order(&diversion(&host, &secret));
        let refused = peer.ask(&format!("call {HOME} hello"));
        assert!(refused.contains("another key than was expected"), "{refused}");
        assert!(scene.relay.count(&format!("connections {host}")) > 0, "it was led astray");
        assert_eq!(impostor.count("made"), 0, "and gave nobody a link there");

        scene.relay.order(&format!("divert {host}"));
        peer.order(&format!("call {HOME} hello"));
        assert_eq!(scene.desk.calls.load(Ordering::Relaxed), 1);
        assert_eq!((scene.died(), peer.count("died")), (0, 0));
    });
}

#[test]
fn an_impostor_at_the_host_of_a_member_gets_no_link() {
    play("impostors::an_impostor_at_the_host_of_a_member_gets_no_link", || {
        // As itself it is known to the registry, which has the same secret, and to no member.
        claims_the_host_of_rank_0(|impostor, registry, away| {
            impostor.order(&format!("ask {registry}"));
            let refused = impostor.ask(&format!("connect {away}"));
            assert!(refused.starts_with("failed: "), "{refused}");
        });
    });
}

/// And so it is with one who is a member.
#[test]
fn a_member_that_claims_the_host_of_another_takes_no_link_from_it() {
    play("impostors::a_member_that_claims_the_host_of_another_takes_no_link_from_it", || {
        claims_the_host_of_rank_0(|impostor, registry, away| {
            impostor.order(&format!("join {registry} {FALSE}:{OWN_PORT}"));
            impostor.order(&format!("connect {away}"));
        });
    });
}

/// The impostor does something as itself, and then is nobody with the same key and the host of rank
/// 0, which keeps its links.
fn claims_the_host_of_rank_0(as_itself: impl FnOnce(&mut Actor, &str, &str)) {
    let mut scene = Scene::open(Encrypt::default());
    let mut peer = scene.member("default");
    peer.order(&format!("call {HOME} before"));
    let (home, away, secret) = (scene.home_host(), scene.away_host(), scene.bare_secret());
    let registry = scene.registry.address().to_owned();
    let mut impostor = scene.impostor();
    impostor.order(&format!("links {FALSE}:{OWN_PORT} {secret} tcp"));
    as_itself(&mut impostor, &registry, &away);
    impostor.order(&format!("links {home} {secret} tcp"));
    for order in [format!("ask {registry}"), format!("connect {away}")] {
        let refused = impostor.ask(&order);
        assert!(refused.starts_with("failed: "), "{order}: {refused}");
    }
    assert_eq!(impostor.count("linked"), 0);
    peer.order(&format!("call {HOME} after"));
    assert_eq!(scene.desk.calls.load(Ordering::Relaxed), 2);
    let stub = scene.away();
    scene.talk(&stub, "after").unwrap();
    assert_eq!((scene.died(), peer.count("died")), (0, 0));
}

/// Whoever has the secret can join while there is room, and say where it is to be found.
#[test]
fn a_join_at_the_host_of_a_member_is_refused() {
    play("impostors::a_join_at_the_host_of_a_member_is_refused", || {
        let mut scene = Scene::open(Encrypt::default());
        let (home, secret) = (scene.home_host(), scene.bare_secret());
        let registry = scene.registry.address().to_owned();
        let mut peer = scene.member("default");
        let mut impostor = scene.impostor();
        impostor.order(&format!("links {FALSE}:{OWN_PORT} {secret} tcp"));
        assert_eq!(impostor.ask(&format!("join {registry} {home}")), "refused");
        peer.order(&format!("call {HOME} hello"));
        assert_eq!(scene.desk.calls.load(Ordering::Relaxed), 1);
        impostor.order(&format!("join {registry} {FALSE}:{OWN_PORT}"));
        peer.order(&format!("call {HOME} hello"));
        assert_eq!((scene.died(), peer.count("died")), (0, 0));
    });
}
