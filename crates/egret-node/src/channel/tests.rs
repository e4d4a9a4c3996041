//! A peer that lies, over a real link: it is cut off with the reason, and costs what it was granted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use egret_net::fabric::Fabric;
use egret_net::fabric::shm::ShmFabric;
use egret_net::rt::{self, Deadline};
use egret_net::vi::NicOptions;

use crate::channel::{ChannelReader, ChannelWriter};
use crate::channel_table::ChannelError;
use crate::flow::{FlowName, ReceiverNotice, SenderNotice};
use crate::link::control::LinkControl;
use crate::link::{ChannelControl, LinkError};
use crate::{Links, LinksOptions};

const LONG: Deadline = Deadline::DEFAULT;

fn links() -> Links {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let host = format!("channel-lies-{}-{number}", std::process::id());
    Links::open(ShmFabric.open(&NicOptions::new(&host)).unwrap(), LinksOptions::default()).unwrap()
}

fn channel(here: &Links, there: &Links) -> (ChannelWriter, ChannelReader) {
    let listener = there.listen("lies", 1).unwrap();
    let writer = here.wait_channel(there.host(), "lies", LONG).unwrap();
    let reader = listener.wait_accept(LONG).unwrap();
    assert_eq!((reader.host(), writer.host()), (here.host(), there.host()));
    (writer, reader)
}

/// What the reader hears of a writer whose machine is made to `lie`, and what its node has mapped.
fn heard(lie: impl FnOnce(&mut ChannelWriter)) -> (String, usize) {
    let (here, there) = (links(), links());
    let (mut writer, mut reader) = channel(&here, &there);
    lie(&mut writer);
    let why = loop {
        match reader.wait_next(LONG) {
            Ok(Some(mut message)) => while let Ok(Some(_)) = message.wait_next_part(LONG) {},
            Ok(None) => panic!("a channel that ends well"),
            Err(ChannelError::Link(LinkError::CutOff { why, .. })) => break why,
            Err(other) => panic!("{other}"),
        }
    };
    (why, reader.depot.stats().mapped_bytes)
}

/// Makes the writer believe that it was granted more.
fn believe(writer: &ChannelWriter, bytes: u64) {
    let (number, core) = (writer.number, &writer.core);
    core.state.with(|state| {
        state
            .channels
            .writer(number)
            .machine()
            .unwrap()
            .hear(ReceiverNotice::Grant { bytes })
            .unwrap();
    });
}

#[test]
fn credit_that_was_not_granted_buys_nothing() {
    let (why, mapped) = heard(|writer| {
        believe(writer, 1 << 40);
        let _ = writer.wait_send(vec![1_u8; 100 << 20], LONG);
    });
    assert_eq!(why, "it sent more than its credit");
    assert!(mapped < 1 << 20, "{mapped} bytes were mapped for a lie");
}

#[test]
fn small_parts_without_credit_are_noticed() {
    let (why, _) = heard(|writer| {
        believe(writer, 1 << 40);
        let soon = Duration::from_secs(2);
        let mut message = writer.message();
        // Faster than anybody reads: the reader is not asked before the flood is over.
        for _ in 0..100_000 {
            let sent = message.wait_write_owned(vec![1_u8; 100], soon);
            if sent.is_err() {
                return;
            }
        }
    });
    assert_eq!(why, "it sent more than its credit");
}

#[test]
fn control_frames_that_lie_are_noticed() {
    let says = |control: fn(u64) -> LinkControl| {
        let lie = move |writer: &mut ChannelWriter| {
            let (number, core) = (writer.number, writer.core.clone());
            core.state.with(|state| {
                let link = state.channels.writer(number).link();
                state.links.live(link).unwrap().control(&control(number));
                state.pump(link);
            });
            rt::sleep(Duration::from_millis(1));
        };
        heard(lie).0
    };
    let far = says(|at| ask(at, SenderNotice::Want { upto: u64::MAX, len: 1 }));
    assert_eq!(far, "it asked for credit beyond what it can have sent");
    let unused = says(|at| ask(at, SenderNotice::Unused { bytes: u64::MAX }));
    assert_eq!(unused, "it returned more credit than it had");
    let again =
        says(|number| LinkControl::Channel(ChannelControl::Open { number, name: "x".to_owned() }));
    assert_eq!(again, "a channel that is open is opened again");
}

const fn ask(number: u64, ask: SenderNotice) -> LinkControl {
    LinkControl::Ask { flow: FlowName::Channel(number), ask }
}
