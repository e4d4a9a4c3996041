//! Buffers that are given away: they arrive, as they are or as a copy, and are home
//! in the end. Which of the two it was nobody can tell by anything else.

use std::future::poll_fn;
use std::task::Poll;

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq, check_is};
use super::death::be_killed;
use super::levels::broken;
use super::pattern;
use super::side::Side;
use crate::buf::{Buf, Plain, Pool};
use crate::vi::{Completion, Descriptor, Handed, OpKind, PostError, Segment, Vi, ViError};

list! { "hand_over":
    Reliable arrives,
    Reliable in_order,
    Reliable into_posted_memory,
    Reliable typed,
    Reliable other_type,
    Reliable too_long,
    Reliable cancelled,
    Once refused,
    Reliable back_and_forth,
    Reliable disconnected,
    Lossless dropped_and_home,
    Kills killed,
}

const SIZES: [usize; 9] = [0, 1, 32, 33, 64, 4_096, 65_536, 65_537, 1 << 20];
const ANY: u64 = 1 << 40;

/// A buffer with the bytes that belong to `seed`, as soon as there is one.
async fn filled(side: &Side, pool: &Pool, seed: u64, len: usize) -> Result<Buf, Wrong> {
    let taken = poll_fn(|_| pool.take(len).map_or_else(|_| side.look_again(), Poll::Ready));
    let mut buf = side.must("a free buffer", taken).await?;
    pattern::fill(seed, buf.bytes_mut());
    Ok(buf)
}

/// The next send completes as a hand-over of so many bytes, without memory.
async fn given(side: &Side, vi: &Vi, tag: u64, len: usize) -> Outcome {
    let sent = side.done(vi.send_queue()).await?;
    let seen = (sent.op, sent.tag, sent.len);
    check_eq!(seen, (OpKind::Send, tag, len as u64), "the completion of a hand-over");
    check_eq!(sent.descriptor().segment_count(), 0, "memory that was given away");
    Ok(())
}

/// The next receive, posted for a hand-over.
async fn got(side: &Side, vi: &Vi, tag: u64, len: usize) -> Result<Handed, Wrong> {
    let got = side.done(vi.recv_queue()).await?;
    let seen = (got.op, got.tag, got.len);
    check_eq!(seen, (OpKind::Recv, tag, len as u64), "what was handed over");
    let handed = got.into_handed();
    check_eq!(handed.len(), len, "bytes handed over");
    Ok(handed)
}

/// Both sides are done: whatever was given away is home.
async fn end(side: &Side, vi: Vi) -> Outcome {
    side.meet().await?;
    drop(vi);
    side.home().await
}

async fn arrives(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("arrives").await?, side.commons()?);
    for len in SIZES.into_iter().filter(|len| *len <= side.profile.largest) {
        let seed = !(len as u64);
        if side.is_caller() {
            vi.hand_over(filled(side, &pool, seed, len).await?, seed)?;
            given(side, &vi, seed, len).await?;
        } else {
            vi.post_recv(Descriptor::handed(if len % 2 == 0 { ANY } else { len as u64 }))?;
            let mut handed = got(side, &vi, seed, len).await?;
            pattern::verify(seed, &handed)?;
            handed.fill(7);
        }
    }
    end(side, vi).await
}

/// Hand-overs, sends and remote writes are received as they were posted, whatever
/// the receives are.
async fn in_order(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("order").await?, side.commons()?);
    let count = side.profile.messages.min(90);
    let len_of = |number: u64| usize::try_from(number * 1_013 % 4_000).unwrap_or(0);
    if side.is_caller() {
        for number in 0..count {
            let len = len_of(number);
            if number % 3 == 0 {
                side.post_send(&vi, number, len)?;
                check_eq!(side.done(vi.send_queue()).await?.tag, number, "a send");
            } else {
                vi.hand_over(filled(side, &pool, number, len).await?, number)?;
                given(side, &vi, number, len).await?;
            }
        }
        return end(side, vi).await;
    }
    let receive = |number: u64| {
        let descriptor = match number % 4 {
            0 => Descriptor::fresh(ANY),
            1 => Descriptor::new(side.pool.take(4_000)?),
            _ => Descriptor::handed(4_000),
        };
        vi.post_recv(descriptor)?;
        Ok::<_, Wrong>(())
    };
    let ahead = 8.min(count);
    (0..ahead).try_for_each(receive)?;
    for number in 0..count {
        let got = side.done(vi.recv_queue()).await?;
        let seen = (got.tag, got.len);
        check_eq!(seen, (number, len_of(number) as u64), "message {number}");
        pattern::verify(number, &received(&got))?;
        if number + ahead < count {
            receive(number + ahead)?;
        }
    }
    end(side, vi).await
}

/// The bytes, whatever they were received into.
fn received(got: &Completion) -> Vec<u8> {
    let len = usize::try_from(got.len).unwrap_or(usize::MAX);
    let segments = got.descriptor().segments();
    segments.flat_map(Segment::bytes).take(len).copied().collect()
}

async fn into_posted_memory(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("copied").await?, side.commons()?);
    for (seed, len) in [(1, 20), (2, 3_000), (3, 70_000)] {
        for pieces in 0..4 {
            if side.is_caller() {
                vi.hand_over(filled(side, &pool, seed, len).await?, seed)?;
                given(side, &vi, seed, len).await?;
                continue;
            }
            let descriptor = match pieces {
                0 => Descriptor::new(vec![UNTOUCHED; len + 5]),
                1 => Descriptor::new(side.pool.take(7)?).and(vec![UNTOUCHED; len]),
                2 => Descriptor::new(side.pool.take(len)?),
                _ => Descriptor::fresh(ANY),
            };
            vi.post_recv(descriptor)?;
            let got = side.done(vi.recv_queue()).await?;
            check_eq!((got.tag, got.len), (seed, len as u64), "a hand-over that is copied");
            let behind = got.descriptor().segments().last().map_or(&[][..], Segment::bytes);
            let behind = behind.last() == Some(&UNTOUCHED);
            check!(behind || pieces > 1, "memory after the message was written");
            pattern::verify(seed, &received(&got))?;
        }
    }
    end(side, vi).await
}

const UNTOUCHED: u8 = 0xee;

async fn typed(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("types").await?, side.commons()?);
    let floats: Vec<f64> = (0..100).map(|i| f64::from(i) / 3.0).collect();
    let size = size_of_val(&floats[..]);
    if side.is_caller() {
        for tag in 0..4 {
            let mut typed = pool.take_typed::<f64>(floats.len())?;
            typed.copy_from_slice(&floats);
            vi.hand_over_typed(typed, tag)?;
            given(side, &vi, tag, size).await?;
        }
        return end(side, vi).await;
    }
    vi.post_recv(Descriptor::handed(ANY).of_kind(f64::kind()))?;
    vi.post_recv(Descriptor::handed(ANY))?;
    vi.post_recv(Descriptor::new(Segment::fresh::<f64>(ANY)).of_kind(f64::kind()))?;
    vi.post_recv(Descriptor::typed(side.pool.take_typed::<f64>(200)?))?;
    for tag in 0..4 {
        let got = side.done(vi.recv_queue()).await?;
        check_eq!((got.tag, &got.kind), (tag, &Some(f64::kind())), "the type of a hand-over");
        let seen: Vec<f64> = match tag {
            2 => got.into_vec(),
            3 => got.into_typed::<f64>()?.to_vec(),
            _ => got.into_handed().as_chunks().0.iter().map(|b| f64::from_ne_bytes(*b)).collect(),
        };
        check_eq!(seen, floats, "the elements");
    }
    end(side, vi).await
}

async fn other_type(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("types").await?, side.commons()?);
    let why = ViError::TypeMismatch { sent: f32::kind(), posted: u32::kind() };
    if side.is_caller() {
        vi.hand_over_typed(pool.take_typed::<f32>(10)?, 1)?;
        broken(side, &vi, &why, (1, 0)).await?;
    } else {
        vi.post_recv(Descriptor::handed(ANY).of_kind(u32::kind()))?;
        broken(side, &vi, &why, (0, 1)).await?;
    }
    end(side, vi).await
}

async fn too_long(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("too long").await?, side.commons()?);
    let why = ViError::TooLong { sent: 3_001, posted: 3_000 };
    if side.is_caller() {
        vi.hand_over(filled(side, &pool, 1, 3_000).await?, 1)?;
        given(side, &vi, 1, 3_000).await?;
        vi.hand_over(filled(side, &pool, 2, 3_001).await?, 2)?;
        vi.hand_over(filled(side, &pool, 3, 10).await?, 3)?;
        broken(side, &vi, &why, (2, 0)).await?;
    } else {
        for _ in 0..3 {
            vi.post_recv(Descriptor::handed(3_000))?;
        }
        pattern::verify(1, &got(side, &vi, 1, 3_000).await?)?;
        broken(side, &vi, &why, (0, 2)).await?;
    }
    end(side, vi).await
}

async fn cancelled(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("cancel").await?, side.commons()?);
    if !side.is_caller() {
        side.meet().await?;
        vi.post_recv(Descriptor::handed(ANY))?;
        pattern::verify(2, &got(side, &vi, 2, 200).await?)?;
        return end(side, vi).await;
    }
    let first = vi.hand_over(filled(side, &pool, 1, 100).await?, 1)?;
    let second = vi.hand_over(filled(side, &pool, 2, 200).await?, 2)?;
    check!(vi.cancel(first), "a hand-over that had not begun was not cancelled");
    let back = side.next(vi.send_queue()).await?;
    check_eq!((back.ticket, back.tag), (first, 1), "the cancelled one");
    check_eq!(back.status, Err(ViError::Cancelled), "its status");
    pattern::verify(1, back.into_buf().bytes())?;
    side.meet().await?;
    given(side, &vi, 2, 200).await?;
    check!(!vi.cancel(second), "a hand-over was cancelled that was done");
    end(side, vi).await
}

/// What is refused comes back, and is no hand-over any more.
async fn refused(side: &Side) -> Outcome {
    let mut options = side.options();
    options.send_queue = Some(side.nic.completion_queue(1));
    let (vi, pool) = (side.pair_with("refused", &options).await?, side.commons()?);
    if !side.is_caller() {
        side.meet().await?;
        for tag in [1, 2] {
            vi.post_recv(Descriptor::handed(ANY))?;
            pattern::verify(tag, &got(side, &vi, tag, 500).await?)?;
        }
        return end(side, vi).await;
    }
    vi.hand_over(filled(side, &pool, 1, 500).await?, 1)?;
    let again = vi.hand_over(filled(side, &pool, 2, 500).await?, 2).err();
    let again = again.ok_or_else(|| Wrong::new("two places promised of one"))?;
    check_eq!(again.why, PostError::CompletionsFull { capacity: 1 }, "a second hand-over");
    side.meet().await?;
    given(side, &vi, 1, 500).await?;
    vi.post_send(again.what)?;
    let sent = side.done(vi.send_queue()).await?;
    pattern::verify(2, sent.into_buf().bytes())?;
    vi.disconnect();
    let late = vi.hand_over(filled(side, &pool, 3, 500).await?, 3).err();
    check_is!(
        late.map(|late| (late.why, late.what.len())),
        Some((PostError::Broken(ViError::Closed), 500)),
        "a hand-over after the end"
    );
    end(side, vi).await
}

/// One buffer, or what is in it, a hundred times there and back.
async fn back_and_forth(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("ball").await?, side.commons()?);
    let mut ball = None;
    if side.is_caller() {
        ball = Some(filled(side, &pool, 0, BALL).await?);
    }
    vi.post_recv(Descriptor::handed(ANY))?;
    for turn in 0..200 {
        if side.is_caller() == (turn % 2 == 0) {
            let ball = ball.take().ok_or_else(|| Wrong::new("no ball"))?;
            vi.hand_over(ball, turn)?;
            given(side, &vi, turn, BALL).await?;
            continue;
        }
        let handed = got(side, &vi, turn, BALL).await?;
        pattern::verify(turn, &handed)?;
        let mut buf = match handed.into_buf() {
            Ok(buf) => buf,
            Err(_) => filled(side, &pool, 0, BALL).await?,
        };
        pattern::fill(turn + 1, buf.bytes_mut());
        ball = Some(buf);
        vi.post_recv(Descriptor::handed(ANY))?;
    }
    drop(ball);
    end(side, vi).await
}

const BALL: usize = 5_000;

/// Each side hands over what the other does not receive; the answerer keeps what
/// it got.
async fn disconnected(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("over").await?, side.commons()?);
    let mut kept = Vec::new();
    if side.is_caller() {
        for tag in 1..=5 {
            vi.hand_over(filled(side, &pool, tag, 3_000).await?, tag)?;
        }
        given(side, &vi, 1, 3_000).await?;
        given(side, &vi, 2, 3_000).await?;
    } else {
        for tag in 3..=5 {
            vi.hand_over(filled(side, &pool, tag, 3_000).await?, tag)?;
        }
        vi.post_recv(Descriptor::handed(ANY))?;
        vi.post_recv(Descriptor::handed(ANY))?;
        kept.push(got(side, &vi, 1, 3_000).await?);
        kept.push(got(side, &vi, 2, 3_000).await?);
    }
    side.meet().await?;
    if side.is_caller() {
        vi.disconnect();
    }
    let why = if side.is_caller() { ViError::Closed } else { ViError::ClosedByPeer };
    for tag in 3..=5 {
        let back = side.next(vi.send_queue()).await?;
        check_eq!((back.tag, &back.status), (tag, &Err(why.clone())), "what had not begun");
        pattern::verify(tag, back.into_buf().bytes())?;
    }
    drop(vi);
    side.meet().await?;
    for (handed, seed) in kept.iter_mut().zip(1..) {
        pattern::verify(seed, handed)?;
        handed.fill(0);
    }
    drop(kept);
    side.home().await
}

/// What nobody receives goes home though the connection lives.
async fn dropped_and_home(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("dropped").await?, side.commons()?);
    if side.is_caller() {
        for tag in 0..3 {
            vi.hand_over(filled(side, &pool, tag, 150).await?, tag)?;
            given(side, &vi, tag, 150).await?;
        }
        side.meet().await?;
        side.home().await?;
        side.meet().await?;
        return end(side, vi).await;
    }
    side.meet().await?;
    let all = poll_fn(|_| match vi.counters().dropped {
        3.. => Poll::Ready(()),
        _ => side.look_again(),
    });
    side.must("three messages dropped", all).await?;
    side.meet().await?;
    end(side, vi).await
}

/// The answerer has two, and is to get a third.
async fn killed(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("dying").await?, side.commons()?);
    if !side.is_caller() {
        vi.post_recv(Descriptor::handed(ANY))?;
        vi.post_recv(Descriptor::handed(ANY))?;
        let _kept = [got(side, &vi, 1, 900).await?, got(side, &vi, 2, 900).await?];
        side.meet().await?;
        return be_killed(side).await;
    }
    for tag in 1..=3 {
        vi.hand_over(filled(side, &pool, tag, 900).await?, tag)?;
    }
    given(side, &vi, 1, 900).await?;
    given(side, &vi, 2, 900).await?;
    side.meet().await?;
    side.kill_peer()?;
    let back = side.next(vi.send_queue()).await?;
    check_is!(back.status, Err(ViError::PeerDied { .. }), "what had not begun");
    pattern::verify(3, back.into_buf().bytes())?;
    side.home().await
}
