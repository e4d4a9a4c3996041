//! Both sides send as much as they can.

use std::sync::{Arc, Mutex};

use egret_net::fabric::sim::Sim;
use egret_net::vi::Reliability;

use super::hostile::{Stage, run, send, tell};
use super::ledger::Ledger;
use super::world::{Node, step};
use crate::am::{Call, Endpoint, EndpointName, Message, RemoteEndpoint, Request};
use crate::flow::{FlowName, ReceiverNotice};
use crate::frame::{FrameHead, FrameKind};
use crate::links::LinksOptions;

fn flood(seed: u64, window: u32, level: Reliability, count: u64) {
    flood_with(seed, window, level, count, give);
}

/// How a message of this number is sent; whether it was.
type Give = fn(&RemoteEndpoint, u64, &mut Vec<(u64, Call)>) -> bool;

fn flood_with(seed: u64, window: u32, level: Reliability, count: u64, give: Give) {
    let sim = Sim::new(seed);
    if level == Reliability::Delivery {
        sim.links().loss(0.05).duplicate(0.05).reorder(0.05).corrupt(0.05);
    }
    let options = LinksOptions::default().window(window).reliability(level);
    let nodes = ["a", "b"].map(|host| Node::new(&sim, host, &options, &Ledger::default()));
    let seen = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
    let ends: Vec<Endpoint> = nodes
        .iter()
        .zip(&seen)
        .map(|(node, seen)| {
            let end = node.bundles[0].register("all", 1).unwrap();
            let seen = Arc::clone(seen);
            end.on(0, move |request| {
                seen.lock().unwrap().push(request.words()[0]);
                let word = request.words()[0];
                request.reply(&[word]);
            });
            end
        })
        .collect();
    let map = |from: usize, to: &str| -> RemoteEndpoint {
        let name = EndpointName::new(to, "all", 1);
        run(&nodes, ends[from].map(&name, &[], egret_net::rt::Deadline::DEFAULT)).unwrap()
    };
    let remotes = [map(0, "b"), map(1, "a")];
    let (mut sent, mut calls, mut steps) = ([0_u64; 2], Vec::new(), 0);
    while seen.iter().any(|seen| (seen.lock().unwrap().len() as u64) < count) {
        for (remote, sent) in remotes.iter().zip(&mut sent) {
            while *sent < count && give(remote, *sent, &mut calls) {
                *sent += 1;
            }
        }
        step(nodes.iter());
        steps += 1;
        assert!(steps < 100_000, "seed {seed}, window {window}, {level}: it stands still");
    }
    for seen in &seen {
        assert_eq!(*seen.lock().unwrap(), (0..count).collect::<Vec<u64>>(), "seed {seed}");
    }
    for (word, call) in calls {
        assert_eq!(run(&nodes, call).unwrap().words(), [word], "seed {seed}");
    }
}

/// Every third is answered.
fn give(remote: &RemoteEndpoint, number: u64, calls: &mut Vec<(u64, Call)>) -> bool {
    if number.is_multiple_of(3) {
        let call = remote.try_request((0, &[number])).ok();
        let is_sent = call.is_some();
        calls.extend(call.map(|call| (number, call)));
        return is_sent;
    }
    remote.try_send((0, &[number])).is_ok()
}

/// Each has data, which takes a receive.
fn give_data(remote: &RemoteEndpoint, number: u64, _: &mut Vec<(u64, Call)>) -> bool {
    remote.try_send(Message::to(0).words(&[number]).data(vec![7_u8; 20])).is_ok()
}

#[test]
fn both_sides_flood_whatever_the_window() {
    for seed in 0..10 {
        for window in [1, 3, 64] {
            flood(seed, window, Reliability::Delivery, 300);
            flood(seed, window, Reliability::Reception, 300);
        }
    }
}

#[test]
pub(super) fn more_messages_than_receives_come_once_and_in_order() {
    flood(1, 64, Reliability::Reception, 3000);
    flood_with(1, 64, Reliability::Reception, 3000, give_data);
}

/// A peer that takes any amount of answers, and does not read them.
#[test]
fn answers_that_nobody_reads_wait_in_their_windows() {
    let sim = Sim::new(4);
    let stage = Stage::new(&sim);
    let liar = stage.liar();
    let later = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&later);
    let keep = move |request: Request<'_>| kept.lock().unwrap().push(request.later());
    let honest = &stage.nodes[0];
    honest.endpoints[0].endpoint.on(20, keep);
    let slot = liar.slot;
    tell(&liar, FlowName::Replies(slot), ReceiverNotice::Grant { bytes: u64::MAX });
    for request in 0..4 {
        let head = FrameHead { handler: 20, request, ..FrameHead::of(FrameKind::Request, slot) };
        send(&liar.vi, head.to_bits(), Vec::new());
    }
    stage.steps(100);
    sim.partition(&["honest"], &["liar"]);
    let slots = std::mem::take(&mut *later.lock().unwrap());
    assert_eq!(slots.len(), 4);
    for slot in slots {
        slot.reply_with(Message::to(255).data(vec![1_u8; LARGE]));
    }
    stage.steps(3);
    let waits = honest.links.core.state.with(|state| {
        let link = state.links.to_host("liar").unwrap();
        let line = state.links.get(link).unwrap();
        (line.am.answers, line.has_waiting())
    });
    assert_eq!(waits, (LARGE as u64, true), "the others wait, and keep their places");
    sim.heal();
    stage.steps(300);
    let came = std::iter::from_fn(|| liar.vi.recv_queue().poll());
    assert_eq!(came.filter(|got| got.len == LARGE as u64).count(), 4, "all of them come");
    let answers = honest.links.core.state.with(|state| {
        let link = state.links.to_host("liar").unwrap();
        state.links.get(link).unwrap().am.answers
    });
    assert_eq!(answers, 0);
}

/// More than the budget of a stage.
const LARGE: usize = (1 << 20) + 1;
