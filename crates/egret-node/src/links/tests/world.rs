//! Nodes of a simulated world, with endpoints that note what they serve.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt;
use egret_net::vi::{Nic, Reliability};

use super::ledger::{Id, Ledger, NO_HANDLER, Outcome};
use crate::am::{
    Bundle, Endpoint, EndpointName, HeldPayload, Message, MessageError, ReplySlot, Request,
};
use crate::links::{Links, LinksOptions};

/// One life of a node.
pub(super) struct Node {
    pub(super) endpoints: Vec<End>,
    pub(super) bundles: [Bundle; 2],
    pub(super) links: Links,
    pub(super) nic: Nic,
    pub(super) stash: Stash,
}

/// An endpoint that others map.
pub(super) struct End {
    pub(super) endpoint: Endpoint,
    pub(super) name: EndpointName,
    /// Which of those that had the name.
    pub(super) life: u64,
    /// Which of all.
    pub(super) number: u64,
}

/// What a node's handlers keep.
#[derive(Debug, Clone, Default)]
pub(super) struct Stash {
    pub(super) later: Arc<Mutex<Vec<(Id, ReplySlot)>>>,
    kept: Arc<Mutex<Vec<HeldPayload>>>,
    /// Answers that ran a handler.
    upcalls: Arc<Mutex<BTreeSet<Id>>>,
}

impl Node {
    pub(super) fn new(sim: &Sim, host: &str, options: &LinksOptions, ledger: &Ledger) -> Self {
        // What links lose is repeated by the simulator, or by a window.
        let nic = match options.reliability {
            Reliability::Delivery => sim.windowed_nic(host),
            _ => sim.nic(host),
        };
        let links = Links::open(nic.clone(), options.clone()).unwrap();
        let bundles = [links.bundle(), links.bundle()];
        let mut node = Self { endpoints: Vec::new(), bundles, links, nic, stash: Stash::default() };
        for at in 0..2 {
            let end = node.open(at, 0, ledger);
            node.endpoints.push(end);
        }
        node
    }

    /// Opens an endpoint, in place of one that is closed.
    pub(super) fn open(&self, at: usize, life: u64, ledger: &Ledger) -> End {
        let name = EndpointName::new(self.links.host(), &format!("e{at}"), life);
        let endpoint = self.bundles[at % 2].register(&name.name, life).unwrap();
        for number in [AT_ONCE, LATER, NEVER, DATA, UPCALL, HOLD, IN_ORDER] {
            let (ledger, stash) = (ledger.clone(), self.stash.clone());
            endpoint.on(number, move |request| serve(number, request, &ledger, &stash));
        }
        let (answers, stash) = (ledger.clone(), self.stash.clone());
        endpoint.on(ANSWER, move |request| answered(&request, &answers, &stash));
        let (ends, number) = (ledger.clone(), rt::random());
        endpoint.on_end(move |ended| ends.ended(number, ended.peer.link));
        let ledger = ledger.clone();
        endpoint.on_error(move |undelivered| {
            let outcome = match undelivered.reason {
                MessageError::LinkLost { fate, .. } => Outcome::Lost(fate),
                _ => Outcome::Returned,
            };
            match Id::of(&undelivered.words) {
                Some(id) => ledger.tell(id, outcome),
                None => ledger.book().wrong.push("an unknown message came back".to_owned()),
            }
        });
        End { endpoint, name, life, number }
    }

    pub(super) fn forget_kept(&self) {
        self.stash.kept.lock().unwrap().clear();
    }
}

fn serve(number: u8, mut request: Request<'_>, ledger: &Ledger, stash: &Stash) {
    let Some(id) = ledger.serve(number, request.words(), request.bytes()) else { return };
    let words = id.words();
    let len = request.bytes().len();
    match number {
        LATER if request.wants_reply() => {
            stash.later.lock().unwrap().push((id, request.later()));
        }
        DATA => request.reply_with(Message::to(255).words(&words).data(answer(id, len))),
        UPCALL if len.is_multiple_of(2) => request.reply_with(Message::to(ANSWER).words(&words)),
        UPCALL => {
            request.reply_with(Message::to(ANSWER).words(&words).data(answer(id, len)));
        }
        HOLD => {
            stash.kept.lock().unwrap().push(request.hold());
            request.reply(&words);
        }
        NEVER => {}
        _ => request.reply(&words),
    }
}

/// The handler that an answer named.
fn answered(request: &Request<'_>, ledger: &Ledger, stash: &Stash) {
    let id = Id::of(request.words());
    let is_new = id.is_some_and(|id| stash.upcalls.lock().unwrap().insert(id));
    let data = request.bytes();
    if !is_new || id.is_some_and(|id| !data.is_empty() && data != answer(id, data.len() / 2)) {
        ledger.book().wrong.push(format!("an answer of its own: {id:?}"));
    }
}

/// The data that answers a message.
pub(super) fn answer(id: Id, len: usize) -> Vec<u8> {
    Id { number: id.number + 1, ..id }.payload(len * 2)
}

/// One step of everybody.
pub(super) fn step<'a>(nodes: impl Iterator<Item = &'a Node> + Clone) {
    let Some(first) = nodes.clone().next() else { return };
    let seen = first.nic.poll();
    nodes.clone().for_each(|node| node.links.poll());
    let next = nodes.filter_map(|node| node.links.next_event()).min();
    let soon = first.nic.now() + Duration::from_millis(5);
    first.nic.wait(seen, next.into_iter().chain([soon]).min());
}

pub(super) const AT_ONCE: u8 = 0;
pub(super) const LATER: u8 = 1;
pub(super) const NEVER: u8 = 2;
pub(super) const DATA: u8 = 3;
pub(super) const UPCALL: u8 = 4;
pub(super) const HOLD: u8 = 5;
/// Of requests that keep the order.
pub(super) const IN_ORDER: u8 = 6;
/// Of answers only.
pub(super) const ANSWER: u8 = 7;
const _: () = assert!(ANSWER < NO_HANDLER);
