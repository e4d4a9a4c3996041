//! Those who say what no node and no registry says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::fabric::{Fabric, tcp::TcpFabric};
use egret_net::rt::Deadline;
use egret_net::vi::NicOptions;
use egret_node::am::{EndpointName, MEDIUM_MAX, Message, MessageError, ReplySlot};
use egret_node::node::{Config, Event, JoinError, Node, NodeError, RegistryRefusal};
use egret_node::{Links, LinksOptions};

use super::{SOON, join, registry};

const REGISTRY: &str = "egret.registry";

fn links(secret: &str) -> Links {
    let nic = TcpFabric.open(&NicOptions::new("").secret(secret.into())).unwrap();
    Links::open(nic, LinksOptions::default()).unwrap()
}

#[test]
fn garbage_is_refused_and_harms_nobody() {
    let registry = registry(2);
    let node = join(&registry);
    let links = links(crate::SECRET);
    let mine = links.bundle().endpoint(0);
    let to = EndpointName::new(registry.address(), REGISTRY, 0);
    let remote = mine.wait_map(&to, SOON).unwrap();
    for length in [0, 1, 7, 100, MEDIUM_MAX] {
        for fill in [0, 1, 5, 0x7f, 0xff] {
            for words in [&[][..], &[1], &[4], &[1, 1]] {
                let bytes = vec![fill; length];
                let message = Message::to(0).words(words).bytes(&bytes);
                assert!(!remote.wait_call(message, SOON).unwrap().bytes().is_empty());
                remote.wait_send(Message::to(0).words(words).bytes(&bytes), SOON).unwrap();
            }
        }
    }
    // More than anybody may ask at once is taken in, read as no question, and let go.
    let huge = Message::to(0).words(&[1]).data(vec![0xff_u8; 4 << 20]);
    assert!(!remote.wait_call(huge, SOON).unwrap().bytes().is_empty());
    let too_huge = Message::to(0).words(&[1]).data(vec![0xff_u8; 64 << 20]);
    assert!(matches!(remote.wait_call(too_huge, SOON), Err(MessageError::TooLarge { .. })));
    assert!(matches!(remote.wait_call(7_u8, SOON), Err(MessageError::NoHandler { .. })));
    node.bind("still", b"here").unwrap();
    assert_eq!(join(&registry).bound("still").unwrap().unwrap().bytes, b"here");
}

/// A registry that answers everything with these bytes.
fn impostor(bytes: Vec<u8>) -> (Links, egret_node::am::Endpoint) {
    let links = links(crate::SECRET);
    let endpoint = links.bundle().register(REGISTRY, 0).unwrap();
    endpoint.on(0, move |request| request.reply_with(Message::to(255).bytes(&bytes)));
    (links, endpoint)
}

fn config(links: &Links) -> Config {
    Config::new("test").registry(links.host()).secret(crate::SECRET.into())
}

#[test]
fn a_registry_that_talks_nonsense_is_lost() {
    for bytes in [vec![], vec![0], vec![5; 10], vec![0xff; 4096], vec![2], vec![4]] {
        let (links, _endpoint) = impostor(bytes.clone());
        let lost = Node::join(config(&links)).unwrap_err();
        let known = matches!(&lost, JoinError::Lost { .. })
            || matches!(&lost, JoinError::Refused { why: RegistryRefusal::Unreadable, .. });
        assert!(known, "{bytes:?}: {lost}");
    }
}

#[test]
fn a_registry_that_says_nothing_is_not_waited_for_for_ever() {
    let links = links(crate::SECRET);
    let endpoint = links.bundle().register(REGISTRY, 0).unwrap();
    let kept: Mutex<Vec<ReplySlot>> = Mutex::default();
    endpoint.on(0, move |request| kept.lock().unwrap().push(request.later()));
    let soon = Deadline::In(Duration::from_millis(200));
    let late = Node::join(config(&links).deadline(soon)).unwrap_err();
    assert!(matches!(late, JoinError::TimedOut { .. }), "{late}");
}

#[test]
fn where_there_is_no_registry_there_is_no_node() {
    let links = links(crate::SECRET);
    let none = Node::join(config(&links)).unwrap_err();
    assert!(matches!(none, JoinError::NoRegistry { .. }), "{none}");
    let missing = Node::join(Config::new("test")).unwrap_err().to_string();
    assert!(missing.contains("EGRET_REGISTRY"), "{missing}");
}

#[test]
fn a_refused_follower_is_answered_at_its_endpoint() {
    let registry = registry(1);
    let links = links(crate::SECRET);
    let mine = links.bundle().endpoint(0);
    let told: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let kept = Arc::clone(&told);
    mine.on(1, move |request| kept.lock().unwrap().push(request.bytes().to_vec()));
    let to = EndpointName::new(registry.address(), REGISTRY, 0);
    let remote = mine.wait_map(&to, SOON).unwrap();
    let follow = [&[1_u8][..], &[0; 8]].concat();
    drop(remote.wait_request(Message::to(0).words(&[5]).bytes(&follow), SOON).unwrap());
    assert!(links.drive(SOON, || !told.lock().unwrap().is_empty()), "it was not told");
    let not_a_member = vec![5, 8];
    assert_eq!(*told.lock().unwrap(), [not_a_member]);
}

/// A registry that welcomes its only node, tells it so, and `then` answers its questions
/// what happened.
fn welcomes(then: impl Fn(ReplySlot) + Send + 'static) -> (Links, egret_node::am::Endpoint) {
    let id = [&0_u32.to_le_bytes()[..], &1_u64.to_le_bytes()].concat();
    let (size, heard_ms) = (1_u32.to_le_bytes(), 300_u64.to_le_bytes());
    let welcome = [&[0][..], &id, &size, &[0], &heard_ms, &[0; 8]].concat();
    let member = [&id[..], &[0; 25]].concat();
    let joined = [&[1][..], &0_u64.to_le_bytes(), &size, &[0], &member].concat();
    let links = links(crate::SECRET);
    let endpoint = links.bundle().register(REGISTRY, 0).unwrap();
    let asks: Mutex<Vec<ReplySlot>> = Mutex::default();
    endpoint.on(0, move |request| match request.bytes() {
        [0, ..] => request.reply_with(Message::to(255).bytes(&welcome)),
        [1, 0, ..] => request.reply_with(Message::to(1).bytes(&joined)),
        [1, ..] => then(request.later()),
        _ => asks.lock().unwrap().push(request.later()),
    });
    (links, endpoint)
}

fn lost(node: &Node) -> String {
    let mut events = node.events();
    loop {
        if let Event::RegistryLost { why } = events.wait_next(SOON).unwrap() {
            return why;
        }
    }
}

#[test]
fn a_registry_that_falls_silent_is_lost_for_who_waits() {
    let kept: Mutex<Vec<ReplySlot>> = Mutex::default();
    let (links, _endpoint) = welcomes(move |slot| kept.lock().unwrap().push(slot));
    let config = || config(&links).deadline(Deadline::UntilDead);
    let node = Node::join(config()).unwrap();
    let why = lost(&node);
    assert!(why.contains("it has not said anything for"), "{why}");
    // And for who waits for an answer.
    drop(node);
    let node = Node::join(config()).unwrap();
    let waited = node.wait_bound("x", Deadline::UntilDead).unwrap_err();
    assert!(matches!(waited, NodeError::RegistryLost { .. }), "{waited}");
}

#[test]
fn a_registry_that_refuses_to_tell_is_lost() {
    let (links, _endpoint) = welcomes(|slot| slot.reply_with(Message::to(1).bytes(&[5, 8])));
    let why = match Node::join(config(&links)) {
        Ok(node) => lost(&node),
        Err(JoinError::Lost { why, .. }) => why,
        Err(other) => panic!("{other}"),
    };
    assert_eq!(why, "the node is no member of the pool");
}
