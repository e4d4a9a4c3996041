//! What a fuzzer calls: bytes that become frames of a link. Not for use.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use egret_net::fabric::sim::Sim;
use egret_net::rt::Deadline;
use egret_net::vi::DirectPlacement;

use super::state::LinksState;
use super::{Links, LinksOptions};
use crate::am::{Call, Endpoint, EndpointName, Message, RemoteEndpoint};
use crate::flow::{FlowName, ReceiverNotice, SenderNotice};
use crate::frame::{ArrivedFrame, FrameHead, FrameKind};
use crate::link::ChannelControl;
use crate::link::connection::OWN_BYTES;
use crate::link::control::LinkControl;
use crate::slots::SlotKey;

/// A peer sends these in the middle of a conversation. They must neither panic nor take
/// memory that does not come back.
///
/// The input is a row of frames, each after three bytes: its kind and what is done with it
/// (16: its head is the next eight bytes as they are), its slot or number, its handler and
/// words; then the request, a byte; then the length of its payload, two bytes, and the
/// payload. A frame of control (kinds that there are not: well formed) takes what it says from the
/// payload.
pub(crate) fn frames(input: &[u8]) {
    let sim = Sim::new(1);
    let stage = Stage::new(&sim);
    let mut input = input.iter().copied();
    while let Some(frame) = Frame::next(&mut input) {
        if stage.links[0].core.state.with(|state| stage.hear(state, &frame)) {
            break;
        }
        stage.links[0].core.flush();
    }
    stage.end();
}

struct Frame {
    tag: u64,
    bytes: Vec<u8>,
}

impl Frame {
    fn next(input: &mut impl Iterator<Item = u8>) -> Option<Self> {
        let (what, slot, more, request) =
            (input.next()?, input.next()?, input.next()?, input.next()?);
        let len = u16::from_le_bytes([input.next()?, input.next()?]);
        let mut bytes: Vec<u8> = input.take(usize::from(len % 700)).collect();
        if what & 16 != 0 && bytes.len() >= 8 {
            let tag = u64::from_le_bytes(*bytes.first_chunk::<8>()?);
            return Some(Self { tag, bytes: bytes.split_off(8) });
        }
        let at = usize::from(what & 15);
        let kind = FrameKind::ALL.get(at).copied().unwrap_or(FrameKind::Control);
        if at >= FrameKind::ALL.len() {
            bytes = control(&bytes).to_bytes();
        }
        // Some are as large as they can be.
        if what & 32 != 0 {
            bytes.resize(usize::from(len) * 4, 7);
        }
        let head = FrameHead {
            kind,
            words: (more >> 3).min(16),
            handler: if more & 7 == 7 { 255 } else { more & 7 },
            slot: u32::from(slot),
            request: u32::from(request) | u32::from(what & 64) << 17 | u32::from(what & 128) << 15,
        };
        Some(Self { tag: head.to_bits(), bytes })
    }
}

/// Something that is well formed.
fn control(bytes: &[u8]) -> LinkControl {
    let at = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let (number, slot) = (u32::from(at(1)), u32::from(at(1)));
    let amount = u64::from(at(2)) << (at(3) % 64);
    let (messages, other) = (u32::from(at(4)), u64::from(at(4)) << (at(5) % 64));
    let flow = match at(6) % 3 {
        0 => FlowName::Requests(slot),
        1 => FlowName::Replies(number),
        _ => FlowName::Channel(number.into()),
    };
    match at(0) % 15 {
        0 => LinkControl::Unmap { slot },
        1 => LinkControl::Leave { slot },
        2 => LinkControl::Unmapped { number },
        3 => LinkControl::Credit { number, messages },
        4 => LinkControl::Ask { flow, ask: SenderNotice::Want { upto: amount, len: other } },
        5 => LinkControl::Ask { flow, ask: SenderNotice::Unused { bytes: amount } },
        6 => LinkControl::Ask { flow, ask: SenderNotice::Withdraw },
        7 => LinkControl::Tell { flow, tell: ReceiverNotice::Grant { bytes: amount } },
        8 => LinkControl::Tell { flow, tell: ReceiverNotice::Refuse { upto: amount, most: other } },
        9 => LinkControl::Tell { flow, tell: ReceiverNotice::Recall { keep: amount } },
        10 => LinkControl::Channel(ChannelControl::Stop { number: number.into() }),
        11 => LinkControl::Channel(ChannelControl::Opened { number: amount, slot, credit: other }),
        12 => LinkControl::Channel(ChannelControl::Open { number: amount, name: "e".to_owned() }),
        13 => LinkControl::Failed { why: "\x1bwhy".repeat(usize::from(at(2)) * 2) },
        _ => {
            let (name, tag) = ("e".to_owned(), u64::from(at(2) & 1));
            let map = crate::link::control::MapRequest {
                number,
                name,
                tag,
                bytes: amount,
                needs: vec![],
            };
            LinkControl::Map(map)
        }
    }
}

/// Two nodes with mappings both ways, and something under way.
struct Stage {
    calls: Vec<Call>,
    remotes: Vec<RemoteEndpoint>,
    endpoints: Vec<Endpoint>,
    links: [Links; 2],
    link: SlotKey,
}

impl Stage {
    fn new(sim: &Sim) -> Self {
        let options = LinksOptions::default().window(4).budget(1 << 20);
        let links = ["a", "b"]
            .map(|host| Links::open(sim.nic(host), options.clone()).expect("a simulated nic"));
        let endpoint = |links: &Links| links.bundle().register("e", 0).expect("a free name");
        let endpoints: Vec<Endpoint> = links.iter().map(endpoint).collect();
        for endpoint in &endpoints {
            endpoint.on(0, |request| request.reply(&[1]));
            endpoint.on(1, |_| ());
            endpoint.on(2, |mut request| {
                drop(request.hold());
                let data = vec![1_u8; 600];
                request.reply_with(Message::to(255).data(data));
            });
            endpoint.on_error(drop);
        }
        let map = |from: usize| {
            let name = EndpointName::new(links[1 - from].host(), "e", 0);
            let mapping = endpoints[from].map(&name, &[], Deadline::DEFAULT);
            run(&links, mapping).expect("it is there")
        };
        let remotes = vec![map(0), map(1)];
        let calls = [Message::to(0), Message::to(1).data(vec![0_u8; 900])];
        let calls = calls.into_iter().filter_map(|message| remotes[0].try_request(message).ok());
        let link = links[0].core.state.with(|state| state.links.keys()[0]);
        Self { calls: calls.collect(), remotes, endpoints, links, link }
    }

    /// Takes a frame as a fabric does. Whether it was a lie.
    fn hear(&self, state: &mut LinksState, frame: &Frame) -> bool {
        let Some(head) = FrameHead::from_bits(frame.tag) else { return true };
        let Ok(line) = state.links.live(self.link) else { return true };
        let mut own = frame.bytes.clone();
        let mut landed = None;
        if own.len() > OWN_BYTES {
            let Ok(mut buf) = line.lands.land(own.len() as u64, frame.tag) else { return true };
            let rest = own.split_off(buf.len().min(own.len()));
            buf.bytes_mut().copy_from_slice(&own);
            (own, landed) = (rest, Some(buf));
        }
        match state.hear(self.link, ArrivedFrame::from_parts(head, landed, own)) {
            Ok(()) => false,
            Err(why) => {
                state.cut_off(self.link, why);
                true
            }
        }
    }

    /// All is given back.
    fn end(self) {
        let Self { calls, remotes, endpoints, links, .. } = self;
        links[0].core.state.with(|state| {
            let account = state.account();
            assert!(account.free <= account.budget && account.incoming <= 300, "{account:?}");
        });
        drop((calls, remotes));
        links[0].close();
        run(&links, Turns(50));
        let account = links[0].account();
        assert!(account.is_settled() && account.links == 0, "{account:?}");
        drop(endpoints);
    }
}

/// Lets the world go on for a while.
struct Turns(u32);

impl Future for Turns {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.0 -= 1;
        if self.0 == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn run<F: Future>(links: &[Links], future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let nic = &links[0].core.nic;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        let seen = nic.poll();
        links.iter().for_each(Links::poll);
        let soon = nic.now() + std::time::Duration::from_millis(1);
        let next = links.iter().filter_map(Links::next_event).min();
        nic.wait(seen, next.into_iter().chain([soon]).min());
    }
}
