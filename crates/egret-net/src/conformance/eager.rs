//! Eager messages: in order, whole, out of the way of posted ones, and bounded.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Poll;

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq, check_is};
use super::death::be_killed;
use super::pattern;
use super::side::Side;
use crate::rt::Deadline;
use crate::vi::{Drain, EAGER_MAX, Lane, Position, PostError, Vi, ViError, ViId, ViOptions};

list! { "eager":
    Reliable order,
    Reliable answers,
    Reliable full,
    Reliable panics,
    Every too_large,
    Once shared_drain,
    Once beside_posted,
    Reliable first_word,
    Once left_behind,
    Lossless datagrams,
    Kills known_dead,
}

/// A message that was drained.
pub(super) struct Got {
    vi: ViId,
    pub tag: u64,
    bytes: Vec<u8>,
}

/// Drains until there are so many messages.
pub(super) async fn drained(side: &Side, drain: &Drain, count: usize) -> Result<Vec<Got>, Wrong> {
    let mut all = Vec::new();
    let some = poll_fn(|_| {
        let left = count - all.len();
        // Fewer than there may be: a budget is kept.
        let budget = left.min(7);
        let came = drain.poll(budget, |reply, tag, bytes| {
            all.push(Got { vi: reply.vi(), tag, bytes: bytes.to_vec() });
        });
        if came <= budget && all.len() >= count {
            return Poll::Ready(());
        }
        side.look_again()
    });
    side.must("eager messages", some).await?;
    check_eq!(all.len(), count, "messages drained, by budgets that add up to it");
    Ok(all)
}

/// Sends, and drains while the lane is full.
pub(super) async fn send(
    side: &Side,
    vi: &Vi,
    lane: Lane,
    tag: u64,
    len: usize,
) -> Result<Position, Wrong> {
    let mut bytes = vec![0; len];
    pattern::fill(tag, &mut bytes);
    let (first, second) = bytes.split_at(len / 3);
    // What has one part may go by a shorter way.
    let parts: &[&[u8]] = if tag.is_multiple_of(2) { &[&bytes] } else { &[first, second] };
    let sent = poll_fn(|_| match vi.send_eager(lane, tag, parts) {
        Err(PostError::LaneFull) => {
            vi.drain().poll(1, |_, _, _| {});
            side.look_again()
        }
        other => Poll::Ready(other),
    });
    Ok(side.must("room for an eager message", sent).await??)
}

fn len_of(number: u64) -> usize {
    match number % 7 {
        0 => 0,
        1 => 48,
        2 => 49,
        3 => EAGER_MAX,
        _ => usize::try_from(number * 37 % 300).expect("a few bytes"),
    }
}

/// Everything arrives, whole, in the order of its lane.
async fn order(side: &Side) -> Outcome {
    let vi = side.pair("order").await?;
    let count = side.profile.messages;
    if side.is_caller() {
        for number in 0..count {
            let lane = Lane::ALL[usize::from(number % 3 == 0)];
            send(side, &vi, lane, number, len_of(number)).await?;
        }
        return side.meet().await;
    }
    let mut last = [None; 2];
    for got in drained(side, vi.drain(), usize::try_from(count)?).await? {
        let lane = usize::from(got.tag % 3 == 0);
        check!(last[lane] < Some(got.tag), "message {} after {:?}", got.tag, last[lane]);
        last[lane] = Some(got.tag);
        check_eq!(got.bytes.len(), len_of(got.tag), "bytes of message {}", got.tag);
        pattern::verify(got.tag, &got.bytes)?;
        check_eq!(got.vi, vi.id(), "the connection it came by");
    }
    side.meet().await
}

/// Whoever takes a message and panics loses that message alone, as often as that happens.
async fn panics(side: &Side) -> Outcome {
    let vi = side.pair("panics").await?;
    let count = 100;
    if side.is_caller() {
        for number in 0..=count {
            send(side, &vi, Lane::Talk, number, len_of(number)).await?;
        }
        return side.meet().await;
    }
    let mut seen = 0;
    let lost = poll_fn(|_| {
        // Without a word on stderr.
        let panics = AssertUnwindSafe(|| {
            vi.drain().poll(1, |_, tag, _| {
                seen = tag + 1;
                resume_unwind(Box::new("of a test"));
            })
        });
        match catch_unwind(panics) {
            Err(_) if seen == count => Poll::Ready(()),
            _ => side.look_again(),
        }
    });
    side.must("messages that are lost", lost).await?;
    let last = drained(side, vi.drain(), 1).await?;
    check_eq!(last[0].tag, count, "the message behind those");
    side.meet().await
}

/// A message is answered while it is drained, on the connection it came by.
async fn answers(side: &Side) -> Outcome {
    let vi = side.pair("answers").await?;
    for round in 0..20_u64 {
        if side.is_caller() {
            send(side, &vi, Lane::Talk, round, len_of(round)).await?;
            let got = drained(side, vi.drain(), 1).await?.remove(0);
            check_eq!((got.tag, got.bytes.len()), (round + 100, len_of(round)), "the answer");
            pattern::verify(round, &got.bytes)?;
            continue;
        }
        let mut answered = None;
        let answering = poll_fn(|_| {
            vi.drain().poll(1, |reply, tag, bytes| {
                answered = Some(reply.send(Lane::Talk, tag + 100, &[bytes]));
            });
            if answered.is_some() { Poll::Ready(()) } else { side.look_again() }
        });
        side.must("a message", answering).await?;
        check_is!(answered, Some(Ok(_)), "an answer");
    }
    side.meet().await
}

/// A lane is bounded, and the other open meanwhile; whoever drains makes room, and nothing is lost.
async fn full(side: &Side) -> Outcome {
    full_lane(side, "full-talk", Lane::Talk, Lane::Bulk).await?;
    full_lane(side, "full-bulk", Lane::Bulk, Lane::Talk).await
}

async fn full_lane(side: &Side, service: &str, lane: Lane, other: Lane) -> Outcome {
    let vi = side.pair(service).await?;
    if side.is_caller() {
        let mut sent = 0_u64;
        let why = loop {
            check!(sent < 1 << 20, "a lane that is never full");
            match vi.send_eager(lane, sent, &[&[7; 100]]) {
                Ok(_) => sent += 1,
                Err(why) => break why,
            }
        };
        check_eq!(why, PostError::LaneFull, "a lane that nobody drains");
        check_eq!(vi.error(), None, "the error state");
        let beside = vi.send_eager(other, BESIDE, &[]);
        check!(beside.is_ok(), "the other lane, while this one is full: {beside:?}");
        side.meet().await?;
        send(side, &vi, lane, sent, 5).await?;
        send(side, &vi, lane, u64::MAX, 0).await?;
        side.meet().await?;
        return Ok(());
    }
    side.meet().await?;
    // The lanes end in whichever order they are drained.
    let (mut next, mut left) = (0, 2);
    while left > 0 {
        match drained(side, vi.drain(), 1).await?.remove(0).tag {
            u64::MAX | BESIDE => left -= 1,
            tag => {
                check_eq!(tag, next, "the next message");
                next += 1;
            }
        }
    }
    check!(next > 1, "a lane that holds one message");
    side.meet().await
}

/// The tag of a message that is sent while the other lane is full.
const BESIDE: u64 = u64::MAX - 1;

async fn too_large(side: &Side) -> Outcome {
    let vi = side.pair("too large").await?;
    let half = vec![0; EAGER_MAX / 2 + 1];
    let refused = vi.send_eager(Lane::Talk, 0, &[&half, &half]);
    let why = PostError::EagerTooLarge { len: EAGER_MAX + 2, max: EAGER_MAX };
    check_eq!(refused, Err(why), "a message that is too large");
    check_eq!(vi.error(), None, "the error state");
    side.meet().await
}

/// One drain for several connections, each told apart.
async fn shared_drain(side: &Side) -> Outcome {
    let drain = side.nic.drain();
    let options = ViOptions { drain: Some(drain.clone()), ..side.options() };
    let mut vis = Vec::new();
    for number in 0..3 {
        vis.push(side.pair_with(&format!("shared {number}"), &options).await?);
    }
    if side.is_caller() {
        for (number, vi) in (0..).zip(&vis) {
            for part in 0..3 {
                send(side, vi, Lane::Talk, number * 10 + part, 20).await?;
            }
        }
        return side.meet().await;
    }
    let mut next = [0; 3];
    for got in drained(side, &drain, 9).await? {
        let number = usize::try_from(got.tag / 10)?;
        check_eq!(got.vi, vis[number].id(), "the connection of message {}", got.tag);
        check_eq!(got.tag % 10, next[number], "the next message of connection {number}");
        next[number] += 1;
    }
    side.meet().await
}

/// Neither class takes what is the other's, or waits for it.
async fn beside_posted(side: &Side) -> Outcome {
    let vi = side.pair("beside").await?;
    if side.is_caller() {
        // There is no receive for it.
        side.post_send(&vi, 1, 100_000)?;
        send(side, &vi, Lane::Talk, 2, 100).await?;
        side.meet().await?;
        drop(side.done(vi.send_queue()).await?);
        return side.meet().await;
    }
    let got = drained(side, vi.drain(), 1).await?.remove(0);
    check_eq!(got.tag, 2, "the eager message");
    side.post_recv(&vi, 100_000)?;
    side.meet().await?;
    let received = side.done(vi.recv_queue()).await?;
    check_eq!((received.tag, received.len), (1, 100_000), "the posted message");
    pattern::verify(1, received.into_buf().bytes())?;
    side.meet().await
}

/// Who accepts may speak before the other side has taken its end.
async fn first_word(side: &Side) -> Outcome {
    let to = side.address("first", 0);
    if !side.is_caller() {
        let listener = side.listen(&to, &side.options())?;
        let vi = side.accept(&listener).await?;
        for number in 0..20 {
            send(side, &vi, Lane::Talk, number, len_of(number)).await?;
        }
        side.meet().await?;
        return side.meet().await;
    }
    let patience = Deadline::In(side.profile.patience);
    let connecting = side.nic.connect(&to, &side.options(), patience);
    side.meet().await?;
    let vi = side.must("a connection", connecting).await??;
    for (number, got) in (0..).zip(drained(side, vi.drain(), 20).await?) {
        check_eq!(got.tag, number, "the next message");
        pattern::verify(number, &got.bytes)?;
    }
    side.meet().await
}

/// What was sent before a connection was closed is drained; nothing is sent after.
async fn left_behind(side: &Side) -> Outcome {
    let vi = side.pair("left").await?;
    if side.profile.lossy {
        // What a link loses is not repeated once the connection is closed.
        return side.meet().await;
    }
    if side.is_caller() {
        for number in 0..3 {
            send(side, &vi, Lane::Talk, number, 70).await?;
        }
        side.pause(side.profile.quiet).await;
        side.meet().await?;
        vi.disconnect();
        let refused = vi.send_eager(Lane::Talk, 0, &[]);
        check_eq!(refused, Err(PostError::Broken(ViError::Closed)), "a message after the end");
        return side.meet().await;
    }
    // It may take a moment until they are here.
    side.meet().await?;
    let closed = poll_fn(|_| {
        side.nic.poll();
        if vi.error().is_some() { Poll::Ready(()) } else { side.look_again() }
    });
    side.must("the end of the connection", closed).await?;
    let tags: Vec<u64> = drained(side, vi.drain(), 3).await?.iter().map(|got| got.tag).collect();
    check_eq!(tags, [0, 1, 2], "what was sent before the end");
    let refused = vi.send_eager(Lane::Talk, 0, &[]);
    check_is!(refused, Err(PostError::Broken(_)), "a message after the end");
    side.meet().await
}

async fn datagrams(side: &Side) -> Outcome {
    let vi = side.pair("datagrams").await?;
    if side.is_caller() {
        for number in 0..20 {
            send(side, &vi, Lane::Talk, number, 40).await?;
        }
        return side.meet().await;
    }
    for (number, got) in (0..).zip(drained(side, vi.drain(), 20).await?) {
        check_eq!(got.tag, number, "the next message");
        pattern::verify(number, &got.bytes)?;
    }
    side.meet().await
}

/// Whoever sends to a peer that died is told in time.
async fn known_dead(side: &Side) -> Outcome {
    let vi = side.pair("dead").await?;
    if !side.is_caller() {
        side.meet().await?;
        return be_killed(side).await;
    }
    side.meet().await?;
    side.kill_peer()?;
    let told = poll_fn(|_| match vi.send_eager(Lane::Talk, 0, &[&[1; 10]]) {
        Err(PostError::Broken(why)) => Poll::Ready(why),
        _ => {
            vi.drain().poll(9, |_, _, _| {});
            side.look_again()
        }
    });
    let why = side.within("word of the death", side.profile.death, told).await?;
    check_is!(why, ViError::PeerDied { .. }, "why it is closed");
    Ok(())
}
