//! What the reliable levels promise, and how they end when it cannot be kept.

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq, check_is};
use super::pattern;
use super::side::Side;
use crate::buf::Plain;
use crate::vi::{Descriptor, PostError, Vi, ViError};

list! { "levels":
    Reception complete_when_received,
    Reliable too_long,
    Reliable other_type,
    Reliable counted,
}

async fn complete_when_received(side: &Side) -> Outcome {
    let vi = side.pair("received").await?;
    for (number, len) in [(1, 0), (2, 100), (3, 100_000)] {
        if side.is_caller() {
            side.meet().await?;
            side.post_send(&vi, number, len)?;
            drop(side.done(vi.send_queue()).await?);
            side.meet().await?;
        } else {
            side.post_recv(&vi, len)?;
            side.meet().await?;
            // The other side's send is complete now, so the message must be here.
            side.meet().await?;
            let got = vi.recv_queue().poll();
            let got = got.ok_or_else(|| Wrong::new("a send completed before it was received"))?;
            check_eq!((got.tag, got.len), (number, len as u64), "the message");
            pattern::verify(number, got.ok()?.into_buf().bytes())?;
        }
    }
    side.meet().await
}

async fn too_long(side: &Side) -> Outcome {
    let vi = side.pair("too long").await?;
    let why = ViError::TooLong { sent: 101, posted: 100 };
    if side.is_caller() {
        side.post_send(&vi, 0, 50)?;
        check_eq!(side.done(vi.send_queue()).await?.tag, 0, "the message that fits");
        side.meet().await?;
        side.post_recv(&vi, 10)?;
        side.post_send(&vi, 1, 101)?;
        side.post_send(&vi, 2, 100)?;
    } else {
        for len in [60, 100, 100] {
            side.post_recv(&vi, len)?;
        }
        drop(side.done(vi.recv_queue()).await?);
        side.meet().await?;
    }
    broken(side, &vi, &why, if side.is_caller() { (2, 1) } else { (0, 2) }).await
}

async fn other_type(side: &Side) -> Outcome {
    let vi = side.pair("types").await?;
    let why = ViError::TypeMismatch { sent: f32::kind(), posted: u32::kind() };
    if side.is_caller() {
        for number in 0..3 {
            let floats = side.pool.take_typed::<f32>(10)?;
            vi.post_send(Descriptor::typed(floats))?;
            if number < 2 {
                drop(side.done(vi.send_queue()).await?);
            }
        }
    } else {
        vi.post_recv(Descriptor::new(side.pool.take(100)?))?;
        vi.post_recv(Descriptor::typed(side.pool.take_typed::<f32>(10)?))?;
        vi.post_recv(Descriptor::typed(side.pool.take_typed::<u32>(10)?))?;
        check_eq!(side.done(vi.recv_queue()).await?.len, 40, "received without a type");
        check_eq!(side.done(vi.recv_queue()).await?.len, 40, "received with the same type");
    }
    let outstanding = if side.is_caller() { (1, 0) } else { (0, 1) };
    broken(side, &vi, &why, outstanding).await?;
    let said = why.to_string();
    check!(said.contains("f32") && said.contains("u32"), "{said:?} does not name both types");
    Ok(())
}

/// So many sends and receives fail for this reason, and the connection is in
/// the error state.
pub(super) async fn broken(
    side: &Side,
    vi: &Vi,
    why: &ViError,
    (sends, receives): (usize, usize),
) -> Outcome {
    for (queue, count) in [(vi.send_queue(), sends), (vi.recv_queue(), receives)] {
        for _ in 0..count {
            let failed = side.next(queue).await?;
            check_eq!(failed.status, Err(why.clone()), "{:?} {:?}", failed.op, failed.ticket);
        }
        check_eq!(queue.outstanding(), 0, "descriptors outstanding after the error");
    }
    check_eq!(vi.error(), Some(why.clone()), "the error state");
    let later = [vi.post_send(Descriptor::empty()), vi.post_recv(Descriptor::empty())];
    for refused in later {
        let reason = refused.err().map(|refused| refused.why);
        check_is!(reason, Some(PostError::Broken(named)) if named == why, "a later post");
    }
    side.meet().await
}

async fn counted(side: &Side) -> Outcome {
    let vi = side.pair("counters").await?;
    for number in 0..5 {
        if side.is_caller() {
            side.post_send(&vi, number, 10)?;
            drop(side.done(vi.send_queue()).await?);
        } else {
            side.post_recv(&vi, 10)?;
            drop(side.done(vi.recv_queue()).await?);
        }
    }
    side.meet().await?;
    let counters = vi.counters();
    let expected = if side.is_caller() { (5, 0, 0) } else { (0, 5, 0) };
    check_eq!((counters.sent, counters.received, counters.dropped), expected, "the counters");
    side.meet().await
}
