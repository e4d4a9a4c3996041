//! Receives that ask where larger messages go.

use std::sync::{Arc, Mutex, PoisonError};

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq};
use super::levels::broken;
use super::pattern;
use super::side::Side;
use crate::buf::{Buf, Pool};
use crate::vi::{Completion, Descriptor, DirectPlacement, PostError, Vi, ViError};

list! { "landing":
    Reliable whole,
    Reliable small_not_asked,
    Reliable not_taken,
    Reliable misfits,
    Reliable panics,
    Reliable too_long,
    Reliable again,
    Reliable handed_over,
    Once refused,
    Lossless datagrams,
    Lossless not_taken_by_one,
}

/// Bytes of a receive's own memory.
const OWN: usize = 64;
const WHY: &str = "the landing of this case is closed";

/// Takes of each message all but as many bytes as its tag says, and notes it.
#[derive(Debug)]
struct Field {
    pool: Pool,
    asked: Mutex<Vec<(u64, u64)>>,
}

impl Field {
    fn new(side: &Side) -> Arc<Self> {
        Arc::new(Self { pool: side.pool.clone(), asked: Mutex::default() })
    }

    /// What it was asked since this was asked last.
    fn asked(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl DirectPlacement for Field {
    fn land(&self, len: u64, tag: u64) -> Result<Buf, &'static str> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push((len, tag));
        let taken = match tag {
            CLOSED => return Err(WHY),
            LONGER => len + 1,
            PANICS => panic!("a landing that panics, as this case wants it"),
            _ => len.saturating_sub(tag),
        };
        let taken = usize::try_from(taken).map_err(|_| "too large for this machine")?;
        self.pool.take(taken).map_err(|_| "no buffer is free")
    }
}

/// A tag that a [`Field`] refuses.
const CLOSED: u64 = u64::MAX;
/// A tag for which it supplies too much.
const LONGER: u64 = u64::MAX - 1;
/// A tag for which it panics.
const PANICS: u64 = u64::MAX - 2;

fn receive(side: &Side, field: &Arc<Field>, max: u64) -> Result<Descriptor, Wrong> {
    let own = side.pool.take(OWN)?;
    let field = Arc::<Field>::clone(field);
    Ok(Descriptor::landing(own, max, field))
}

/// The message of `len` bytes, all but `rest` of which landed.
fn check_landed(got: &Completion, len: usize, rest: usize) -> Outcome {
    check_eq!((got.tag, got.len), (rest as u64, len as u64), "(tag, length)");
    check!(got.landed(), "{len} bytes did not land");
    check_eq!((got.bytes().len(), got.rest().len()), (len - rest, rest), "(landed, behind it)");
    pattern::verify(rest as u64, &[got.bytes(), got.rest()].concat())
}

/// Takes the buffer out of a receive, which is then as it was.
fn taken(mut receive: Descriptor, len: usize) -> Result<(Buf, Descriptor), Wrong> {
    let buf = receive.take_landed().ok_or_else(|| Wrong::new("no buffer to take"))?;
    check_eq!(buf.len(), len, "the buffer that was taken");
    check_eq!((receive.segment_count(), receive.len()), (1, OWN as u64), "the receive after it");
    check!(receive.take_landed().is_none(), "a buffer that was there twice");
    Ok((buf, receive))
}

async fn whole(side: &Side) -> Outcome {
    let vi = side.pair("whole").await?;
    let sizes = [65, 100, 256, 4_096, 65_536, 65_537, 1 << 20];
    let sizes = sizes.into_iter().filter(|len| *len <= side.profile.largest);
    let messages = sizes.flat_map(|len| [0, 1, 8, OWN].map(|rest| (len, rest)));
    if side.is_caller() {
        for (len, rest) in messages {
            side.post_send(&vi, rest as u64, len)?;
            drop(side.done(vi.send_queue()).await?);
        }
        return side.meet().await;
    }
    let field = Field::new(side);
    let mut next = Some(receive(side, &field, 1 << 20)?);
    for (len, rest) in messages {
        vi.post_recv(next.take().ok_or_else(|| Wrong::new("no receive"))?)?;
        let got = side.done(vi.recv_queue()).await?;
        check_landed(&got, len, rest)?;
        check_eq!(field.asked(), [(len as u64, rest as u64)], "what was asked");
        let (buf, receive) = taken(got.into_descriptor(), len - rest)?;
        pattern::verify(rest as u64, buf.bytes())?;
        next = Some(receive);
    }
    side.meet().await
}

async fn small_not_asked(side: &Side) -> Outcome {
    let vi = side.pair("small").await?;
    let sizes = [0, 1, 8, 32, 33, OWN - 1, OWN, OWN + 1];
    if side.is_caller() {
        for len in sizes {
            side.post_send(&vi, 7, len)?;
            drop(side.done(vi.send_queue()).await?);
        }
        return side.meet().await;
    }
    let field = Field::new(side);
    for len in sizes {
        vi.post_recv(receive(side, &field, 4_096)?)?;
        let got = side.done(vi.recv_queue()).await?;
        let (landed, asked) = (got.landed(), field.asked().len());
        check_eq!((landed, asked), (len > OWN, usize::from(len > OWN)), "{len} bytes");
        if !landed {
            check_eq!((got.len, got.rest().len()), (len as u64, 0), "(length, behind it)");
            check_eq!(got.bytes().len(), len, "bytes in its own memory");
            pattern::verify(7, got.bytes())?;
            check!(got.into_descriptor().take_landed().is_none(), "something to take");
        }
    }
    side.meet().await
}

/// A message with this tag fails both ends, for this reason.
async fn fails(side: &Side, service: &str, tag: u64, why: &ViError) -> Outcome {
    let vi = side.pair(service).await?;
    if side.is_caller() {
        side.meet().await?;
        side.post_send(&vi, 8, 100)?;
        drop(side.done(vi.send_queue()).await?);
        side.post_recv(&vi, 10)?;
        side.post_send(&vi, tag, 1_000)?;
        side.post_send(&vi, 8, 100)?;
        return broken(side, &vi, why, (2, 1)).await;
    }
    let field = Field::new(side);
    let max = if matches!(why, ViError::TooLong { .. }) { 999 } else { 1_000 };
    for _ in 0..3 {
        vi.post_recv(receive(side, &field, max)?)?;
    }
    side.meet().await?;
    let first = side.done(vi.recv_queue()).await?;
    check_landed(&first, 100, 8)?;
    drop(first);
    broken(side, &vi, why, (0, 2)).await?;
    let begun = if max == 1_000 { vec![(100, 8), (1_000, tag)] } else { vec![(100, 8)] };
    check_eq!(field.asked(), begun, "what was asked");
    Ok(())
}

async fn not_taken(side: &Side) -> Outcome {
    fails(side, "not taken", CLOSED, &ViError::NotTaken(WHY.into())).await
}

async fn misfits(side: &Side) -> Outcome {
    let left = "the memory for it left more than the receive holds";
    fails(side, "shorter", OWN as u64 + 1, &ViError::NotTaken(left.into())).await?;
    let longer = "the memory for it was longer than the message";
    fails(side, "longer", LONGER, &ViError::NotTaken(longer.into())).await
}

async fn panics(side: &Side) -> Outcome {
    fails(side, "panics", PANICS, &ViError::NotTaken("the landing of the receive panicked".into()))
        .await
}

async fn too_long(side: &Side) -> Outcome {
    fails(side, "too long", 0, &ViError::TooLong { sent: 1_000, posted: 999 }).await
}

/// What landed and is not taken is free again when the receive is posted again.
async fn again(side: &Side) -> Outcome {
    let vi = side.pair("again").await?;
    let len_of = |number: u64| if number % 3 == 2 { OWN } else { 100_000 };
    let count = side.profile.messages.min(100);
    if side.is_caller() {
        for number in 0..count {
            side.post_send(&vi, number % 10, len_of(number))?;
            drop(side.done(vi.send_queue()).await?);
        }
        return side.meet().await;
    }
    let field = Field::new(side);
    for _ in 0..2 {
        vi.post_recv(receive(side, &field, 100_000)?)?;
    }
    for number in 0..count {
        let got = side.done(vi.recv_queue()).await?;
        check_eq!(got.landed(), number % 3 != 2, "message {number} landed");
        pattern::verify(number % 10, &[got.bytes(), got.rest()].concat())?;
        vi.post_recv(got.into_descriptor())?;
    }
    side.meet().await?;
    vi.disconnect();
    while let Some(left) = vi.recv_queue().poll() {
        check!(!left.landed(), "a receive that nothing came for landed");
    }
    Ok(())
}

async fn handed_over(side: &Side) -> Outcome {
    let (vi, pool) = (side.pair("handed over").await?, side.commons()?);
    let sizes = [OWN, OWN + 1, 4_096, 65_537];
    for len in sizes {
        if side.is_caller() {
            let mut buf = pool.take(len)?;
            pattern::fill(5, buf.bytes_mut());
            vi.hand_over(buf, 5)?;
            drop(side.done(vi.send_queue()).await?);
        } else {
            vi.post_recv(receive(side, &Field::new(side), 1 << 20)?)?;
            let got = side.done(vi.recv_queue()).await?;
            check_eq!(got.landed(), len > OWN, "{len} bytes landed");
            pattern::verify(5, &[got.bytes(), got.rest()].concat())?;
        }
    }
    side.meet().await?;
    drop(vi);
    side.home().await
}

/// It stands alone, and its own memory is there.
async fn refused(side: &Side) -> Outcome {
    let vi = side.pair("refused").await?;
    let field = Field::new(side);
    let more = receive(side, &field, 1_000)?.and(vec![0_u8; 10]);
    let own = crate::vi::Segment::fresh::<u8>(10);
    let unmade = Descriptor::landing(own, 1_000, Arc::<Field>::clone(&field));
    for descriptor in [more, unmade] {
        let reason = vi.post_recv(descriptor).err().map(|refused| refused.why);
        check_eq!(reason, Some(PostError::Fresh), "a receive that asks");
    }
    side.meet().await
}

/// Lengths that one piece takes, and that many do.
fn datagram_sizes(side: &Side) -> [usize; 3] {
    let max = usize::try_from(side.nic.limits().transfer_max).unwrap_or(usize::MAX);
    [100, 1_000, 20_000].map(|len: usize| len.min(max))
}

async fn datagrams(side: &Side) -> Outcome {
    let vi = side.pair("datagrams").await?;
    for len in datagram_sizes(side) {
        if side.is_caller() {
            side.meet().await?;
            side.post_send(&vi, 8, len)?;
            drop(side.done(vi.send_queue()).await?);
        } else {
            let field = Field::new(side);
            vi.post_recv(receive(side, &field, 1 << 20)?)?;
            side.meet().await?;
            let got = side.done(vi.recv_queue()).await?;
            check_landed(&got, len, 8)?;
            check_eq!(field.asked(), [(len as u64, 8)], "what was asked");
        }
    }
    side.meet().await
}

async fn not_taken_by_one(side: &Side) -> Outcome {
    let vi = side.pair("one").await?;
    for len in datagram_sizes(side) {
        if side.is_caller() {
            side.meet().await?;
            for tag in [CLOSED, OWN as u64 + 1, LONGER, PANICS, 8] {
                side.post_send(&vi, tag, len)?;
                drop(side.done(vi.send_queue()).await?);
            }
            continue;
        }
        let field = Field::new(side);
        for _ in 0..5 {
            vi.post_recv(receive(side, &field, 1 << 20)?)?;
        }
        side.meet().await?;
        check_eq!(failed(side, &vi).await?, ViError::NotTaken(WHY.into()), "the first receive");
        for _ in 0..3 {
            let why = failed(side, &vi).await?;
            check!(matches!(why, ViError::NotTaken(_)), "a receive that misfits: {why}");
        }
        check_landed(&side.done(vi.recv_queue()).await?, len, 8)?;
    }
    side.meet().await?;
    check_eq!(vi.error(), None, "the error state");
    side.meet().await
}

async fn failed(side: &Side, vi: &Vi) -> Result<ViError, Wrong> {
    let failed = side.next(vi.recv_queue()).await?;
    check!(!failed.landed(), "a message that was not taken landed");
    failed.done().err().ok_or_else(|| Wrong::new("a message was taken"))
}
