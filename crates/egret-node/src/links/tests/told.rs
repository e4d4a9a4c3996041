//! What is told of who is not there, and what a handler is told that waits.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::Deadline;
use egret_net::vi::ConnectError;

use super::ended::{go_on, map, nodes, worlds};
use crate::am::{EndpointName, Message, MessageError};
use crate::link::LinkError;
use crate::links::{Links, LinksOptions};

#[test]
fn a_missing_host_missing_links_and_oneself_are_told_apart() {
    let sim = Sim::new(1);
    let here = Links::open(sim.nic("here"), LinksOptions::default()).unwrap();
    let bare = sim.nic("bare");
    let mine = here.bundle().register("mine", 0).unwrap();
    let time = Duration::from_millis(50);
    let connect = |host| here.wait_connect(host, time).unwrap_err();
    let map = |host| mine.wait_map(&EndpointName::new(host, "any", 0), time).unwrap_err();
    let unknown =
        |why: &LinkError| matches!(why, LinkError::Connect(ConnectError::UnknownHost { .. }));
    let not_listening =
        |why: &LinkError| matches!(why, LinkError::Connect(ConnectError::NotListening { .. }));
    assert!(unknown(&connect("nobody")), "{}", connect("nobody"));
    assert!(not_listening(&connect("bare")), "{}", connect("bare"));
    let (nobody, listens) = (map("nobody"), map("bare"));
    assert!(matches!(&nobody, MessageError::NoLink(why) if unknown(why)), "{nobody}");
    assert!(matches!(&listens, MessageError::NoLink(why) if not_listening(why)), "{listens}");
    // An endpoint of this node never answers: it is told at once.
    let to = EndpointName::new("here", "mine", 0);
    let began = sim.elapsed();
    let oneself = mine.wait_map(&to, Deadline::UntilDead).unwrap_err();
    assert_eq!(oneself, MessageError::NoLink(LinkError::Oneself));
    let why = here.wait_connect("here", Deadline::UntilDead).unwrap_err();
    assert_eq!(why, LinkError::Oneself);
    assert!(why.to_string().contains("cannot map each other"), "{why}");
    assert!(sim.elapsed() - began < Duration::from_millis(1), "at once");
    drop(bare);
}

/// What was found out by a mapping whose time is over is not told to the next one.
#[test]
fn a_host_that_comes_later_is_called_again() {
    for (sim, options) in worlds() {
        let mut all = nodes(&sim, &options, &["a"]);
        let to = EndpointName::new("late", "e0", 0);
        let [short, long] = [50, 100].map(Duration::from_millis);
        let mine = &all[0].endpoints[0].endpoint;
        // It begins the call, and does not wait for what becomes of it.
        let mut begins = mine.map(&to, &[], long);
        assert!(Pin::new(&mut begins).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(begins);
        assert!(mine.wait_map(&to, short).is_err());
        go_on(&sim, &all, Duration::from_secs(1));
        all.extend(nodes(&sim, &options, &["late"]));
        let _remote = map(&all, [0, 0], [1, 0]);
    }
}

#[test]
fn a_host_that_does_not_answer_is_told_apart_by_its_link() {
    for (sim, options) in worlds() {
        let nodes = nodes(&sim, &options, &["a", "b", "c"]);
        drop(map(&nodes, [0, 0], [1, 0]));
        go_on(&sim, &nodes, Duration::from_millis(100));
        let (mine, time) = (&nodes[0].endpoints[0].endpoint, Duration::from_millis(50));
        // Nobody drives the other two.
        let ask = |host| mine.wait_map(&EndpointName::new(host, "e0", 0), time);
        let [linked, other] = ["b", "c"].map(|host| ask(host).unwrap_err());
        assert!(matches!(linked, MessageError::NotMappedInTime { linked: true, .. }), "{linked:?}");
        assert!(!linked.to_string().contains("there is no link"), "{linked}");
        let is_told = match &other {
            MessageError::NoLink(LinkError::Connect(ConnectError::NotAccepted { .. })) => true,
            MessageError::NotMappedInTime { linked, .. } => !linked,
            _ => false,
        };
        assert!(is_told, "{other:?}");
    }
}

#[test]
fn what_waits_inside_a_handler_says_so_and_sends_nothing() {
    let sim = Sim::new(1);
    let nodes = nodes(&sim, &LinksOptions::default().window(1), &["a", "b"]);
    let remote = Arc::new(map(&nodes, [1, 0], [0, 0]));
    let trigger = map(&nodes, [0, 1], [1, 1]);
    let (told, tell) = (Arc::new(Mutex::new(false)), Arc::new(Mutex::new(Vec::new())));
    let (done, said, to) = (Arc::clone(&told), Arc::clone(&tell), Arc::clone(&remote));
    let (links, bundle) = (nodes[1].links.clone(), nodes[1].links.bundle());
    let mine = bundle.endpoint(0);
    nodes[1].endpoints[1].endpoint.on(50, move |_| {
        let (now, mut said) = (Deadline::DEFAULT, said.lock().unwrap());
        let name = EndpointName::new("a", "e1", 0);
        said.push(to.wait_call(0, now).err() == Some(MessageError::InHandler));
        said.push(
            to.wait_call_with(Message::to(0), &[], now).err() == Some(MessageError::InHandler),
        );
        said.push(mine.wait_map(&name, now).err() == Some(MessageError::InHandler));
        said.push(mine.wait_move_to(&bundle, now).err() == Some(MessageError::InHandler));
        said.push(links.wait_connect("c", now).err() == Some(LinkError::InHandler));
        // There is room for one.
        said.push(to.wait_send((0, &[]), now).is_ok());
        said.push(to.wait_send((0, &[]), now) == Err(MessageError::InHandler));
        said.push(to.wait_room(now) == Err(MessageError::InHandler));
        said.push(!links.drive(now, || false));
        *done.lock().unwrap() = crate::in_handler::in_handler();
    });
    trigger.try_send((50, &[])).unwrap();
    let began = sim.elapsed();
    go_on(&sim, &nodes, Duration::from_millis(50));
    assert!(*told.lock().unwrap(), "it ran");
    assert_eq!(*tell.lock().unwrap(), [true; 9]);
    assert!(sim.elapsed() - began < Duration::from_secs(1), "nothing has waited");
}
