//! Which fabrics are used, and how that is told.

use std::sync::Arc;

use egret_net::fabric::sim::Sim;
use egret_net::fabric::{Fabric, OpenError, tcp::TcpFabric};
use egret_net::vi::{Encrypt, Nic, NicOptions};
use egret_node::node::{Config, JoinError, Latency, Node, NodeError, Properties, Property};

use egret_node::registry::{Registry, RegistryOptions};

use super::{SOON, config, registry};

#[test]
fn the_first_that_both_have_is_used_and_explained() {
    let registry = registry(4);
    let with = |list: &str| Node::join(config(&registry).fabrics(list)).unwrap();
    let (both, tcp, shm) = (with("shm,tcp"), with("^shm,^udp"), with("shm"));
    let backwards = with("tcp,shm");
    both.wait_all(SOON).unwrap();
    let explained = |from: &Node, to: &Node| from.explain(to.id()).unwrap().to_string();
    assert_eq!(both.route(tcp.id()).unwrap().fabric, "tcp");
    let why = explained(&both, &tcp);
    assert!(why.starts_with("rank 1: tcp, because "), "{why}");
    assert!(why.contains("shm: rank 1 does not use it"), "{why}");
    let why = explained(&tcp, &both);
    assert!(why.contains("shm: rejected by EGRET_FABRICS (program)"), "{why}");
    assert!(why.contains("udp: rejected"), "{why}");
    assert_eq!(both.route(shm.id()).unwrap().fabric, "shm");
    let why = explained(&both, &shm);
    assert!(why.starts_with("rank 2: shm, because both are on one machine"), "{why}");
    // The preference of the lower rank counts on both sides.
    assert_eq!(both.route(backwards.id()).unwrap().fabric, "shm");
    assert_eq!(backwards.route(both.id()).unwrap().fabric, "shm");
    let why = explained(&backwards, &both);
    assert!(why.ends_with("; tcp: is possible"), "{why}");
    let none = shm.route(tcp.id()).unwrap_err();
    assert!(matches!(&none, NodeError::NoFabric { .. }), "{none}");
    // The registry is asked over tcp all the same, which is nobody else's.
    shm.bind("x", b"").unwrap();
    assert_eq!(shm.links().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["shm"]);
}

#[test]
fn properties_are_required_and_rejected() {
    let registry = registry(8);
    let own = || config(&registry);
    let names =
        |node: &Node| node.fabrics().into_iter().map(|fabric| fabric.name).collect::<Vec<String>>();
    let all = Node::join(own().fabrics("shm,tcp,udp")).unwrap();
    assert_eq!(names(&all), ["shm", "tcp", "udp"]);
    let reliable = own().fabrics("udp,tcp").require(Property::RELIABLE);
    assert_eq!(names(&Node::join(reliable).unwrap()), ["udp", "tcp"]);
    let near = own().fabrics("udp,shm").require(Property::SAME_MACHINE);
    let near = Node::join(near).unwrap();
    assert_eq!(names(&near), ["shm"]);
    let why = near.explain(all.id()).unwrap().to_string();
    assert!(why.contains("udp: same_machine=true is required"), "{why}");
    let far = Node::join(own().reject(Property::SAME_MACHINE)).unwrap();
    assert_eq!(names(&far), ["tcp"]);
    let fast = Node::join(own().require(Property::FAST)).unwrap();
    assert_eq!(names(&fast), ["shm"]);
    let none = Node::join(own().require(Property::new("colour", "red"))).unwrap_err();
    assert!(matches!(&none, JoinError::NoFabric { why } if why.contains("colour=red")), "{none}");
    let unknown = Node::join(own().fabrics("smoke")).unwrap_err();
    assert!(matches!(&unknown, JoinError::Nic { fabric, .. } if fabric == "smoke"), "{unknown}");
}

#[derive(Debug)]
struct Lamp;

impl Fabric for Lamp {
    fn name(&self) -> &'static str {
        "lamp"
    }

    fn open(&self, options: &NicOptions) -> Result<Nic, OpenError> {
        TcpFabric.open(options)
    }
}

#[test]
fn a_fabric_of_another_crate_is_chosen_by_what_it_says_of_itself() {
    let registry = registry(2);
    let join = || {
        let is = Properties::network().latency(Latency::Any).with("light", "infrared");
        let own = config(&registry).fabric(Arc::new(Lamp), is).fabrics("shm,lamp,tcp");
        Node::join(own.require(Property::new("light", "infrared"))).unwrap()
    };
    let (a, b) = (join(), join());
    a.wait_all(SOON).unwrap();
    let route = a.route(b.id()).unwrap();
    assert_eq!(route.fabric, "lamp");
    route.links.wait_connect(&route.host, SOON).unwrap();
    let seen = &a.member(b.id()).unwrap().fabrics[0].properties;
    assert_eq!((seen.find("light"), seen.find("reliable")), (Some("infrared"), Some("true")));
}

#[test]
fn a_nic_of_the_programs_own_must_be_what_is_required_too() {
    let sim = Sim::new(7);
    let over = || Config::new("test").registry("nowhere").over(sim.nic("a"));
    let slow = Node::begin_join(over().require(Property::FAST)).unwrap_err();
    assert!(matches!(&slow, JoinError::NoFabric { why } if why.contains("latency")), "{slow}");
    let rejected = Node::begin_join(over().reject(Property::RELIABLE)).unwrap_err();
    assert!(matches!(&rejected, JoinError::NoFabric { .. }), "{rejected}");
    drop(Node::begin_join(over().require(Property::RELIABLE)).unwrap());
}

#[test]
fn private_is_what_nobody_else_can_read() {
    let all = ["shm", "tcp", "udp"];
    for (encrypt, private) in [(Encrypt::BetweenMachines, &all[..]), (Encrypt::Never, &all[..1])] {
        let registry = registry(1);
        let node = Node::join(config(&registry).fabrics("shm,tcp,udp").encrypt(encrypt)).unwrap();
        let fabrics = node.fabrics().into_iter();
        let found = fabrics.filter(|fabric| fabric.properties.has(&Property::PRIVATE));
        assert_eq!(found.map(|fabric| fabric.name).collect::<Vec<_>>(), private);
    }
    let registry = Registry::open(RegistryOptions::new("test", 1)).unwrap();
    let open = Config::new("test").registry(registry.address()).fabrics("shm,tcp,udp");
    let fabrics = Node::join(open).unwrap().fabrics().into_iter();
    let found = fabrics.filter(|fabric| fabric.properties.has(&Property::PRIVATE));
    let names: Vec<_> = found.map(|fabric| fabric.name).collect();
    assert_eq!(names, all[..1], "anybody may be at the other end");
}

/// One end that would have it encrypted is enough, and both are told the same.
#[test]
fn a_link_is_encrypted_if_one_of_both_nodes_would_have_it_so() {
    let (on, off) = (Encrypt::Always, Encrypt::Never);
    for (one, two) in [(on, on), (on, off), (off, on), (off, off)] {
        for fabric in ["tcp", "udp"] {
            let registry = registry(2);
            let join = |encrypt| {
                let own = config(&registry).fabrics(fabric).encrypt(encrypt);
                Node::join(own).unwrap()
            };
            let (a, b) = (join(one), join(two));
            a.wait_all(SOON).unwrap();
            b.wait_all(SOON).unwrap();
            let (there, back) = (a.route(b.id()).unwrap(), b.route(a.id()).unwrap());
            assert_eq!(there.links.is_encrypted(&there.host), None, "there is no link yet");
            there.links.wait_connect(&there.host, SOON).unwrap();
            back.links.wait_connect(&back.host, SOON).unwrap();
            let told = [&there, &back].map(|route| route.links.is_encrypted(&route.host));
            let is_encrypted = one == on || two == on;
            assert_eq!(told, [Some(is_encrypted); 2], "{fabric}: {one:?} and {two:?}");
        }
    }
}
