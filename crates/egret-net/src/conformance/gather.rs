//! Scatter and gather, and every kind of memory that can be posted.

use std::sync::Arc;

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq, check_is};
use super::pattern;
use super::side::Side;
use crate::buf::Plain;
use crate::rt::GivenBack;
use crate::vi::{Completion, Descriptor, PostError, Segment, Vi};

list! { "gather":
    Reliable many_into_one,
    Reliable one_into_many,
    Reliable many_into_many,
    Reliable shared_twice_at_once,
    Reliable kinds_of_memory,
    Every refused,
}

/// Sixteen odd lengths, some of them nothing.
const MANY: [usize; 16] = [0, 1, 3, 0, 7, 64, 65, 1_000, 0, 0, 4_097, 13, 1, 255, 2_001, 0];
/// Others of the same sum.
const OTHERS: [usize; 16] = [5_000, 0, 1, 1, 1, 0, 63, 65, 129, 0, 1_111, 17, 19, 1_000, 100, 0];
const SUM: usize = 7_507;

async fn many_into_one(side: &Side) -> Outcome {
    transfer(side, &MANY, &[SUM]).await
}

async fn one_into_many(side: &Side) -> Outcome {
    transfer(side, &[SUM], &MANY).await
}

async fn many_into_many(side: &Side) -> Outcome {
    transfer(side, &MANY, &OTHERS).await?;
    transfer(side, &OTHERS, &MANY).await
}

/// Sends one message gathered from pieces of these lengths into others.
async fn transfer(side: &Side, from: &[usize], to: &[usize]) -> Outcome {
    let vi = side.pair("pieces").await?;
    let whole = pattern::bytes(SUM as u64, SUM);
    if side.is_caller() {
        let mut rest = &whole[..];
        let mut descriptor = Descriptor::empty();
        for len in from {
            let (piece, after) = rest.split_at(*len);
            let mut buf = side.pool.take(*len)?;
            buf.bytes_mut().copy_from_slice(piece);
            descriptor = descriptor.and(buf);
            rest = after;
        }
        vi.post_send(descriptor)?;
        let sent = side.done(vi.send_queue()).await?;
        check_eq!(lengths(&sent), from, "the pieces that were sent");
    } else {
        let mut pieces = to.iter().map(|len| side.pool.take(*len));
        let descriptor =
            pieces.try_fold(Descriptor::empty(), |all, buf| Ok::<_, Wrong>(all.and(buf?)))?;
        vi.post_recv(descriptor)?;
        let got = side.done(vi.recv_queue()).await?;
        check_eq!((got.len, lengths(&got)), (SUM as u64, to.to_vec()), "the pieces received");
        let bytes: Vec<u8> =
            got.descriptor().segments().flat_map(Segment::bytes).copied().collect();
        check!(bytes == whole, "the pieces do not make up the message");
    }
    side.meet().await
}

fn lengths(completion: &Completion) -> Vec<usize> {
    completion.descriptor().segments().map(|segment| segment.bytes().len()).collect()
}

async fn shared_twice_at_once(side: &Side) -> Outcome {
    let vis = [side.pair("one").await?, side.pair("other").await?];
    if !side.is_caller() {
        for vi in [&vis[0], &vis[0], &vis[1]] {
            side.post_recv(vi, 4_000)?;
        }
        side.meet().await?;
        for vi in [&vis[0], &vis[0], &vis[1]] {
            let got = side.done(vi.recv_queue()).await?;
            pattern::verify(3, got.into_buf().bytes())?;
        }
        return side.meet().await;
    }
    let shared = side.buf(3, 4_000)?.share();
    for vi in [&vis[0], &vis[0], &vis[1]] {
        vi.post_send(Descriptor::new(shared.clone()))?;
    }
    side.meet().await?;
    for vi in [&vis[0], &vis[0], &vis[1]] {
        drop(side.done(vi.send_queue()).await?);
    }
    check!(shared.try_unique().is_ok(), "a shared buffer is still held by the fabric");
    side.meet().await
}

async fn kinds_of_memory(side: &Side) -> Outcome {
    let vi = side.pair("kinds").await?;
    let floats: Vec<f64> = (0..500).map(|i| f64::from(i) / 3.0).collect();
    let shorts: Arc<[u16]> = (0..500).collect();
    if side.is_caller() {
        let mut words = side.pool.take_typed::<u32>(100)?;
        words.fill(0xabcd_0123);
        vi.post_send(Descriptor::new(floats.clone()).of_kind(f64::kind()))?;
        vi.post_send(Descriptor::new(Arc::clone(&shorts)))?;
        vi.post_send(Descriptor::typed(words))?;
        check_eq!(side.done(vi.send_queue()).await?.into_vec::<f64>(), floats, "a vector");
        let back = side.done(vi.send_queue()).await?.into_descriptor().into_segments().next();
        let back = back.and_then(|segment| segment.into_arc::<u16>().ok());
        check!(back.is_some_and(|back| Arc::ptr_eq(&back, &shorts)), "another slice came back");
        let words = side.done(vi.send_queue()).await?.into_typed::<u32>()?;
        check_eq!(words.len(), 100, "a typed buffer");
        return side.meet().await;
    }
    let descriptor = Descriptor::new(vec![0.0_f64; 600]);
    vi.post_recv(descriptor.of_kind(f64::kind()))?;
    vi.post_recv(Descriptor::new(vec![0_u16; 500]))?;
    vi.post_recv(Descriptor::typed(side.pool.take_typed::<u32>(200)?))?;
    check_eq!(side.done(vi.recv_queue()).await?.into_vec::<f64>(), floats, "a vector");
    let got = side.done(vi.recv_queue()).await?.into_vec::<u16>();
    check_eq!(got[..], shorts[..], "a vector for a slice");
    let words = side.done(vi.recv_queue()).await?.into_typed::<u32>()?;
    check_eq!(words[..], [0xabcd_0123; 100], "a typed buffer");
    side.meet().await
}

async fn refused(side: &Side) -> Outcome {
    let vi = side.pair("refused").await?;
    let max = side.nic.limits().segments_max;
    check!(max >= 16, "only {max} segments");
    let mut descriptor = Descriptor::empty().with_tag(77);
    for number in 0..=max {
        descriptor = descriptor.and(vec![0_u8; number as usize]);
    }
    let (have, len) = (descriptor.segment_count(), descriptor.len());
    let GivenBack { why, what: descriptor } = refusal(&vi, descriptor, true)?;
    check_eq!(why, PostError::TooManySegments { have, max }, "too many segments to send");
    let back = (descriptor.segment_count(), descriptor.len(), descriptor.tag());
    check_eq!(back, (have, len, 77), "the descriptor that came back");
    let GivenBack { why, .. } = refusal(&vi, descriptor, false)?;
    check_eq!(why, PostError::TooManySegments { have, max }, "too many segments to receive");

    let shared = side.buf(9, 50)?.share();
    let GivenBack { why, what: descriptor } = refusal(&vi, Descriptor::new(shared), false)?;
    check_eq!(why, PostError::ReadOnly, "a receive into shared memory");
    let back = descriptor.into_segments().next().and_then(|segment| segment.into_shared().ok());
    check!(back.is_some_and(|back| pattern::verify(9, &back).is_ok()), "it did not come back");
    let GivenBack { why, .. } = refusal(&vi, Descriptor::fresh(10), true)?;
    check_eq!(why, PostError::Fresh, "a send of memory to be made");
    let mixed = Descriptor::fresh(10).and(vec![0_u8; 4]);
    check_is!(refusal(&vi, mixed, false)?.why, PostError::Fresh, "a receive into mixed memory");
    check_eq!(vi.error(), None, "a connection after refused posts");
    side.meet().await
}

/// Posts what must be refused.
fn refusal(
    vi: &Vi,
    descriptor: Descriptor,
    send: bool,
) -> Result<GivenBack<Descriptor, PostError>, Wrong> {
    let posted = if send { vi.post_send(descriptor) } else { vi.post_recv(descriptor) };
    posted.err().ok_or_else(|| Wrong::new("a descriptor was taken that must be refused"))
}
