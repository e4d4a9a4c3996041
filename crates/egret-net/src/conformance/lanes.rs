//! Lanes of eager messages: how far they have arrived, what is dropped, and talk beside bulk.

use std::future::poll_fn;
use std::iter;
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq, check_is};
use super::eager::{drained, send};
use super::remote::{exposed, give, keys};
use super::side::Side;
use crate::vi::{Access, Completion, Descriptor, Lane, Position, RemoteKey, Vi};

list! { "eager":
    Every arrived,
    Unreliable arrived_past_drops,
    Unreliable never_full,
    Reliable urgent,
    Once beside_bulk,
}

/// What is known to have arrived of a lane: it never becomes less.
struct Known(Position);

impl Known {
    /// Asks once more. What came meanwhile is drained: with it may come the answer.
    fn ask(&mut self, vi: &Vi) -> Result<Position, Wrong> {
        let (before, now) = (self.0, vi.arrived(Lane::Talk));
        check!(now >= before, "what has arrived became less: {now:?} after {before:?}");
        self.0 = now;
        vi.drain().poll(9, |_, _, _| {});
        Ok(now)
    }

    /// Asks for a while, in which less than `end` arrives.
    async fn stays_below(&mut self, side: &Side, vi: &Vi, end: Position) -> Outcome {
        let until = side.nic.now() + side.profile.quiet;
        poll_fn(|_| match self.ask(vi) {
            Ok(now) if now >= end => {
                let what = format!("{now:?} has arrived, and {end:?} was not drained");
                Poll::Ready(Err(Wrong::new(what)))
            }
            Ok(_) if side.nic.now() < until => side.look_again(),
            asked => Poll::Ready(asked.map(drop)),
        })
        .await
    }

    /// Asks until this position has arrived, which it must.
    async fn comes_to(&mut self, side: &Side, vi: &Vi, end: Position) -> Outcome {
        let all = poll_fn(|_| match self.ask(vi) {
            Ok(now) if now < end => side.look_again(),
            asked => Poll::Ready(asked.map(drop)),
        });
        side.must("the arrival of all", all).await?
    }
}

/// Waits for the other side to come, and does something time and again until then.
async fn meet_doing(side: &Side, mut what: impl FnMut()) -> Outcome {
    let mut meeting = pin!(side.meet());
    poll_fn(|context| {
        what();
        meeting.as_mut().poll(context)
    })
    .await
}

/// The same, draining: who is asked how far it is answers when it drains.
async fn meet_draining(side: &Side, vi: &Vi) -> Outcome {
    meet_doing(side, || {
        vi.drain().poll(9, |_, _, _| {});
    })
    .await
}

/// What has arrived is what was drained: nothing before it is, and all in the end, of this lane
/// alone. It does not become less when the connection has ended.
async fn arrived(side: &Side) -> Outcome {
    let vi = side.pair("arrived").await?;
    // Where messages may be lost nobody knows which ones are drained first.
    let is_known = side.level.is_reliable() || !side.profile.lossy;
    if !side.is_caller() {
        side.meet().await?;
        drop(drained(side, vi.drain(), if is_known { 3 } else { 0 }).await?);
        side.meet().await?;
        side.meet().await?;
        return meet_draining(side, &vi).await;
    }
    let [before, beside] = Lane::ALL.map(|lane| vi.arrived(lane));
    let mut known = Known(before);
    let mut positions = vec![before];
    for number in 0..6 {
        let next = send(side, &vi, Lane::Talk, number, 60).await?;
        let last = positions[positions.len() - 1];
        check!(next > last, "positions that grow: {next:?} after {last:?}");
        positions.push(next);
    }
    known.stays_below(side, &vi, positions[1]).await?;
    side.meet().await?;
    side.meet().await?;
    let behind = if is_known { positions[4] } else { positions[1] };
    known.stays_below(side, &vi, behind).await?;
    side.meet().await?;
    known.comes_to(side, &vi, positions[6]).await?;
    for number in 6..40 {
        let position = send(side, &vi, Lane::Talk, number, 60).await?;
        known.comes_to(side, &vi, position).await?;
    }
    check_eq!(vi.arrived(Lane::Bulk), beside, "what has arrived of a lane that nobody uses");
    side.meet().await?;
    vi.disconnect();
    known.ask(&vi).map(drop)
}

/// Messages that are sent while nobody drains: more than a lane holds.
const BURST: u64 = 320;
/// How many of them between two meetings: few, for the other side to take off the link.
const AT_ONCE: u64 = 10;
const BURST_LEN: usize = 1_000;

/// The caller sends more than the lane holds, and is never refused. The last position.
async fn burst(side: &Side, vi: &Vi) -> Result<Position, Wrong> {
    let mut last = Position::default();
    for number in 0..BURST {
        if side.is_caller() {
            last = vi.send_eager(Lane::Talk, number, &[&[1; BURST_LEN]])?;
        }
        if (number + 1) % AT_ONCE == 0 {
            side.meet().await?;
        }
    }
    if !side.is_caller() {
        // All are here, or lost, before the first is drained.
        side.pause(side.profile.quiet).await;
    }
    Ok(last)
}

/// Where messages were dropped, what has arrived goes on past them.
async fn arrived_past_drops(side: &Side) -> Outcome {
    let vi = side.pair("drops").await?;
    let mut last = burst(side, &vi).await?;
    if !side.is_caller() {
        return meet_draining(side, &vi).await;
    }
    let mut known = Known(Position::default());
    known.comes_to(side, &vi, last).await?;
    for number in 0..50 {
        last = vi.send_eager(Lane::Talk, number, &[&[1; 50]])?;
    }
    known.comes_to(side, &vi, last).await?;
    side.meet().await
}

/// The tag of a message that says what the caller has sent and dropped.
const TOLD: u64 = u64::MAX;

/// At the unreliable level a message that there is no room for is dropped, and counted by the side
/// that drops it: on a link that loses nothing every message is drained or counted.
async fn never_full(side: &Side) -> Outcome {
    let vi = side.pair("never full").await?;
    burst(side, &vi).await?;
    if side.is_caller() {
        let (mut sent, mut next) = (BURST, side.nic.now());
        let tell = || {
            vi.drain().poll(9, |_, _, _| {});
            if side.nic.now() >= next {
                next = side.nic.now() + TELL_EVERY;
                sent += 1;
                let dropped = vi.counters().dropped;
                let told = [sent.to_le_bytes(), dropped.to_le_bytes()].concat();
                // Without room the next one says so.
                let _ = vi.send_eager(Lane::Talk, TOLD, &[&told]);
            }
        };
        meet_doing(side, tell).await?;
    } else {
        count_dropped(side, &vi).await?;
        side.meet().await?;
    }
    check_eq!(vi.error(), None, "the error state");
    side.meet().await
}

/// How often the caller says what it has dropped.
const TELL_EVERY: Duration = Duration::from_millis(2);

/// Drains until some messages are counted as dropped, and none is missing that the caller has sent.
async fn count_dropped(side: &Side, vi: &Vi) -> Outcome {
    let (mut drained, mut seen) = (0, None);
    let next = |drained: &mut u64| {
        let mut told = None;
        let came = vi.drain().poll(1, |_, tag, bytes| {
            let (words, _) = bytes.as_chunks();
            if let (TOLD, &[sent, dropped]) = (tag, words) {
                told = Some([sent, dropped].map(u64::from_le_bytes));
            }
        });
        *drained += came as u64;
        if came == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(told) }
    };
    let all = poll_fn(|_| {
        while let ControlFlow::Continue(told) = next(&mut drained) {
            let Some([sent, there]) = told else { continue };
            let dropped = there.saturating_add(vi.counters().dropped);
            seen = Some((sent, drained, dropped));
            let is_all = side.profile.lossy || sent == drained.saturating_add(dropped);
            if dropped > 0 && is_all {
                return Poll::Ready(());
            }
        }
        side.look_again()
    });
    // Sooner than the caller gives up, which knows less.
    let limit = side.profile.patience / 2;
    side.within("messages dropped and counted", limit, all).await.map_err(|_| {
        Wrong::new(match seen {
            None => format!("no word of what the caller has dropped; {drained} messages drained"),
            Some((sent, drained, dropped)) => {
                format!("{sent} messages sent, {drained} drained and {dropped} counted as dropped")
            }
        })
    })
}

/// A message of talk waits for few of bulk, however many are there.
async fn urgent(side: &Side) -> Outcome {
    let vi = side.pair("urgent").await?;
    if side.is_caller() {
        while vi.send_eager(Lane::Bulk, 0, &[&[7; 100]]).is_ok() {}
        send(side, &vi, Lane::Talk, 1, 40).await?;
        side.pause(side.profile.quiet).await;
        side.meet().await?;
        return side.meet().await;
    }
    side.meet().await?;
    let mut before = 0;
    while drained(side, vi.drain(), 1).await?.remove(0).tag == 0 {
        before += 1;
    }
    // What a link loses comes later than what was sent after it.
    let is_soon = before <= BULK_AHEAD || side.profile.lossy;
    check!(is_soon, "{before} messages of bulk drained before one of talk that was there");
    side.meet().await
}

/// Messages of bulk that may be drained before one of talk: where both lanes are one stream, as
/// many as bulk may have under way.
const BULK_AHEAD: usize = 4;

/// Bytes of what goes beside talk: much more than any fabric has under way at once.
const BULK: usize = 32 << 20;
/// How often talk may come behind bulk, for this side did not run for so long.
const TRIES: u64 = 10;
/// The tag of talk that ends the case.
const OVER: u64 = u64::MAX;

/// While a large message, a large remote read and a large remote write are under way, talk gets
/// there and is answered before one of them is complete.
async fn beside_bulk(side: &Side) -> Outcome {
    let vi = side.pair("bulk").await?;
    let len = side.profile.largest.min(BULK);
    if !side.is_caller() {
        let pool = side.another_pool(len, 1)?;
        let memory = exposed(side, &pool, 1, len, Access::READ_WRITE)?;
        give(side, &vi, &[memory.key()]).await?;
        while answer_beside_bulk(side, &vi, len).await? != OVER {}
        drop(memory);
        return side.meet().await;
    }
    let [key] = keys(side, &vi).await?;
    let mut tries = 0;
    loop {
        let is_first = talk_beside_bulk(side, &vi, key, len).await?;
        tries += 1;
        // What is smaller may be under way as a whole, before the talk.
        let is_over = is_first || len < BULK;
        check!(is_over || tries < TRIES, "talk behind bulk of {len} bytes, {tries} times");
        send(side, &vi, Lane::Talk, if is_over { OVER } else { tries }, 0).await?;
        if is_over {
            return side.meet().await;
        }
    }
}

/// Whether talk is answered before any of what is under way beside it is complete.
async fn talk_beside_bulk(side: &Side, vi: &Vi, key: RemoteKey, len: usize) -> Result<bool, Wrong> {
    side.meet().await?;
    // The peer's receive is known by then, so that the message begins at once.
    side.pause(side.profile.quiet).await;
    vi.post_send(Descriptor::new(vec![1_u8; len]))?;
    vi.post_read(Descriptor::new(vec![0_u8; len]), key.at(0))?;
    vi.post_write(Descriptor::new(vec![2_u8; len]), key.at(0))?;
    // What a fabric does while it is posted is not under way.
    let next = || vi.send_queue().poll();
    let mut complete: Vec<Completion> = iter::from_fn(next).collect();
    vi.send_eager(Lane::Talk, 0, &[b"talk"])?;
    let (at_once, mut complete_before) = (complete.len(), None);
    let all = poll_fn(|_| {
        let answers = vi.drain().poll(1, |_, _, _| {});
        complete.extend(iter::from_fn(next));
        if answers > 0 {
            // What is seen at once with the answer may have been before it.
            complete_before = Some(complete.len());
        }
        if complete.len() == 3 && complete_before.is_some() {
            return Poll::Ready(());
        }
        side.look_again()
    });
    side.must("an answer to talk, and the end of bulk", all).await?;
    for done in complete {
        check_eq!(done.ok()?.len, len as u64, "bytes of bulk");
    }
    side.meet().await?;
    Ok(complete_before == Some(at_once) && at_once < 3)
}

/// Answers talk while a large message comes. The tag of what is said then.
async fn answer_beside_bulk(side: &Side, vi: &Vi, len: usize) -> Result<u64, Wrong> {
    vi.post_recv(Descriptor::new(vec![0_u8; len]))?;
    side.meet().await?;
    let (mut answered, mut received) = (None, None);
    let all = poll_fn(|_| {
        vi.drain().poll(1, |reply, tag, bytes| {
            answered = Some(reply.send(Lane::Talk, tag, &[bytes]));
        });
        received = received.take().or_else(|| vi.recv_queue().poll());
        if answered.is_some() && received.is_some() {
            return Poll::Ready(());
        }
        side.look_again()
    });
    side.must("talk, and a large message", all).await?;
    check_is!(answered, Some(Ok(_)), "an answer");
    let received = received.ok_or_else(|| Wrong::new("no large message"))?;
    check_eq!(received.ok()?.len, len as u64, "bytes of the large message");
    side.meet().await?;
    Ok(drained(side, vi.drain(), 1).await?.remove(0).tag)
}
