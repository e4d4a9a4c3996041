//! The unreliable level: messages may fail to arrive, and nothing else may go wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq};
use super::pattern;
use super::side::Side;
use crate::vi::{Access, Descriptor, PostError, RemoteKey, ViError};

list! { "unreliable":
    Unreliable arrives_or_not,
    Unreliable sends_never_wait,
    Lossless dropped_and_counted,
    Lossless too_long_for_one,
    Unreliable no_remote_access,
}

/// Twice as many receives fit every queue.
const COUNT: u64 = 30;

/// Lengths that tell the messages apart even if their tags are damaged.
fn len_of(number: u64) -> usize {
    10 + usize::try_from(number).expect("one of a few")
}

async fn arrives_or_not(side: &Side) -> Outcome {
    let vi = side.pair("datagrams").await?;
    if side.is_caller() {
        side.meet().await?;
        for number in 0..COUNT {
            side.post_send(&vi, number, len_of(number))?;
            check_eq!(side.done(vi.send_queue()).await?.tag, number, "an unreliable send");
            side.pause(Duration::from_micros(100)).await;
        }
        side.meet().await?;
        return side.meet().await;
    }
    for _ in 0..2 * COUNT {
        side.post_recv(&vi, 200)?;
    }
    side.meet().await?;
    side.meet().await?;
    side.pause(side.profile.quiet * 4).await;
    let mut times = BTreeMap::<usize, u64>::new();
    let (mut last, mut disorder, mut damaged) = (None, false, 0);
    while let Some(got) = vi.recv_queue().poll() {
        let (tag, len) = (got.tag, usize::try_from(got.len)?);
        check!((len_of(0)..len_of(COUNT)).contains(&len), "a message of {len} bytes nobody sent");
        let number = (len - len_of(0)) as u64;
        let as_sent =
            tag == number && pattern::verify(number, got.ok()?.into_buf().bytes()).is_ok();
        damaged += u64::from(!as_sent);
        disorder |= last.is_some_and(|last| last > len);
        last = Some(len);
        *times.entry(len).or_default() += 1;
    }
    let twice = times.values().any(|times| *times > 1);
    check!(times.values().all(|times| *times <= 2), "a message came more than twice");
    if side.profile.lossy {
        check!(!times.is_empty(), "not one of {COUNT} messages arrived");
        check!(damaged < COUNT / 2, "{damaged} of {COUNT} messages were damaged");
    } else {
        let seen = (times.len() as u64, damaged, disorder, twice);
        check_eq!(seen, (COUNT, 0, false, false), "(arrived, damaged, out of order, twice)");
    }
    check_eq!(vi.error(), None, "the error state");
    side.meet().await
}

async fn sends_never_wait(side: &Side) -> Outcome {
    let vi = side.pair("nobody receives").await?;
    if side.is_caller() {
        for number in 0..20 {
            side.post_send(&vi, number, 100)?;
            let sent = side.done(vi.send_queue()).await?;
            check_eq!((sent.tag, sent.len), (number, 100), "a send that nobody receives");
        }
        check_eq!(vi.counters().sent, 20, "sends counted");
    }
    side.meet().await?;
    check_eq!(vi.error(), None, "the error state");
    side.meet().await
}

async fn dropped_and_counted(side: &Side) -> Outcome {
    let vi = side.pair("dropped").await?;
    if side.is_caller() {
        for number in 0..5 {
            side.post_send(&vi, number, 100)?;
            drop(side.done(vi.send_queue()).await?);
        }
        side.meet().await?;
        side.meet().await?;
        side.post_send(&vi, 5, 100)?;
        drop(side.done(vi.send_queue()).await?);
        return side.meet().await;
    }
    side.meet().await?;
    side.pause(side.profile.quiet).await;
    let counters = vi.counters();
    check_eq!((counters.dropped, counters.received), (5, 0), "(dropped, received)");
    side.post_recv(&vi, 100)?;
    side.meet().await?;
    check_eq!(side.done(vi.recv_queue()).await?.tag, 5, "the message that found a receive");
    let counters = vi.counters();
    check_eq!((counters.dropped, counters.received), (5, 1), "(dropped, received)");
    side.meet().await
}

async fn too_long_for_one(side: &Side) -> Outcome {
    let vi = side.pair("too long").await?;
    if side.is_caller() {
        side.meet().await?;
        for (number, len) in [(1, 50), (2, 60)] {
            side.post_send(&vi, number, len)?;
            drop(side.done(vi.send_queue()).await?);
        }
    } else {
        side.post_recv(&vi, 10)?;
        side.post_recv(&vi, 100)?;
        side.meet().await?;
        let failed = side.next(vi.recv_queue()).await?;
        let why = ViError::TooLong { sent: 50, posted: 10 };
        check_eq!(failed.status, Err(why), "the receive that was too short");
        check_eq!(side.done(vi.recv_queue()).await?.tag, 2, "the receive after it");
    }
    side.meet().await?;
    check_eq!(vi.error(), None, "the error state");
    side.meet().await
}

async fn no_remote_access(side: &Side) -> Outcome {
    let vi = side.pair("remote").await?;
    let place = RemoteKey::from_bytes(&[7; RemoteKey::BYTES]).at(0);
    let memory = || side.buf(1, 100).map(Descriptor::new);
    let refused = [
        vi.post_read(memory()?, place),
        vi.post_write(memory()?, place),
        vi.post_write_notify(memory()?, place),
    ];
    for posted in refused {
        let refused = posted.err().ok_or_else(|| Wrong::new("a remote access was posted"))?;
        check_eq!(refused.why, PostError::Unreliable, "a remote access");
        check_eq!(refused.what.len(), 100, "the descriptor that came back");
    }
    let exposed = side.nic.expose(side.another_pool(4096, 1)?.take(100)?, Access::READ)?;
    check_eq!(exposed.key().len(), 100, "memory exposed for other connections");
    side.meet().await
}
