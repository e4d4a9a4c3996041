//! Nodes and their registry: in one process, and as processes that are killed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod claims;
mod fabrics;
mod greedy;
mod hostile;
mod peer;
mod processes;
mod reports;
mod returned;
mod secrets;
mod together;
mod traffic;

use std::time::Duration;

use egret_net::rt::Deadline;
use egret_node::node::{Config, Node};
use egret_node::registry::{Registry, RegistryOptions};

const LONG: Duration = Duration::from_secs(60);
const SOON: Deadline = Deadline::In(LONG);

fn registry(size: u32) -> Registry {
    Registry::open(RegistryOptions::new("test", size).secret(SECRET.into())).unwrap()
}

fn config(registry: &Registry) -> Config {
    registry.config()
}

fn join(registry: &Registry) -> Node {
    Node::join(config(registry)).unwrap()
}

/// Not a test by itself: the other process.
#[test]
fn other() {
    let Ok(part) = std::env::var(peer::PART) else { return };
    peer::run(&part);
}

/// A secret that nobody could guess, had it not been written here.
const SECRET: &str = "egret1.6875736868757368687573686875736868757368687573686875736868757368";
