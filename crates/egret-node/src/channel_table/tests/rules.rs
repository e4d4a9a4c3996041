//! What an end does with a peer that breaks the rules, and single cases worth a name.

use super::model::Duct;
use crate::channel_table::inflow::{
    ABORT_OUTSIDE, AFTER_END, ChannelInflow, END_INSIDE, MessageBegin,
};
use crate::channel_table::{ChannelOutflow, NextPart, PartMemory, WriteHalt};
use crate::flow::inflows::{NO_CREDIT, NOT_UNUSED, WANTS_TOO_FAR};
use crate::flow::{
    FRAME_BYTES, FlowBudget, FlowTerms, Inflows, NeverFits, PeerId, ReceiverNotice, SenderNotice,
    cost,
};
use crate::frame::{FrameHead, FrameKind};

fn reader() -> (ChannelInflow, Inflows) {
    let mut inflows = Inflows::new(FlowBudget::new(FlowTerms::of(1 << 20)));
    let (flow, _) = inflows.open(PeerId(0)).unwrap();
    (ChannelInflow::new(flow), inflows)
}

/// What the writer of a flow is told when it wants so much.
fn wants(inflows: &mut Inflows, incoming: &ChannelInflow, len: u64) -> Option<ReceiverNotice> {
    inflows.hear(incoming.flow(), SenderNotice::Want { upto: cost(len), len }).unwrap();
    inflows.poll().map(|(_, tell)| tell)
}

fn small(len: usize) -> PartMemory {
    PartMemory::Small(vec![1; len])
}

pub(super) fn credit_is_checked() {
    let (mut incoming, mut inflows) = reader();
    let frames = inflows.left(incoming.flow()) / cost(256);
    for _ in 0..frames {
        incoming.hear(FrameKind::Part, small(256), &mut inflows).unwrap();
    }
    assert_eq!(incoming.hear(FrameKind::Part, small(256), &mut inflows), Err(NO_CREDIT));
}

#[test]
fn a_part_without_credit_is_a_lie() {
    credit_is_checked();
}

#[test]
fn parts_without_bytes_are_not_for_free() {
    let (mut incoming, mut inflows) = reader();
    let mut hear = || incoming.hear(FrameKind::Last, small(0), &mut inflows);
    let frames = (0..).take_while(|_| hear().is_ok()).count();
    assert_eq!(frames as u64, (16 << 10) / FRAME_BYTES);
}

#[test]
fn other_lies() {
    let (mut incoming, mut inflows) = reader();
    let flow = incoming.flow();
    assert_eq!(incoming.hear(FrameKind::Abort, small(0), &mut inflows), Err(ABORT_OUTSIDE));
    let granted = 16 << 10;
    for (upto, len) in [(u64::MAX, 10), (granted + cost(10) + 1, 10), (10, 10_000)] {
        assert_eq!(inflows.hear(flow, SenderNotice::Want { upto, len }), Err(WANTS_TOO_FAR));
    }
    assert_eq!(inflows.hear(flow, SenderNotice::Unused { bytes: granted + 1 }), Err(NOT_UNUSED));
    let mut hear = |kind, len| incoming.hear(kind, small(len), &mut inflows);
    hear(FrameKind::Part, 1).unwrap();
    assert_eq!(hear(FrameKind::End, 0), Err(END_INSIDE));
    hear(FrameKind::Last, 1).unwrap();
    hear(FrameKind::End, 0).unwrap();
    assert_eq!(hear(FrameKind::Part, 1), Err(AFTER_END));
}

#[test]
fn wants_beyond_measure_cost_nothing() {
    let (incoming, mut inflows) = reader();
    for len in [1 << 30, u64::MAX / 2, u64::MAX - 1000] {
        let refusal = ReceiverNotice::Refuse { upto: cost(len), most: 392 << 10 };
        assert_eq!(wants(&mut inflows, &incoming, len), Some(refusal));
    }
    assert_eq!(inflows.budget.free(), (1 << 20) - (16 << 10));
}

#[test]
fn an_abort_is_an_error_for_its_message_only() {
    let (mut incoming, mut inflows) = reader();
    for (kind, len) in [
        (FrameKind::Last, 1),
        (FrameKind::Part, 2),
        (FrameKind::Part, 3),
        (FrameKind::Abort, 0),
        (FrameKind::Last, 4),
    ] {
        incoming.hear(kind, small(len), &mut inflows).unwrap();
    }
    assert_eq!(incoming.begin(), MessageBegin::Message);
    assert!(matches!(incoming.next(), NextPart::Last(memory) if memory.len() == 1));
    assert_eq!(incoming.begin(), MessageBegin::Message);
    assert!(matches!(incoming.next(), NextPart::Aborted), "its parts are dropped");
    assert_eq!(incoming.begin(), MessageBegin::Message);
    assert!(matches!(incoming.next(), NextPart::Last(memory) if memory.len() == 4));
    assert_eq!(incoming.begin(), MessageBegin::Nothing);
    incoming.settle(&mut inflows);
    assert_eq!(inflows.budget.held(incoming.flow()), inflows.left(incoming.flow()));
}

fn tags(outgoing: &mut ChannelOutflow) -> Vec<(FrameKind, u64)> {
    std::iter::from_fn(|| outgoing.poll_frame())
        .map(|frame| (FrameHead::from_bits(frame.tag()).unwrap().kind, frame.len()))
        .collect()
}

pub(super) fn an_abort_takes_back_what_waits() {
    let mut outgoing = ChannelOutflow::new(2, cost(10));
    for len in [10, 20, 30] {
        outgoing.part(vec![0_u8; len].into()).unwrap();
    }
    assert_eq!(tags(&mut outgoing), [(FrameKind::Part, 10)]);
    let want = SenderNotice::Want { upto: cost(10) + cost(20), len: 20 };
    assert_eq!(outgoing.flow.poll_ask(), Some(want));
    assert_eq!(outgoing.flow.poll_ask(), None, "it asks once");
    outgoing.abort();
    outgoing.begin();
    outgoing.part(vec![0_u8; 5].into()).unwrap();
    outgoing.abort();
    outgoing.hear(ReceiverNotice::Grant { bytes: 1000 }).unwrap();
    outgoing.end();
    assert_eq!(tags(&mut outgoing), [(FrameKind::Abort, 0), (FrameKind::End, 0)]);
    assert!(outgoing.is_over());
}

#[test]
fn what_waits_of_an_aborted_message_never_goes() {
    an_abort_takes_back_what_waits();
}

pub(super) fn a_refusal_is_for_one_message() {
    let mut outgoing = ChannelOutflow::new(2, 1000);
    outgoing.part(vec![0_u8; 10].into()).unwrap();
    outgoing.part(vec![0_u8; 100_000].into()).unwrap();
    outgoing.part(vec![0_u8; 10].into()).unwrap();
    assert_eq!(tags(&mut outgoing), [(FrameKind::Part, 10)]);
    let upto = cost(10) + cost(100_000);
    assert_eq!(outgoing.flow.poll_ask(), Some(SenderNotice::Want { upto, len: 100_000 }));
    outgoing.hear(ReceiverNotice::Refuse { upto, most: 5000 }).unwrap();
    assert!(outgoing.hear(ReceiverNotice::Refuse { upto, most: 5000 }).is_err(), "it asked once");
    assert_eq!(tags(&mut outgoing), [(FrameKind::Abort, 0)]);
    let never = NeverFits { bytes: cost(100_000), most: 5000 };
    let (halt, memory) = outgoing.part(vec![0_u8; 3].into()).unwrap_err();
    assert_eq!((halt, memory.len()), (WriteHalt::Refused(never), 3), "the memory comes back");
    outgoing.begin();
    outgoing.last(Some(vec![0_u8; 7].into())).unwrap();
    assert_eq!(tags(&mut outgoing), [(FrameKind::Last, 7)]);
}

#[test]
fn a_part_that_never_fits_costs_its_message_and_no_other() {
    a_refusal_is_for_one_message();
}

#[test]
fn a_writer_that_nobody_reads_ends() {
    let mut outgoing = ChannelOutflow::new(2, 1000);
    outgoing.part(vec![0_u8; 10].into()).unwrap();
    assert_eq!(tags(&mut outgoing).len(), 1);
    outgoing.part(vec![0_u8; 10].into()).unwrap();
    outgoing.stop();
    outgoing.end();
    assert_eq!(tags(&mut outgoing), [(FrameKind::Abort, 0), (FrameKind::End, 0)]);
    assert!(matches!(outgoing.last(None), Err((WriteHalt::Stopped, None))));
}

#[test]
fn credit_that_is_not_used_comes_back() {
    let (incoming, mut inflows) = reader();
    let flow = incoming.flow();
    let bytes = cost(40_000) - (16 << 10);
    assert_eq!(wants(&mut inflows, &incoming, 40_000), Some(ReceiverNotice::Grant { bytes }));
    assert_eq!(inflows.poll(), None, "nobody waits for it");
    let (other, _) = inflows.open(PeerId(0)).unwrap();
    assert_eq!(inflows.budget.want(other, 380 << 10, 380 << 10), Ok(0));
    let keep = 16 << 10;
    inflows.hear(flow, SenderNotice::Withdraw).unwrap();
    assert_eq!(inflows.poll(), Some((flow, ReceiverNotice::Recall { keep })));
    let mut outgoing = ChannelOutflow::new(0, cost(40_000));
    outgoing.hear(ReceiverNotice::Recall { keep }).unwrap();
    assert_eq!(outgoing.flow.poll_ask(), Some(SenderNotice::Unused { bytes }));
    assert_eq!(inflows.poll(), None, "it is asked once");
    inflows.hear(flow, SenderNotice::Unused { bytes }).unwrap();
    assert_eq!((inflows.budget.held(flow), inflows.left(flow)), (keep, keep));
}

/// Three writers are granted what they asked for and do not need it, and a fourth does.
pub(super) fn idle_credit_is_asked_for() {
    let mut duct = Duct::new(FlowTerms::of(1 << 20), 4);
    for at in 1..4 {
        duct.ends[at].outgoing.part(vec![0_u8; 120_000].into()).unwrap();
        duct.pump(at);
        while duct.reader_hears() {}
        duct.ends[at].abort();
        duct.pump(at);
        duct.exchange();
        assert_eq!(duct.ends[at].outgoing.flow.credit(), cost(120_000));
    }
    duct.ends[0].outgoing.last(Some(vec![0_u8; 250_000].into())).unwrap();
    duct.pump(0);
    duct.exchange();
    assert!(duct.ends[0].outgoing.is_flushed(), "with what the others do not use it is enough");
    duct.adds_up();
}

#[test]
fn what_is_not_used_is_there_for_others() {
    idle_credit_is_asked_for();
}

/// Another waits for more than there is while this one is granted what its piece needs.
pub(super) fn promises_are_kept() {
    let (mut incoming, mut inflows) = reader();
    let (other, _) = inflows.open(PeerId(0)).unwrap();
    let credit = wants(&mut inflows, &incoming, 100 << 10);
    assert!(matches!(credit, Some(ReceiverNotice::Grant { .. })), "there is room for it");
    let most = inflows.budget.most();
    assert_eq!(inflows.budget.want(other, most, most - (16 << 10)), Ok(0), "no room for that");
    assert_eq!(inflows.poll(), None, "its piece is on the way");
    incoming.hear(FrameKind::Last, small(1), &mut inflows).unwrap();
    assert!(inflows.poll().is_some(), "it sent another, and has more than it needs");
}

#[test]
fn credit_for_a_piece_is_not_asked_back_before_it_comes() {
    promises_are_kept();
}
