//! Back-pressure: what happens when one side is not ready.

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq, check_is};
use super::pattern;
use super::side::Side;
use crate::rt::GivenBack;
use crate::vi::{Descriptor, PostError, ViError, ViOptions};

list! { "pressure":
    Reliable sends_wait_for_receives,
    Once full_queue_of_sends,
    Every full_queue_of_receives,
    Once full_completions,
    Reliable cancelled_sends,
    Reliable cancelled_receives,
}

async fn sends_wait_for_receives(side: &Side) -> Outcome {
    let vi = side.pair("wait").await?;
    let numbers = 1..=3;
    if side.is_caller() {
        for number in numbers.clone() {
            side.post_send(&vi, number, 3_000)?;
        }
        side.quiet(vi.send_queue()).await?;
        side.meet().await?;
        for number in numbers {
            check_eq!(side.done(vi.send_queue()).await?.tag, number, "the order of sends");
        }
        return side.meet().await;
    }
    side.meet().await?;
    for number in numbers {
        side.post_recv(&vi, 3_000)?;
        let got = side.done(vi.recv_queue()).await?;
        check_eq!(got.tag, number, "a message that had to wait");
        pattern::verify(number, got.into_buf().bytes())?;
        side.quiet(vi.recv_queue()).await?;
    }
    side.meet().await
}

/// With room for more completions than the queues of a connection hold.
fn roomy(side: &Side) -> ViOptions {
    let room = side.nic.limits().queue_depth as usize + 10;
    let mut options = side.options();
    options.send_queue = Some(side.nic.completion_queue(room));
    options.recv_queue = Some(side.nic.completion_queue(room));
    options
}

async fn full_queue_of_sends(side: &Side) -> Outcome {
    let vi = side.pair_with("full", &roomy(side)).await?;
    let depth = side.nic.limits().queue_depth;
    if side.is_caller() {
        for number in 0..u64::from(depth) {
            vi.post_send(Descriptor::empty().with_tag(number))?;
        }
        let extra = side.buf(7, 100)?;
        let refused = vi.post_send(Descriptor::new(extra)).err();
        full(refused, depth)?;
        side.meet().await?;
        for number in 0..u64::from(depth) {
            check_eq!(side.done(vi.send_queue()).await?.tag, number, "send {number}");
        }
        vi.post_send(Descriptor::empty().with_tag(u64::MAX))?;
        drop(side.done(vi.send_queue()).await?);
        return side.meet().await;
    }
    side.meet().await?;
    for number in (0..u64::from(depth)).chain([u64::MAX]) {
        vi.post_recv(Descriptor::empty())?;
        check_eq!(side.done(vi.recv_queue()).await?.tag, number, "message {number}");
    }
    side.meet().await
}

async fn full_queue_of_receives(side: &Side) -> Outcome {
    let vi = side.pair_with("full", &roomy(side)).await?;
    let depth = side.nic.limits().queue_depth;
    for _ in 0..depth {
        vi.post_recv(Descriptor::empty())?;
    }
    full(vi.post_recv(Descriptor::new(side.buf(7, 100)?)).err(), depth)?;
    check_eq!(vi.recv_queue().outstanding(), depth as usize, "receives outstanding");
    side.meet().await
}

/// The post was refused because the queue is full, and the buffer is back.
fn full(refused: Option<GivenBack<Descriptor, PostError>>, depth: u32) -> Outcome {
    let refused = refused.ok_or_else(|| Wrong::new(format!("more than {depth} were taken")))?;
    check_eq!(refused.why, PostError::Full { depth }, "a post on a full queue");
    let back = refused.what.into_segments().next();
    let back = back.and_then(|segment| segment.into_buf().ok());
    check!(back.is_some_and(|buf| pattern::verify(7, buf.bytes()).is_ok()), "no buffer came back");
    Ok(())
}

async fn full_completions(side: &Side) -> Outcome {
    let mut options = side.options();
    let queue = side.nic.completion_queue(2);
    options.recv_queue = Some(queue.clone());
    let vi = side.pair_with("two", &options).await?;
    if side.is_caller() {
        for number in 0..3 {
            side.post_send(&vi, number, 10)?;
        }
        for _ in 0..3 {
            drop(side.done(vi.send_queue()).await?);
        }
        return side.meet().await;
    }
    side.post_recv(&vi, 10)?;
    side.post_recv(&vi, 10)?;
    let refused = vi.post_recv(Descriptor::new(side.pool.take(10)?)).err();
    let refused = refused.ok_or_else(|| Wrong::new("three places promised of two"))?;
    check_eq!(refused.why, PostError::CompletionsFull { capacity: 2 }, "a third receive");
    check_eq!(refused.what.len(), 10, "the descriptor that came back");
    // A completion that is ready still has its place; one that is taken has not.
    drop(side.done(&queue).await?);
    vi.post_recv(refused.what)?;
    for number in [1, 2] {
        check_eq!(side.done(&queue).await?.tag, number, "message {number}");
    }
    side.meet().await
}

async fn cancelled_sends(side: &Side) -> Outcome {
    let vi = side.pair("cancel").await?;
    if !side.is_caller() {
        side.meet().await?;
        side.post_recv(&vi, 500)?;
        let got = side.done(vi.recv_queue()).await?;
        check_eq!((got.tag, got.len), (2, 200), "the message that was not cancelled");
        side.quiet(vi.recv_queue()).await?;
        return side.meet().await;
    }
    let first = vi.post_send(Descriptor::new(side.buf(1, 100)?).with_tag(1))?;
    let second = vi.post_send(Descriptor::new(side.buf(2, 200)?).with_tag(2))?;
    check!(first < second, "tickets do not count up");
    check!(vi.cancel(first), "a send that had not begun was not cancelled");
    check!(!vi.cancel(first), "a send was cancelled twice");
    let back = side.next(vi.send_queue()).await?;
    check_eq!((back.ticket, back.tag), (first, 1), "the cancelled send");
    check_eq!(back.status, Err(ViError::Cancelled), "a cancelled send's status");
    pattern::verify(1, back.into_buf().bytes())?;
    side.meet().await?;
    check_eq!(side.done(vi.send_queue()).await?.ticket, second, "the other send");
    check!(!vi.cancel(second), "a send was cancelled that was done");
    side.meet().await
}

async fn cancelled_receives(side: &Side) -> Outcome {
    let vi = side.pair("cancel").await?;
    if side.is_caller() {
        side.meet().await?;
        side.post_send(&vi, 5, 150)?;
        side.post_send(&vi, 6, 100)?;
        side.meet().await?;
        for tag in [5, 6] {
            check_eq!(side.done(vi.send_queue()).await?.tag, tag, "the order of sends");
        }
        return side.meet().await;
    }
    let first = vi.post_recv(Descriptor::new(side.pool.take(100)?))?;
    let second = vi.post_recv(Descriptor::new(side.pool.take(200)?))?;
    check!(vi.cancel(first), "a receive that nothing had begun to fill was not cancelled");
    let back = side.next(vi.recv_queue()).await?;
    check_eq!((back.ticket, &back.status), (first, &Err(ViError::Cancelled)), "the cancelled one");
    check_eq!(back.descriptor().len(), 100, "the memory of the cancelled one");
    side.meet().await?;
    let got = side.done(vi.recv_queue()).await?;
    check_eq!((got.ticket, got.tag), (second, 5), "the first message");
    check_is!(vi.cancel(second), false, "cancelling a receive that is done");
    pattern::verify(5, got.into_buf().bytes())?;
    side.meet().await?;
    side.quiet(vi.recv_queue()).await?;
    side.post_recv(&vi, 100)?;
    let got = side.done(vi.recv_queue()).await?;
    check_eq!(got.tag, 6, "the message after");
    pattern::verify(6, got.into_buf().bytes())?;
    side.meet().await
}
