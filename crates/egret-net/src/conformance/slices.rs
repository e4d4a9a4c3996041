//! Blocking sends and receives of slices. One side blocks at a time, and the
//! other has posted before all that is needed, so that one thread can run both.

use std::time::Duration;

use super::case::list;
use super::check::{Outcome, check, check_eq, check_is};
use super::pattern;
use super::side::Side;
use crate::rt::Deadline;
use crate::vi::{Descriptor, ViError};

list! { "slices":
    Reliable sent,
    Reliable received,
    Once timed_out_receives,
    Once timed_out_sends,
    Once too_long,
}

const SHORT: Duration = Duration::from_millis(30);

async fn sent(side: &Side) -> Outcome {
    let vi = side.pair("sent").await?;
    let threshold = usize::try_from(side.nic.limits().pin_threshold)?.min(64 << 10);
    let lens = [0, 1, threshold - 1, threshold, threshold + 1];
    let patience = Deadline::In(side.profile.patience);
    if side.is_caller() {
        side.meet().await?;
        for (len, tag) in lens.into_iter().zip(1..) {
            let data = pattern::bytes(tag, len);
            vi.send(&data, tag, patience)?;
            vi.send_copy(&data, tag, patience)?;
            vi.send_pinned(&data, tag, patience)?;
        }
        vi.send(&[1.5_f64; 10], 99, patience)?;
        return side.meet().await;
    }
    for _ in 0..3 * lens.len() {
        vi.post_recv(Descriptor::fresh(1 << 20))?;
    }
    vi.post_recv(Descriptor::new(vec![0.0_f64; 10]))?;
    side.meet().await?;
    for (len, tag) in lens.into_iter().zip(1..) {
        for _ in 0..3 {
            let got = side.done(vi.recv_queue()).await?;
            check_eq!((got.tag, got.len), (tag, len as u64), "a slice of {len} bytes");
            pattern::verify(tag, &got.into_vec::<u8>())?;
        }
    }
    let floats = side.done(vi.recv_queue()).await?.into_vec::<f64>();
    check_eq!(floats, [1.5; 10], "a slice of floats");
    side.meet().await
}

async fn received(side: &Side) -> Outcome {
    let vi = side.pair("received").await?;
    let lens = [0, 1, 1_000, 100_000];
    if side.is_caller() {
        for (len, tag) in lens.into_iter().zip(1..) {
            for _ in 0..2 {
                vi.post_send(Descriptor::new(pattern::bytes(tag, len)).with_tag(tag))?;
            }
        }
        vi.post_send(Descriptor::new(vec![7_u32; 5]).with_tag(u64::MAX))?;
        side.meet().await?;
        for _ in 0..=2 * lens.len() {
            drop(side.done(vi.send_queue()).await?);
        }
        return side.meet().await;
    }
    side.meet().await?;
    let patience = Deadline::In(side.profile.patience);
    for (len, tag) in lens.into_iter().zip(1..) {
        let mut into = vec![0xee_u8; len + 5];
        let got = vi.recv_into(&mut into, patience)?;
        check_eq!(got, (len, tag), "a message into a slice");
        pattern::verify(tag, &into[..len])?;
        check_eq!(into[len..], [0xee; 5], "the slice after the message");
        let (got, seen) = vi.recv::<u8>(1 << 20, patience)?;
        check_eq!((got.len(), seen), (len, tag), "a message into a fresh vector");
        pattern::verify(tag, &got)?;
    }
    let (words, tag) = vi.recv::<u32>(10, patience)?;
    check_eq!((&words[..], tag), (&[7; 5][..], u64::MAX), "a message of words");
    side.meet().await
}

async fn timed_out_receives(side: &Side) -> Outcome {
    let vi = side.pair("late").await?;
    if side.is_caller() {
        side.meet().await?;
        side.post_send(&vi, 4, 100)?;
        side.meet().await?;
        drop(side.done(vi.send_queue()).await?);
        return side.meet().await;
    }
    let mut into = [0xee_u8; 100];
    let timed_out = vi.recv_into(&mut into, Deadline::In(SHORT));
    check_is!(
        timed_out,
        Err(ViError::TransferTimedOut { waited, broken: false, .. }) if *waited >= SHORT,
        "a receive of nothing"
    );
    check_eq!(into, [0xee; 100], "the slice of a receive that timed out");
    let timed_out = vi.recv::<u8>(100, Deadline::NOW);
    check_is!(timed_out, Err(ViError::TransferTimedOut { broken: false, .. }), "a receive at once");
    check_eq!(vi.error(), None, "the connection after receives that timed out");
    side.meet().await?;
    side.meet().await?;
    let got = vi.recv_into(&mut into, Deadline::In(side.profile.patience))?;
    check_eq!(got, (100, 4), "the message that came later");
    pattern::verify(4, &into)?;
    side.meet().await
}

async fn timed_out_sends(side: &Side) -> Outcome {
    let vi = side.pair("nobody").await?;
    if side.is_caller() {
        let data = pattern::bytes(1, 20_000);
        for _ in 0..2 {
            let timed_out = vi.send_pinned(&data, 1, Deadline::In(SHORT));
            check_is!(
                timed_out,
                Err(ViError::TransferTimedOut { waited, broken: false, .. }) if *waited >= SHORT,
                "a send that nobody receives"
            );
        }
        check_eq!(vi.error(), None, "the connection after sends that timed out");
        side.post_send(&vi, 2, 100)?;
        side.meet().await?;
        drop(side.done(vi.send_queue()).await?);
        return side.meet().await;
    }
    side.meet().await?;
    side.post_recv(&vi, 30_000)?;
    let got = side.done(vi.recv_queue()).await?;
    check_eq!((got.tag, got.len), (2, 100), "the message after those taken back");
    side.meet().await
}

async fn too_long(side: &Side) -> Outcome {
    let vi = side.pair("too long").await?;
    let why = ViError::TooLong { sent: 20, posted: 10 };
    if side.is_caller() {
        side.post_send(&vi, 1, 20)?;
        side.meet().await?;
        check_eq!(side.next(vi.send_queue()).await?.status, Err(why), "the send");
        return side.meet().await;
    }
    side.meet().await?;
    let mut into = [0xee_u8; 10];
    let failed = vi.recv_into(&mut into, Deadline::In(side.profile.patience));
    check_eq!(failed, Err(why.clone()), "the receive");
    check!(into == [0xee; 10], "a message that does not fit was written");
    let later = vi.send(&[1_u8], 0, Deadline::NOW);
    check_is!(later, Err(ViError::Refused(_)), "a send on a broken connection");
    side.meet().await
}
