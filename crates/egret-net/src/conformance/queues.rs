//! Completion queues, and every way to hear of a completion.

use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq, check_is};
use super::pattern;
use super::side::Side;
use crate::buf::Buf;
use crate::rt::Deadline;
use crate::vi::{Completion, Descriptor, OpKind, Vi, ViError};

list! { "queues":
    Once shared_by_many,
    Once shared_by_the_accepted,
    Once waited_for,
    Once handled,
    Once watched,
    Once awaited_again,
    Once futures,
    Once dropped_futures,
}

const VIS: u64 = 4;

async fn shared_by_many(side: &Side) -> Outcome {
    let mut options = side.options();
    let (sends, receives) = (side.nic.completion_queue(16), side.nic.completion_queue(16));
    options.send_queue = Some(sends.clone());
    options.recv_queue = Some(receives.clone());
    let mut vis = Vec::new();
    for number in 0..VIS {
        vis.push(side.pair_with(&format!("shared {number}"), &options).await?);
    }
    if !side.is_caller() {
        for vi in &vis {
            side.post_recv(vi, 100)?;
            side.post_recv(vi, 100)?;
        }
    }
    side.meet().await?;
    if side.is_caller() {
        for number in [0, VIS] {
            for (vi, index) in vis.iter().zip(0..) {
                side.post_send(vi, number + index, 50)?;
            }
        }
    }
    let (busy, idle, op) = if side.is_caller() {
        (&sends, &receives, OpKind::Send)
    } else {
        (&receives, &sends, OpKind::Recv)
    };
    let mut next = vec![0; vis.len()];
    for _ in 0..2 * VIS {
        let done = side.done(busy).await?;
        check_eq!(done.op, op, "what completes here");
        let from = vis.iter().position(|vi| vi.id() == done.vi);
        let from = from.ok_or_else(|| Wrong::new("a completion of no connection"))?;
        check_eq!(done.tag, from as u64 + next[from], "connection {from}");
        next[from] += VIS;
    }
    check!(idle.poll().is_none(), "a completion on the other queue");
    side.meet().await
}

async fn shared_by_the_accepted(side: &Side) -> Outcome {
    let (to, mut options) = (side.address("listener", 0), side.options());
    if side.is_caller() {
        let vis = [side.connect(&to, &options).await?, side.connect(&to, &options).await?];
        for (vi, tag) in vis.iter().zip(1..) {
            side.post_send(vi, tag, 20)?;
            drop(side.done(vi.send_queue()).await?);
        }
        return side.meet().await;
    }
    let queue = side.nic.completion_queue(8);
    options.recv_queue = Some(queue.clone());
    let listener = side.listen(&to, &options)?;
    let vis = [side.accept(&listener).await?, side.accept(&listener).await?];
    for vi in &vis {
        side.post_recv(vi, 100)?;
        check_eq!(vi.recv_queue().capacity(), 8, "the queue given to the listener");
        check!(vi.send_queue().capacity() > 8, "a queue was shared that was not given");
    }
    let got = [side.done(&queue).await?, side.done(&queue).await?];
    check!(got[0].vi != got[1].vi, "two connections cannot be told apart");
    side.meet().await
}

async fn waited_for(side: &Side) -> Outcome {
    let vi = side.pair("wait").await?;
    if side.is_caller() {
        side.post_send(&vi, 3, 30)?;
        side.meet().await?;
        drop(side.done(vi.send_queue()).await?);
        return side.meet().await;
    }
    let queue = vi.recv_queue();
    check_is!(queue.wait(Deadline::UntilDead), Err(ViError::NothingPosted), "an endless wait");
    let limit = Duration::from_millis(20);
    let timed_out = queue.wait(Deadline::In(limit));
    check_is!(
        timed_out,
        Err(ViError::NoCompletion { waited, outstanding: 0 }) if *waited >= limit,
        "a wait for nothing"
    );
    side.meet().await?;
    side.post_recv(&vi, 100)?;
    side.post_recv(&vi, 100)?;
    let got = queue.wait(Deadline::In(side.profile.patience))?.ok()?;
    check_eq!((got.tag, got.len), (3, 30), "what was waited for");
    let timed_out = queue.wait(Deadline::In(limit));
    check_is!(
        timed_out,
        Err(ViError::NoCompletion { waited, outstanding: 1 }) if *waited >= limit,
        "a wait for a message that does not come"
    );
    side.meet().await
}

async fn handled(side: &Side) -> Outcome {
    let vi = side.pair("handler").await?;
    let rounds = 20;
    if side.is_caller() {
        for number in 0..rounds {
            side.post_recv(&vi, 100)?;
            side.post_send(&vi, number, 60)?;
            let echo = side.done(vi.recv_queue()).await?;
            check_eq!(echo.tag, number + 1_000, "what the handler sent");
            pattern::verify(number, echo.into_buf().bytes())?;
            drop(side.done(vi.send_queue()).await?);
        }
        return side.meet().await;
    }
    let vi = Arc::new(vi);
    let handled = Arc::new(AtomicU64::new(0));
    let (weak, count) = (Arc::downgrade(&vi), Arc::clone(&handled));
    side.post_recv(&vi, 100)?;
    side.post_recv(&vi, 100)?;
    let pool = side.pool.clone();
    vi.recv_queue().notify(move |got| {
        if echo(&weak, got, pool.take(100).ok()).is_some() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    for _ in 0..rounds {
        drop(side.done(vi.send_queue()).await?);
    }
    check_eq!(handled.load(Ordering::Relaxed), rounds, "messages handled");
    check!(vi.recv_queue().poll().is_none(), "a handled completion was queued as well");
    side.meet().await
}

/// Sends a message back and posts another receive: both from inside the handler.
fn echo(vi: &Weak<Vi>, got: Completion, fresh: Option<Buf>) -> Option<()> {
    let vi = vi.upgrade()?;
    let got = got.ok().ok()?;
    let tag = got.tag + 1_000;
    vi.post_recv(Descriptor::new(fresh?)).ok()?;
    vi.post_send(Descriptor::new(got.into_buf()).with_tag(tag)).ok()?;
    Some(())
}

async fn watched(side: &Side) -> Outcome {
    let vi = side.pair("descriptor").await?;
    if side.is_caller() {
        for number in 0..6 {
            side.post_send(&vi, number, 10)?;
            drop(side.done(vi.send_queue()).await?);
        }
        return side.meet().await;
    }
    let queue = vi.recv_queue();
    side.post_recv(&vi, 10)?;
    side.post_recv(&vi, 10)?;
    arrived(side, &vi, 2).await?;
    let late = queue.fd()?;
    check!(readable(late)?, "a descriptor made while completions wait is not readable");
    drop(side.done(queue).await?);
    check!(readable(late)?, "not readable while one of two completions waits");
    drop(side.done(queue).await?);
    check!(!readable(late)?, "readable while nothing waits");
    for received in [4, 6] {
        side.post_recv(&vi, 10)?;
        side.post_recv(&vi, 10)?;
        arrived(side, &vi, received).await?;
        check!(readable(queue.fd()?)?, "not readable while two completions wait");
        check!(queue.poll().is_some() && queue.poll().is_some(), "they do not wait");
        check!(!readable(queue.fd()?)?, "readable while nothing waits");
    }
    side.meet().await
}

/// Lets the nic go on, without touching the queue, until so many messages came.
async fn arrived(side: &Side, vi: &Vi, count: u64) -> Result<(), Wrong> {
    for _ in 0..100_000 {
        if vi.counters().received >= count {
            return Ok(());
        }
        side.pause(Duration::from_micros(200)).await;
    }
    Err(Wrong::new(format!("{count} messages never came")))
}

fn readable(fd: BorrowedFd<'_>) -> Result<bool, Wrong> {
    let fd = fd.as_fd();
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once))?;
    Ok(polled[0].revents().contains(PollFlags::IN))
}

async fn awaited_again(side: &Side) -> Outcome {
    let vi = side.pair("again").await?;
    if side.is_caller() {
        side.meet().await?;
        side.post_send(&vi, 8, 80)?;
        drop(side.done(vi.send_queue()).await?);
        return side.meet().await;
    }
    side.post_recv(&vi, 100)?;
    for _ in 0..3 {
        let mut context = Context::from_waker(Waker::noop());
        let dropped = pin!(vi.recv_queue().next()).poll(&mut context);
        check_is!(dropped, Poll::Pending, "a future of a message not sent yet");
    }
    side.meet().await?;
    check_eq!(side.done(vi.recv_queue()).await?.tag, 8, "after futures that were dropped");
    side.meet().await
}

async fn futures(side: &Side) -> Outcome {
    let vi = side.pair("futures").await?;
    if side.is_caller() {
        let first = vi.async_send(Descriptor::new(side.buf(1, 1_000)?).with_tag(1))?;
        let second = vi.async_send(Descriptor::new(side.buf(2, 2_000)?).with_tag(2))?;
        let second = side.must("the second send", second).await?.ok()?;
        let first = side.must("the first send", first).await?.ok()?;
        check_eq!((first.tag, second.tag), (1, 2), "which send is which");
        pattern::verify(2, second.into_buf().bytes())?;
        return side.meet().await;
    }
    let first = vi.async_recv(Descriptor::new(side.pool.take(2_000)?))?;
    let second = vi.async_recv(Descriptor::new(side.pool.take(2_000)?))?;
    let second = side.must("the second message", second).await?.ok()?;
    let first = side.must("the first message", first).await?.ok()?;
    check_eq!((first.tag, second.tag), (1, 2), "which message is which");
    pattern::verify(1, first.into_buf().bytes())?;
    check!(vi.recv_queue().poll().is_none(), "a future's completion was queued as well");
    side.meet().await
}

async fn dropped_futures(side: &Side) -> Outcome {
    let vi = side.pair("dropped").await?;
    if side.is_caller() {
        drop(vi.async_send(Descriptor::new(side.buf(1, 4_000)?).with_tag(1))?);
        // Before anything drives the nic that could bring it back.
        check_eq!(side.pool.capacity(4_000) - side.pool.available(4_000), 1, "buffers out");
        drop(vi.async_send(Descriptor::new(side.buf(2, 4_000)?).with_tag(2))?);
    } else {
        drop(vi.async_recv(Descriptor::new(side.pool.take(4_000)?))?);
        side.post_recv(&vi, 4_000)?;
        let got = side.done(vi.recv_queue()).await?;
        check_eq!(got.tag, 2, "the message after the one whose future was dropped");
        pattern::verify(2, got.into_buf().bytes())?;
    }
    // Nobody waits for them, so they come home when the transfer has ended.
    for _ in 0..100_000 {
        if side.pool.available(4_000) == side.pool.capacity(4_000) {
            break;
        }
        side.pause(Duration::from_micros(200)).await;
    }
    check_eq!(side.pool.available(4_000), side.pool.capacity(4_000), "buffers at home");
    side.meet().await
}
