//! Two sides of different versions: both learn which.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use egret_net::fabric::sim::Sim;
use egret_net::rt::Deadline;
use egret_net::vi::{Descriptor, ViOptions};

use super::hostile::{Stage, heard, run, say};
use crate::am::{EndpointName, MessageError};
use crate::link::LinkError;
use crate::link::control::{LinkControl, LinkHello, VERSION};

fn hello(version: u16) -> LinkControl {
    LinkControl::Hello(LinkHello { version, link: 5, incarnation: 6, host: "liar".to_owned() })
}

#[test]
fn a_caller_of_another_version_is_told_which_is_spoken() {
    let stage = Stage::new(&Sim::new(1));
    let vi = stage.connect();
    say(&vi, &hello(VERSION + 1));
    stage.steps(300);
    let told = heard(&vi);
    let is_own = |control: &LinkControl| matches!(control, LinkControl::Hello(hello) if (hello.version, hello.link) == (VERSION, 5));
    assert!(told.iter().any(is_own), "{told:?}");
    assert_eq!(stage.nodes[0].links.counters().turned_away, 1);
    stage.pass(std::time::Duration::from_secs(1));
    assert!(vi.error().is_some(), "the connection ends");
    stage.assert_goes_on();
}

#[test]
fn a_callee_of_another_version_is_named() {
    let stage = Stage::new(&Sim::new(2));
    let listener = stage.nic.listen("egret.link", 0, &ViOptions::default()).unwrap();
    let to = EndpointName::new("liar", "e0", 0);
    let endpoint = &stage.nodes[1].endpoints[0].endpoint;
    let mut mapping = pin!(endpoint.map(&to, &[], Deadline::DEFAULT));
    let mut answering = pin!(async {
        let vi = listener.accept().await.unwrap();
        (0..8).for_each(|_| drop(vi.post_recv(Descriptor::new(vec![0_u8; 1 << 20]))));
        say(&vi, &hello(VERSION + 3));
        vi
    });
    let mut answered = None;
    let mapped = run(
        &stage.nodes,
        poll_fn(|context| {
            if answered.is_none()
                && let Poll::Ready(vi) = answering.as_mut().poll(context)
            {
                answered = Some(vi);
            }
            mapping.as_mut().poll(context)
        }),
    );
    let Err(MessageError::NoLink(why @ LinkError::OtherVersion { .. })) = mapped else {
        panic!("{mapped:?}")
    };
    let told = format!("liar speaks version {} of egret's links, this side {VERSION}", VERSION + 3);
    assert!(why.to_string().starts_with(&told), "{why}");
}
