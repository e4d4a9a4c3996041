//! A process that was a member and comes back with the key that it had.

use egret_net::fabric::{Fabric, tcp::TcpFabric};
use egret_net::vi::{Identity, NicOptions};
use egret_node::am::{EndpointName, Message};
use egret_node::node::{Event, Events, NodeId};
use egret_node::{Links, LinksOptions, Registry};

use super::claims::ask_to_join;
use super::peer::Peer;
use super::{SECRET, SOON, registry};

/// The links of a process whose key is this one.
pub(crate) fn links_of(identity: Identity) -> Links {
    let options = NicOptions::new("").secret(SECRET.into()).identity(identity);
    Links::open(TcpFabric.open(&options).unwrap(), LinksOptions::default()).unwrap()
}

/// What the registry answers to one who comes with this key.
fn asks(registry: &Registry, identity: &Identity) -> Vec<u8> {
    let links = links_of(identity.clone());
    ask_to_join(&links, registry.address(), links.host())
}

/// The answer that the key was that of a member, as `pool/wire.rs` has it: a refusal, and why.
fn key_used(by: NodeId) -> Vec<u8> {
    [&[5, 12][..], &by.rank.to_le_bytes(), &by.incarnation.to_le_bytes()].concat()
}

/// Who has joined next.
fn joined(events: &mut Events) -> NodeId {
    match events.wait_next(SOON).unwrap() {
        Event::Joined(member) => member.id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_key_of_a_node_that_left_is_refused() {
    let (registry, identity) = (registry(2), Identity::random());
    let mut events = registry.events();
    let links = links_of(identity.clone());
    let welcome = ask_to_join(&links, registry.address(), links.host());
    assert_eq!(welcome[0], 0, "{welcome:?}");
    let id = joined(&mut events);
    assert_eq!(asks(&registry, &identity), key_used(id), "it is a member");
    let to = EndpointName::new(registry.address(), "egret.registry", 0);
    let remote = links.bundle().endpoint(0).wait_map(&to, SOON).unwrap();
    let left = remote.wait_call(Message::to(0).words(&[5]).bytes(&[LEAVE]), SOON).unwrap();
    assert_eq!(left.bytes(), [2], "it was done");
    drop((remote, links));
    let event = events.wait_next(SOON).unwrap();
    assert!(matches!(event, Event::Left(node) if node == id), "{event:?}");
    assert_eq!(asks(&registry, &identity), key_used(id), "it has left");
    assert_eq!(asks(&registry, &Identity::random())[0], 0, "another key");
}

#[test]
fn the_key_of_a_killed_node_is_refused() {
    let (registry, identity) = (registry(3), Identity::random());
    let mut events = registry.events();
    let mut other = Peer::start("claims", &registry, 2);
    other.said();
    joined(&mut events);
    let private = identity.reveal();
    other.tell(&format!("join {} with {} as itself", registry.address(), *private));
    assert_eq!(other.said(), "joined");
    let id = joined(&mut events);
    drop(other);
    let died = |event| matches!(event, Event::Died { node, .. } if node == id);
    while !died(events.wait_next(SOON).unwrap()) {}
    assert_eq!(asks(&registry, &identity), key_used(id), "it was declared dead");
    assert_eq!(asks(&registry, &Identity::random())[0], 0, "another key");
}

/// The order to be no member any more.
const LEAVE: u8 = 5;
