//! What somebody learns who sees every byte.

use egret::buf::Pool;
use egret::vi::{Access, Encrypt, Secret};

use crate::scene::{AWAY, HOME, Scene, play};

const ASKED: &str = "marker-of-a-call-that-rank-zero-makes";
const CALLED: &str = "marker-of-a-call-that-rank-one-makes";
const NAMED: &str = "marker-of-a-name";
const BOUND: &str = "marker-of-what-a-name-stands-for";

/// A text as the relay is told it.
pub(crate) fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// How often a text was seen on the way.
fn seen(scene: &mut Scene, text: &str) -> u64 {
    scene.relay.count(&format!("find {}", hex(text)))
}

/// Both call each other and bind names. Also what else goes over their link, as the relay is told
/// it: the interface and the method that they call, where rank 1 is, and a key to memory of rank 0.
fn converse(encrypt: Encrypt, setting: &str, is_encrypted: bool) -> (Scene, Vec<String>) {
    let mut scene = Scene::open(encrypt);
    let mut peer = scene.member(setting);
    peer.order(&format!("bind {NAMED} {BOUND}"));
    let bound = scene.home.bound(NAMED).unwrap().unwrap();
    assert_eq!(bound.bytes, BOUND.as_bytes());
    let away = scene.away();
    scene.talk(&away, ASKED).unwrap();
    peer.order(&format!("call {HOME} {CALLED}"));
    assert_eq!(peer.count("calls"), 1);
    let registry = scene.registry.address().to_owned();
    assert!(scene.relay.count(&format!("connections {registry}")) > 0, "the joining was seen");
    assert!(scene.relay.count("seen") > 2000, "what was said was seen");
    let route = scene.home.route(away.object().node).unwrap();
    assert_eq!(route.links.is_encrypted(&route.host), Some(is_encrypted));
    let pool = Pool::new(64, 1).unwrap();
    let exposed = route.links.nic().expose(pool.take(64).unwrap(), Access::READ).unwrap();
    let key = u64::from_le_bytes(*exposed.key().to_bytes().first_chunk().unwrap());
    away.add(&[key]).unwrap();
    let texts = ["MarkedPost", "marked_echo", &scene.away_host()].map(hex);
    let key = key.to_le_bytes().map(|byte| format!("{byte:02x}")).concat();
    (scene, texts.into_iter().chain([key]).collect())
}

/// Nobody learns what the two say to each other.
fn assert_unread(scene: &mut Scene, others: &[String]) {
    assert_hidden(scene);
    for text in [ASKED, CALLED, "you say"] {
        assert_eq!(seen(scene, text), 0, "{text}");
    }
    for sought in others {
        assert_eq!(scene.relay.count(&format!("find {sought}")), 0, "{sought}");
    }
}

/// Neither the secret of the pool, as bytes and as text, nor the names that the registry keeps: its
/// connections are encrypted whatever nodes say.
fn assert_hidden(scene: &mut Scene) {
    let text = scene.registry.secret().and_then(Secret::reveal).unwrap();
    let bytes = text.split('.').nth(1).unwrap().to_owned();
    assert_eq!(bytes.len(), 64);
    assert_eq!(scene.relay.count(&format!("find {bytes}")), 0, "the secret");
    assert_eq!(seen(scene, &bytes), 0, "the secret as text");
    for name in [NAMED, BOUND, HOME, AWAY] {
        assert_eq!(seen(scene, name), 0, "{name}");
    }
}

#[test]
fn recorded_traffic_does_not_contain_the_calls() {
    play("recorded::recorded_traffic_does_not_contain_the_calls", || {
        let (mut scene, others) = converse(Encrypt::default(), "default", true);
        assert_unread(&mut scene, &others);
    });
}

/// And so the test above would see it.
#[test]
fn recorded_unencrypted_traffic_contains_calls_but_no_secret() {
    play("recorded::recorded_unencrypted_traffic_contains_calls_but_no_secret", || {
        let (mut scene, others) = converse(Encrypt::Never, "off", false);
        for sought in others {
            assert!(scene.relay.count(&format!("find {sought}")) > 0, "{sought}");
        }
        for text in [ASKED, CALLED] {
            assert!(seen(&mut scene, text) >= 2, "{text}: asked and answered");
        }
        assert_hidden(&mut scene);
    });
}

#[test]
fn one_who_would_have_it_encrypted_is_enough() {
    play("recorded::one_who_would_have_it_encrypted_is_enough", || {
        let (mut scene, others) = converse(Encrypt::Never, "default", true);
        assert_unread(&mut scene, &others);
    });
}
