//! Negotiating about fabrics, as Figure 2 of the Ibis paper does: one that the user wants if it
//! has the properties that the program needs, and otherwise the best there is.
//!
//! `cargo run --example negotiate -- udp` asks for datagrams, which are not reliable.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;

use egret::fabric::{Fabric, OpenError, tcp::TcpFabric};
use egret::node::registry::{Registry, RegistryOptions};
use egret::node::{Config, Node};
use egret::node::{Latency, Properties, Property};
use egret::vi::{Nic, NicOptions, Secret};

fn main() -> Result<(), Box<dyn Error>> {
    let secret = Secret::random();
    let options = RegistryOptions::new("negotiate", 2).secret(secret.clone());
    let registry = Registry::open(options)?;
    let config = || Config::new("negotiate").registry(registry.address()).secret(secret.clone());
    let wanted = std::env::args().nth(1).unwrap_or_else(|| "udp".to_owned());
    let mut out = io::stdout().lock();
    let node = match join_user(config(), &wanted) {
        Some(node) => node,
        None => {
            writeln!(out, "{wanted}: not to be had, or not what is needed")?;
            Node::join(config().fabrics("shm,tcp"))?
        }
    };
    for fabric in node.fabrics() {
        let all = fabric.properties.all();
        let all: Vec<_> = all.iter().map(ToString::to_string).collect();
        writeln!(out, "{}: {}", fabric.name, all.join(", "))?;
    }

    // The same in two lines: what is required and rejected is seen to when a node joins.
    let needs = config().require(Property::ORDERED).require(Property::RELIABLE);
    let needs = needs.reject(Property::SAME_MACHINE).reject(Property::new("light", "visible"));
    // A fabric of another crate says what it is like, in words of its own too.
    let infrared = Properties::network().latency(Latency::Any).with("light", "infrared");
    let other = Node::join(needs.fabric(Arc::new(Lamp), infrared).fabrics("lamp,shm,tcp"))?;
    for fabric in other.fabrics() {
        writeln!(out, "{}: light {:?}", fabric.name, fabric.properties.find("light"))?;
    }
    node.wait_all(node.deadline())?;
    writeln!(out, "{}", node.explain(other.id()).ok_or("it is gone")?)?;
    Ok(())
}

/// A node over the fabric that the user wants, if it does what is needed.
fn join_user(config: Config, fabric: &str) -> Option<Node> {
    // Unable to load it: there is no such fabric, or not on this machine.
    let node = Node::join(config.fabrics(fabric)).ok()?;
    let properties = node.fabrics().into_iter().next()?.properties;
    // Messages must keep their order: a field.
    if !properties.ordered {
        return None; // Dropped, the node leaves.
    }
    // And be reliable: the same by its key, as fabrics of others have them.
    if properties.find("reliable") != Some("true") {
        return None;
    }
    Some(node)
}

/// Stands for a fabric that this project does not know.
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
