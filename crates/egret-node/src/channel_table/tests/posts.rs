//! Messages that are posted, without links.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::vi::Segment;

use crate::channel_table::writer_state::WriterState;
use crate::channel_table::{ChannelError, ChannelOutflow, Post, PostOutcome};
use crate::flow::{ReceiverNotice, cost};
use crate::frame::{FrameHead, FrameKind};
use crate::link::{Fate, LinkError};
use crate::slots::SlotTable;

/// A channel that may send so much.
fn writing(credit: u64) -> WriterState {
    let mut writing = WriterState::new(SlotTable::default().insert(()));
    writing.opened(ChannelOutflow::new(2, credit), 2).unwrap();
    writing
}

/// Lets a channel send so much more.
fn grant(writing: &mut WriterState, bytes: u64) {
    writing.outgoing(|outgoing| outgoing.hear(ReceiverNotice::Grant { bytes }).unwrap());
}

/// Posts a message of parts of so many bytes.
fn post(writing: &mut WriterState, parts: &[usize]) -> (PostOutcome, Arc<Segment>) {
    let kept = Arc::new(Segment::from(vec![7_u8; *parts.iter().max().unwrap()]));
    let parts = parts.iter().map(|len| Segment::part_of(&kept, 0..*len)).collect();
    let (post, posted) = Post::new(parts, Vec::new());
    writing.post(post);
    (posted, kept)
}

/// What goes now.
fn frames(writing: &mut WriterState) -> Vec<(FrameHead, u64)> {
    std::iter::from_fn(|| writing.poll_frame())
        .map(|frame| (FrameHead::from_bits(frame.tag()).unwrap(), frame.len()))
        .collect()
}

fn kinds(writing: &mut WriterState) -> Vec<(FrameKind, u64)> {
    frames(writing).into_iter().map(|(head, len)| (head.kind, len)).collect()
}

fn outcome(posted: &mut PostOutcome) -> Option<Result<(), ChannelError>> {
    match Pin::new(posted).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

pub(super) fn they_go_in_order() {
    let mut writing = writing(0);
    let mut all: Vec<_> = [10, 20, 30].map(|len| post(&mut writing, &[1, len])).into();
    assert_eq!(kinds(&mut writing), []);
    let mut went = Vec::new();
    for _ in 0..6 {
        grant(&mut writing, cost(30));
        went.extend(frames(&mut writing));
    }
    assert_eq!(went.iter().map(|(_, len)| *len).collect::<Vec<_>>(), [1, 10, 1, 20, 1, 30]);
    assert!(all.iter_mut().all(|(posted, _)| outcome(posted).is_none()), "they are under way");
    for (head, _) in went {
        writing.came_back(head, None);
    }
    for (posted, kept) in &mut all {
        assert_eq!(outcome(posted), Some(Ok(())));
        assert_eq!(Arc::strong_count(kept), 1, "the memory is its owner's again");
    }
}

#[test]
fn posts_go_in_their_order_when_they_may() {
    they_go_in_order();
}

#[test]
fn a_post_that_is_taken_back_does_not_go_and_others_do() {
    let mut writing = writing(cost(10));
    let [mut first, mut second, mut third] =
        [[10, 20], [10, 30], [10, 40]].map(|parts| post(&mut writing, &parts));
    assert_eq!(kinds(&mut writing), [(FrameKind::Part, 10)]);
    for posted in [&first.0, &second.0] {
        writing.withdraw(posted);
    }
    grant(&mut writing, 1000);
    assert_eq!(
        kinds(&mut writing),
        [(FrameKind::Abort, 0), (FrameKind::Part, 10), (FrameKind::Last, 40)]
    );
    for (posted, kept) in [&mut first, &mut second] {
        assert!(matches!(outcome(posted), Some(Err(_))));
        assert_eq!(Arc::strong_count(kept), 1);
    }
    assert_eq!(outcome(&mut third.0), None);
    writing.withdraw(&third.0);
    assert_eq!(outcome(&mut third.0), None, "it has gone");
}

#[test]
fn waiting_posts_fail_when_the_reader_is_dropped() {
    let mut writing = writing(cost(10));
    let mut all = [[10, 20], [10, 30]].map(|parts| post(&mut writing, &parts));
    assert_eq!(kinds(&mut writing), [(FrameKind::Part, 10)]);
    writing.outgoing(ChannelOutflow::stop);
    assert_eq!(kinds(&mut writing), [(FrameKind::Abort, 0), (FrameKind::End, 0)]);
    for (posted, kept) in &mut all {
        assert_eq!(outcome(posted), Some(Err(ChannelError::ReaderGone)));
        assert_eq!(Arc::strong_count(kept), 1);
    }
    let (mut late, _) = post(&mut writing, &[10]);
    assert_eq!(kinds(&mut writing), []);
    assert_eq!(outcome(&mut late), Some(Err(ChannelError::ReaderGone)));
}

#[test]
fn a_link_that_dies_says_what_became_of_each() {
    let mut writing = writing(cost(10) * 3);
    let mut all = [(); 4].map(|()| post(&mut writing, &[10]));
    let went = frames(&mut writing);
    assert_eq!(went.len(), 3);
    writing.came_back(went[0].0, None);
    // What is back before it is known why, and behind that.
    writing.came_back(went[1].0, Some(Fate::Unknown));
    let why = LinkError::PeerDied { peer: "b".to_owned(), why: "of a test" };
    writing.died(&why);
    assert_eq!(outcome(&mut all[2].0), None);
    writing.came_back(went[2].0, Some(Fate::NotDelivered));
    let lost = |fate| Some(Err(ChannelError::Lost { why: why.clone(), fate }));
    let fates = [Some(Ok(())), lost(Fate::Unknown), lost(Fate::NotDelivered)];
    for ((posted, kept), fate) in
        all.iter_mut().zip(fates.into_iter().chain([lost(Fate::NotDelivered)]))
    {
        assert_eq!(outcome(posted), fate);
        assert_eq!(Arc::strong_count(kept), 1);
    }
}

#[test]
fn a_channel_ends_behind_what_was_posted() {
    let mut writing = writing(0);
    let (mut posted, _) = post(&mut writing, &[10]);
    writing.abandon();
    assert_eq!(kinds(&mut writing), []);
    grant(&mut writing, cost(10));
    let went = frames(&mut writing);
    assert_eq!(
        went.iter().map(|(head, _)| head.kind).collect::<Vec<_>>(),
        [FrameKind::Last, FrameKind::End]
    );
    assert!(!writing.is_done());
    went.iter().for_each(|(head, _)| writing.came_back(*head, None));
    assert_eq!(outcome(&mut posted), Some(Ok(())));
    assert!(writing.is_done());
}
