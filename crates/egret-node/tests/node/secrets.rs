//! Who has no secret, or an empty one, listens to nobody beyond its machine.

use egret_net::fabric::OpenError;
use egret_net::fabric::place::ListenAddress;
use egret_net::vi::Secret;
use egret_node::node::{Config, JoinError, Node};
use egret_node::registry::{Registry, RegistryOptions};

use super::registry;

fn is_missing(why: &OpenError) -> bool {
    matches!(why, OpenError::MissingSecret { .. })
}

#[test]
fn an_empty_secret_opens_no_registry_and_joins_no_pool() {
    let why = Registry::open(RegistryOptions::new("test", 1).secret("".into())).unwrap_err();
    assert!(why.to_string().contains("is empty"), "{why}");
    let registry = registry(1);
    for fabrics in ["shm,tcp", "shm", "tcp"] {
        let config = Config::new("test").registry(registry.address()).fabrics(fabrics);
        let why = Node::join(config.secret(Secret::new([]))).unwrap_err();
        let is_empty = matches!(&why, JoinError::EmptySecret { .. });
        assert!(is_empty, "{fabrics}: {why}");
    }
}

#[test]
fn without_a_secret_there_is_a_registry_on_loopback_only() {
    let options = || RegistryOptions::new("test", 1);
    drop(Registry::open(options()).unwrap());
    if ListenAddress::of("0.0.0.0").is_err() {
        println!("skipped: this machine has no network");
        return;
    }
    for listen in ["reachable", "0.0.0.0"] {
        let why = Registry::open(options().listen(listen)).unwrap_err();
        assert!(matches!(&why, JoinError::RegistryNic(why) if is_missing(why)), "{listen}: {why}");
        drop(Registry::open(options().listen(listen).secret(Secret::random())).unwrap());
        drop(Registry::open(options().listen(listen).insecure_without_secret()).unwrap());
    }
}

#[test]
fn without_a_secret_no_node_listens_beyond_loopback() {
    if ListenAddress::of("reachable").is_err() {
        println!("skipped: this machine has no network");
        return;
    }
    let open = RegistryOptions::new("test", 1).listen("reachable").insecure_without_secret();
    let registry = Registry::open(open).unwrap();
    let config = || Config::new("test").registry(registry.address());
    // Nobody has named the fabrics in the first: one that is not to be had is skipped.
    for config in [config(), config().fabrics("shm"), config().fabrics("tcp")] {
        let why = Node::join(config.clone()).unwrap_err();
        assert!(matches!(&why, JoinError::Nic { why, .. } if is_missing(why)), "{why}");
        Node::join(config.insecure_without_secret()).unwrap();
    }
}
