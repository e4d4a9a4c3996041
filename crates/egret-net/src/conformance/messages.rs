//! Messages: whole, in order, once, with their tags.

use super::case::list;
use super::check::{Outcome, Wrong, check_eq};
use super::pattern;
use super::side::Side;
use crate::vi::{Descriptor, OpKind, Vi};

list! { "messages":
    Reliable order,
    Reliable sizes,
    Reception largest,
    Reliable tags,
    Reliable both_directions,
    Reliable made_on_arrival,
}

/// Descriptors kept outstanding in the long runs.
const WINDOW: u64 = 32;

async fn order(side: &Side) -> Outcome {
    let vi = side.pair("order").await?;
    let count = side.profile.messages;
    if side.is_caller() {
        send_all(side, &vi, count).await?;
    } else {
        take_all(side, &vi, count).await?;
    }
    side.meet().await
}

async fn send_all(side: &Side, vi: &Vi, count: u64) -> Outcome {
    for number in 0..count + WINDOW {
        if let Some(done) = number.checked_sub(WINDOW).filter(|done| *done < count) {
            let sent = side.done(vi.send_queue()).await?;
            let seen = (sent.op, sent.vi, sent.tag, sent.len);
            let expected = (OpKind::Send, vi.id(), done, len_of(done) as u64);
            check_eq!(seen, expected, "the completion of send {done}");
        }
        if number < count {
            side.post_send(vi, number, len_of(number))?;
        }
    }
    Ok(())
}

async fn take_all(side: &Side, vi: &Vi, count: u64) -> Outcome {
    for _ in 0..WINDOW.min(count) {
        side.post_recv(vi, 4096)?;
    }
    for number in 0..count {
        let got = side.done(vi.recv_queue()).await?;
        let seen = (got.op, got.vi, got.tag, got.len);
        let expected = (OpKind::Recv, vi.id(), number, len_of(number) as u64);
        check_eq!(seen, expected, "message {number}");
        pattern::verify(number, got.into_buf().bytes())?;
        if number + WINDOW < count {
            side.post_recv(vi, 4096)?;
        }
    }
    Ok(())
}

/// Lengths in no order, up to a page.
const fn len_of(number: u64) -> usize {
    (number * 1_013 % 4_097) as usize
}

const SIZES: [usize; 14] =
    [0, 1, 55, 56, 57, 63, 64, 65, 4095, 4096, 65_535, 65_536, 65_537, 1 << 20];

async fn sizes(side: &Side) -> Outcome {
    let vi = side.pair("sizes").await?;
    for size in SIZES.into_iter().filter(|size| *size <= side.profile.largest) {
        one_message(side, &vi, size, 0).await?;
        one_message(side, &vi, size, 9).await?;
    }
    side.meet().await
}

async fn largest(side: &Side) -> Outcome {
    let vi = side.pair("largest").await?;
    one_message(side, &vi, side.profile.largest, 0).await?;
    side.meet().await
}

/// Sends `size` bytes into memory with room for `spare` more, which stays as it was.
async fn one_message(side: &Side, vi: &Vi, size: usize, spare: usize) -> Outcome {
    let seed = size as u64;
    if side.is_caller() {
        vi.post_send(Descriptor::new(pattern::bytes(seed, size)).with_tag(seed))?;
        let sent = side.done(vi.send_queue()).await?;
        check_eq!((sent.len, sent.tag), (seed, seed), "a send of {size} bytes");
        pattern::verify(seed, &sent.into_vec::<u8>())?;
        return Ok(());
    }
    vi.post_recv(Descriptor::new(vec![UNTOUCHED; size + spare]))?;
    let got = side.done(vi.recv_queue()).await?;
    check_eq!((got.len, got.tag), (seed, seed), "a message of {size} bytes");
    let memory = segment(got.into_descriptor())?;
    check_eq!(memory.len(), size + spare, "the memory that came back");
    pattern::verify(seed, &memory[..size])?;
    check_eq!(memory[size..], [UNTOUCHED; 9][..spare], "the memory after the message");
    Ok(())
}

const UNTOUCHED: u8 = 0xee;

/// The only segment, a vector, at the length it was posted with.
fn segment(descriptor: Descriptor) -> Result<Vec<u8>, Wrong> {
    let first = descriptor.into_segments().next().and_then(|segment| segment.into_vec().ok());
    first.ok_or_else(|| Wrong::new("what came back is not the vector that was posted"))
}

async fn tags(side: &Side) -> Outcome {
    let vi = side.pair("tags").await?;
    let tags = [0, 1, 0xffff_ffff, 1 << 32, 0x8000_0000_0000_0000, 0x0102_0304_0506_0708, u64::MAX];
    for tag in tags {
        if side.is_caller() {
            vi.post_send(Descriptor::empty().with_tag(tag))?;
            check_eq!(side.done(vi.send_queue()).await?.tag, tag, "the tag of a send");
        } else {
            vi.post_recv(Descriptor::empty().with_tag(!tag))?;
            let got = side.done(vi.recv_queue()).await?;
            check_eq!((got.tag, got.len), (tag, 0), "the tag of a message");
        }
    }
    side.meet().await
}

async fn both_directions(side: &Side) -> Outcome {
    let vi = side.pair("both ways").await?;
    let count = 64;
    let of_peer = u64::from(side.is_caller()) << 32;
    let own = of_peer ^ (1 << 32);
    for _ in 0..count {
        side.post_recv(&vi, 200)?;
    }
    for number in 0..count {
        side.post_send(&vi, own | number, 100)?;
    }
    for number in 0..count {
        let got = side.done(vi.recv_queue()).await?;
        check_eq!((got.tag, got.len), (of_peer | number, 100), "message {number}");
        pattern::verify(of_peer | number, got.into_buf().bytes())?;
        check_eq!(side.done(vi.send_queue()).await?.tag, own | number, "send {number}");
    }
    side.meet().await
}

async fn made_on_arrival(side: &Side) -> Outcome {
    let vi = side.pair("fresh").await?;
    for len in [0, 1, 1_000, 100_000] {
        let seed = len as u64;
        if side.is_caller() {
            side.post_send(&vi, seed, len)?;
            drop(side.done(vi.send_queue()).await?);
        } else {
            vi.post_recv(Descriptor::fresh(1 << 40))?;
            let got = side.done(vi.recv_queue()).await?.into_vec::<u8>();
            check_eq!(got.len(), len, "a vector made on arrival");
            pattern::verify(seed, &got)?;
        }
    }
    side.meet().await
}
