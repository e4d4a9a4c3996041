//! Connections that do not say what they are for.

use std::future::Future;

use egret_net::fabric::sim::Sim;

use super::hostile::{Stage, hello, run, say, send};
use super::world::step;
use crate::frame::{FrameHead, FrameKind};
use crate::link::control::{LinkControl, LinkHello, VERSION};

#[test]
fn a_connection_without_a_hello_is_closed() {
    let sim = Sim::new(1);
    let stage = Stage::new(&sim);
    let honest = &stage.nodes[0].links;
    let control = FrameHead::of(FrameKind::Control, 0).to_bits();
    let other = LinkHello { version: VERSION + 1, link: 1, incarnation: 1, host: "x".into() };
    let said: Vec<(u64, Vec<u8>)> = vec![
        (control, Vec::new()),
        (control, vec![0xff; 4000]),
        (control, LinkControl::Unmap { slot: 0 }.to_bytes()),
        (control, LinkControl::Hello(other).to_bytes()),
        (FrameHead::of(FrameKind::Request, 0).to_bits(), Vec::new()),
        (u64::MAX, vec![1]),
    ];
    for (at, (head, bytes)) in said.into_iter().enumerate() {
        let vi = stage.connect();
        send(&vi, head, bytes);
        stage.steps(100);
        assert_eq!(honest.counters().turned_away, at as u64 + 1);
        assert!(vi.error().is_some(), "{head:x}");
    }
    let twice = stage.connect();
    say(&twice, &hello());
    say(&twice, &hello());
    stage.steps(100);
    assert_eq!((honest.counters().turned_away, honest.counters().cut_off), (6, 1));
    assert_eq!(honest.account().strangers, 0);
    stage.assert_goes_on();
}

/// Nobody needs to do anything for that: the time it has is waited for.
#[test]
fn silent_connections_are_closed_in_time() {
    let sim = Sim::new(2);
    let stage = Stage::new(&sim);
    let silent: Vec<_> = (0..100).map(|_| stage.connect()).collect();
    assert!(stage.nodes[0].links.account().strangers <= 64);
    let due = stage.nodes[0].links.next_event().expect("there is something to wait for");
    let end = due + std::time::Duration::from_secs(11);
    while stage.nic.now() < end {
        step(stage.nodes.iter());
    }
    assert_eq!(stage.nodes[0].links.account().strangers, 0);
    assert!(silent.iter().all(|vi| vi.error().is_some()));
    stage.assert_goes_on();
    run(&stage.nodes, std::future::ready(()));
}

/// Neither one caller that connects and says nothing nor many keep others from their handshakes.
#[test]
fn silent_connections_keep_no_peer_out() {
    let sim = Sim::new(3);
    let mut stage = Stage::new(&sim);
    stage.nodes[0].links.set_pool_size(16);
    let mut silent: Vec<_> = (0..20).map(|_| stage.connect()).collect();
    assert!(stage.nodes[0].links.account().strangers <= 4, "of one stranger");
    for at in 0..100 {
        stage.nic = sim.nic(&format!("silent{at}"));
        silent.push(stage.connect());
    }
    assert!(stage.nodes[0].links.account().strangers <= 64, "of all");
    let options = crate::LinksOptions::default();
    stage.nodes.push(super::world::Node::new(&sim, "new", &options, &Default::default()));
    let to = &stage.nodes[0].endpoints[0].name;
    let mapping =
        stage.nodes[2].endpoints[0].endpoint.map(to, &[], egret_net::rt::Deadline::DEFAULT);
    let remote = run(&stage.nodes, mapping).unwrap();
    assert!(remote.try_send((0, &[])).is_ok());
    stage.assert_goes_on();
}

/// All nodes of a pool connect before the first has looked at any of them.
#[test]
fn a_pool_that_connects_at_once_is_let_in() {
    let sim = Sim::new(4);
    let options = crate::LinksOptions::default().peers_max(40);
    let mut all = super::ended::nodes(&sim, &options, &["honest"]);
    let hosts: Vec<String> = (0..40).map(|at| format!("n{at}")).collect();
    let names: Vec<&str> = hosts.iter().map(String::as_str).collect();
    all.extend(super::ended::nodes(&sim, &options, &names));
    let to = all[0].endpoints[0].name.clone();
    let deadline = egret_net::rt::Deadline::DEFAULT;
    let mut asks: Vec<_> =
        all[1..].iter().map(|node| node.endpoints[0].endpoint.map(&to, &[], deadline)).collect();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for mapping in &mut asks {
        assert!(std::pin::Pin::new(mapping).poll(&mut context).is_pending());
    }
    super::ended::go_on(&sim, &all[1..], std::time::Duration::from_secs(1));
    let remotes: Vec<_> = asks.into_iter().map(|mapping| run(&all, mapping)).collect();
    assert!(remotes.iter().all(Result::is_ok), "{remotes:?}");
    assert_eq!(all[0].links.counters().turned_away, 0);
}
