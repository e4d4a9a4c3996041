//! Peers that speak the protocol up to a point, and then lie: each is cut off with the
//! reason, and nobody else notices.

use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::Deadline;
use egret_net::vi::{self, Address, Descriptor, Nic, Vi, ViOptions};

use super::ledger::Ledger;
use super::world::{Node, step};
use crate::am::{Call, RemoteEndpoint, Request};
use crate::flow::{FlowName, ReceiverNotice, SenderNotice};
use crate::frame::{FrameHead, FrameKind};
use crate::link::connection::PART;
use crate::link::control::{LinkControl, LinkHello, MapRequest, Mapped, VERSION};
use crate::links::LinksOptions;

/// An honest node and another that uses it, and one that lies.
pub(super) struct Stage {
    pub(super) nodes: Vec<Node>,
    good: RemoteEndpoint,
    pub(super) nic: Nic,
}

/// The connection of who lies.
pub(super) struct Liar {
    pub(super) vi: Vi,
    /// Of its mapping, at the honest node.
    pub(super) slot: u32,
}

impl Stage {
    pub(super) fn new(sim: &Sim) -> Self {
        let options = LinksOptions::default().window(4).budget(1 << 20);
        let open = |host| Node::new(sim, host, &options, &Ledger::default());
        let nodes = vec![open("honest"), open("good")];
        let later = Mutex::new(Vec::new());
        let keep = move |request: Request<'_>| later.lock().unwrap().push(request.later());
        nodes[0].endpoints[0].endpoint.on(KEPT, keep);
        let mapping = {
            let name = &nodes[0].endpoints[0].name;
            nodes[1].endpoints[0].endpoint.map(name, &[], Deadline::DEFAULT)
        };
        let good = run(&nodes, mapping).unwrap();
        Self { nodes, good, nic: sim.nic("liar") }
    }

    pub(super) fn connect(&self) -> Vi {
        let to = Address::new("honest", "egret.link", 0);
        let vi = run(&self.nodes, self.nic.connect(&to, &ViOptions::default(), Deadline::DEFAULT));
        let vi = vi.unwrap();
        for _ in 0..32 {
            vi.post_recv(Descriptor::new(vec![0_u8; 2 << 20])).unwrap();
        }
        vi
    }

    pub(super) fn steps(&self, count: u32) {
        (0..count).for_each(|_| step(self.nodes.iter()));
    }

    /// Time passes.
    pub(super) fn pass(&self, time: Duration) {
        let until = self.nic.now() + time;
        while self.nic.now() < until {
            step(self.nodes.iter());
        }
    }

    /// Somebody with a link and a mapping.
    pub(super) fn liar(&self) -> Liar {
        let vi = self.connect();
        say(&vi, &hello());
        self.steps(100);
        let (number, name, tag) = (7, "e0".to_owned(), 0);
        say(
            &vi,
            &LinkControl::Map(MapRequest { number, name, tag, bytes: 1000, needs: Vec::new() }),
        );
        self.steps(100);
        let mapped = heard(&vi).into_iter().find_map(|control| match control {
            LinkControl::Mapped(Mapped { slot, .. }) => Some(slot),
            _ => None,
        });
        Liar { vi, slot: mapped.expect("it was let in") }
    }

    /// It was cut off for this, and everybody else goes on.
    fn assert_cut_off(&self, liar: &Liar, why: &str) {
        self.steps(300);
        let honest = &self.nodes[0].links;
        let said = honest.cut_off_last().map(|why| why.to_string()).unwrap_or_default();
        assert!(said.contains(why), "{said:?}, and not {why:?}");
        assert_eq!(honest.counters().cut_off, 1, "{why}");
        assert!(liar.vi.error().is_some(), "{why}");
        let account = honest.account();
        assert_eq!((account.links, account.dead, account.incoming), (1, 0, 1), "{why}");
        self.assert_goes_on();
    }

    pub(super) fn assert_goes_on(&self) {
        let call = self.good.try_request((200, &[1])).unwrap();
        let reply = run(&self.nodes, call);
        let why = reply.unwrap_err().to_string();
        assert!(why.contains("no handler"), "{why}");
    }
}

pub(super) fn run<F: Future>(nodes: &[Node], future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        step(nodes.iter());
    }
    panic!("it never ends");
}

pub(super) fn hello() -> LinkControl {
    let host = "liar".to_owned();
    LinkControl::Hello(LinkHello { version: VERSION, link: 5, incarnation: 6, host })
}

/// What was said to it, of control.
pub(super) fn heard(vi: &Vi) -> Vec<LinkControl> {
    let mut all = Vec::new();
    vi.drain().poll(usize::MAX, |_, _, bytes| all.extend(LinkControl::from_bytes(bytes)));
    all
}

pub(super) fn say(vi: &Vi, control: &LinkControl) {
    send(vi, FrameHead::of(FrameKind::Control, 0).to_bits(), control.to_bytes());
}

fn ask(liar: &Liar, flow: FlowName, ask: SenderNotice) {
    say(&liar.vi, &LinkControl::Ask { flow, ask });
}

pub(super) fn tell(liar: &Liar, flow: FlowName, tell: ReceiverNotice) {
    say(&liar.vi, &LinkControl::Tell { flow, tell });
}

#[expect(clippy::needless_pass_by_value, reason = "most are made where they are sent")]
pub(super) fn send(vi: &Vi, head: u64, bytes: Vec<u8>) {
    vi.send_eager(vi::Lane::Talk, head, &[&bytes]).unwrap();
}

fn post(vi: &Vi, head: u64, bytes: Vec<u8>) {
    vi.post_send(Descriptor::new(bytes).with_tag(head)).unwrap();
}

fn request(slot: u32, request: u32) -> FrameHead {
    FrameHead { handler: KEPT, request, ..FrameHead::of(FrameKind::Request, slot) }
}

fn place(kind: FrameKind, slot: u32, request: u32) -> u64 {
    FrameHead { handler: KEPT, request, ..FrameHead::of(kind, slot) }.to_bits()
}

/// Of a request's number: it keeps the order.
const IN_ORDER: u32 = 1 << 22;

/// The handler whose messages stay under way.
const KEPT: u8 = 6;

/// What it says, and what it is cut off for.
type Lie = (fn(&Liar), &'static str);

const LIES: &[Lie] = &[
    (|it| (0..5).for_each(|at| send(&it.vi, request(it.slot, at).to_bits(), vec![])), "window"),
    (|it| send(&it.vi, request(99, 0).to_bits(), vec![]), "for no mapping"),
    (|it| send(&it.vi, request(it.slot, 1 << 23).to_bits(), vec![]), "unanswered requests"),
    (
        |it| send(&it.vi, FrameHead { words: 16, ..request(it.slot, 0) }.to_bits(), vec![1, 2, 3]),
        "shorter than its words",
    ),
    (|it| send(&it.vi, u64::MAX, vec![]), "of an unknown kind"),
    (
        |it| post(&it.vi, request(it.slot, 0).to_bits(), vec![0; 10_000]),
        "longer than its kind allows",
    ),
    (
        |it| send(&it.vi, FrameHead::of(FrameKind::Reply, 0).to_bits(), vec![]),
        "an answer to nothing",
    ),
    (
        |it| send(&it.vi, FrameHead::of(FrameKind::Returned, 0).to_bits(), vec![]),
        "without a reason",
    ),
    (|it| send(&it.vi, FrameHead::of(FrameKind::Bulk, it.slot).to_bits(), vec![1]), "wrong lane"),
    (|it| post(&it.vi, request(it.slot, 0).to_bits(), vec![]), "wrong lane"),
    (
        |it| post(&it.vi, FrameHead::of(FrameKind::Bulk, 99).to_bits(), vec![0; 600]),
        "for a flow that is not open",
    ),
    (
        |it| post(&it.vi, FrameHead::of(FrameKind::Bulk, it.slot).to_bits(), vec![0; 100_000]),
        "more than its credit",
    ),
    (|it| say(&it.vi, &LinkControl::Credit { number: 0, messages: 1 }), "no mapping"),
    (|it| tell(it, FlowName::Replies(50), ReceiverNotice::Grant { bytes: 1 }), "no mapping"),
    (|it| tell(it, FlowName::Requests(50), ReceiverNotice::Recall { keep: 1 }), "no mapping"),
    (
        |it| tell(it, FlowName::Replies(it.slot), ReceiverNotice::Refuse { upto: 1, most: 1 }),
        "was not sent",
    ),
    (
        |it| ask(it, FlowName::Requests(50), SenderNotice::Want { upto: 1, len: 1 }),
        "mapping that does not exist",
    ),
    (|it| ask(it, FlowName::Replies(50), SenderNotice::Withdraw), "mapping that does not exist"),
    (
        |it| ask(it, FlowName::Requests(it.slot), SenderNotice::Want { upto: 9, len: 1 }),
        "beyond what it can have sent",
    ),
    (
        |it| ask(it, FlowName::Requests(it.slot), SenderNotice::Unused { bytes: 1 << 40 }),
        "more credit than it had",
    ),
    (|it| say(&it.vi, &LinkControl::Unmap { slot: 50 }), "released a mapping it does not have"),
    (|it| say(&it.vi, &LinkControl::Leave { slot: 50 }), "release of a mapping it does not have"),
    (|it| say(&it.vi, &LinkControl::Unmapped { number: 3 }), "was not requested"),
    (
        |it| {
            send(&it.vi, request(it.slot, 0).to_bits(), vec![]);
            say(&it.vi, &LinkControl::Unmap { slot: it.slot });
        },
        "with messages under way",
    ),
    (|it| send(&it.vi, place(FrameKind::Place, 99, 0), vec![]), "a place for no mapping"),
    (
        |it| (0..5).for_each(|at| send(&it.vi, place(FrameKind::Place, it.slot, at), vec![])),
        "places",
    ),
    (|it| send(&it.vi, place(FrameKind::NoPlace, it.slot, 0), vec![]), "a place that it had not"),
    (
        |it| {
            send(&it.vi, place(FrameKind::Place, it.slot, 0), vec![]);
            (0..5).for_each(|at| send(&it.vi, request(it.slot, at | IN_ORDER).to_bits(), vec![]));
        },
        "more messages than its window",
    ),
    (|it| say(&it.vi, &hello()), "a second hello"),
    (|it| say(&it.vi, &LinkControl::Failed { why: "w".repeat(1025) }), "too long"),
    (
        |it| {
            let part = FrameHead { handler: PART, ..FrameHead::of(FrameKind::Control, 0) };
            (0..5).for_each(|_| send(&it.vi, part.to_bits(), vec![0; 4096]));
        },
        "control that is too long",
    ),
    (
        |it| {
            let mut bytes = LinkControl::Unmap { slot: it.slot }.to_bytes();
            bytes.pop();
            send(&it.vi, FrameHead::of(FrameKind::Control, 0).to_bits(), bytes);
        },
        "control that is none",
    ),
];

#[test]
fn each_lie_is_cut_off_with_its_reason_and_others_go_on() {
    for (lie, why) in LIES {
        let sim = Sim::new(1);
        let stage = Stage::new(&sim);
        let liar = stage.liar();
        lie(&liar);
        stage.assert_cut_off(&liar, why);
    }
}

/// The honest node has mapped an endpoint of the hostile one, and sends it a request.
fn asked(stage: &Stage, liar: &Liar) -> (RemoteEndpoint, Call, u32) {
    let honest = &stage.nodes[0];
    let name = crate::am::EndpointName::new("liar", "any", 0);
    let mut mapping = pin!(honest.endpoints[0].endpoint.map(&name, &[], Deadline::DEFAULT));
    let mut context = Context::from_waker(Waker::noop());
    assert!(mapping.as_mut().poll(&mut context).is_pending());
    stage.steps(50);
    let number = heard(&liar.vi).into_iter().find_map(|control| match control {
        LinkControl::Map(map) => Some(map.number),
        _ => None,
    });
    let number = number.expect("it asks");
    let (slot, window, bytes) = (9, 2, 1000);
    let (handlers, segment) = (Vec::new(), None);
    say(&liar.vi, &LinkControl::Mapped(Mapped { number, slot, window, bytes, handlers, segment }));
    let remote = run(&stage.nodes, mapping).unwrap();
    let call = remote.try_request((1, &[5])).unwrap();
    stage.steps(20);
    (remote, call, number)
}

#[test]
fn lies_about_requested_mappings_are_cut_off() {
    type Lie = (fn(&Liar, u32), &'static str);
    let reply = |number, request| FrameHead {
        request,
        handler: 255,
        ..FrameHead::of(FrameKind::Reply, number)
    };
    let lies: &[Lie] = &[
        (|it, at| say(&it.vi, &LinkControl::Credit { number: at, messages: 2 }), "not sent"),
        (
            |it, at| tell(it, FlowName::Requests(at), ReceiverNotice::Refuse { upto: 5, most: 4 }),
            "was not sent",
        ),
        (
            |it, at| ask(it, FlowName::Replies(at), SenderNotice::Unused { bytes: 1 << 40 }),
            "more credit than it had",
        ),
        (|it, at| say(&it.vi, &LinkControl::Unmapped { number: at }), "in use"),
    ];
    for (lie, why) in lies {
        let sim = Sim::new(2);
        let stage = Stage::new(&sim);
        let liar = stage.liar();
        let (remote, call, number) = asked(&stage, &liar);
        lie(&liar, number);
        let answer = run(&stage.nodes, call).unwrap_err();
        assert!(answer.to_string().contains(why), "{answer} and not {why}");
        drop(remote);
        stage.assert_cut_off(&liar, why);
    }
    let sim = Sim::new(3);
    let stage = Stage::new(&sim);
    let liar = stage.liar();
    let (remote, call, number) = asked(&stage, &liar);
    for _ in 0..2 {
        send(&liar.vi, reply(number, 0).to_bits(), vec![]);
    }
    assert!(run(&stage.nodes, call).unwrap().words().is_empty(), "the first is its answer");
    drop(remote);
    stage.assert_cut_off(&liar, "an answer to");
}

/// Who asks and asks and takes no answer costs what it may, and no more.
#[test]
fn a_peer_that_takes_no_answers_is_cut_off() {
    let sim = Sim::new(4);
    let stage = Stage::new(&sim);
    let liar = stage.liar();
    let until = sim.elapsed() + Duration::from_secs(60);
    while liar.vi.error().is_none() && sim.elapsed() < until {
        let (number, name) = (1, "nobody".to_owned());
        let map = MapRequest { number, name, tag: 0, bytes: 0, needs: Vec::new() };
        let head = FrameHead::of(FrameKind::Control, 0).to_bits();
        let _ = liar.vi.send_eager(vi::Lane::Talk, head, &[&LinkControl::Map(map).to_bytes()]);
        step(stage.nodes.iter());
    }
    stage.assert_cut_off(&liar, "does not receive their answers");
}
