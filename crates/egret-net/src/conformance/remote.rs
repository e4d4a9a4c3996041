//! Remote reads and writes that are granted.

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq};
use super::pattern;
use super::side::Side;
use crate::buf::Pool;
use crate::rt::Deadline;
use crate::vi::{
    Access, Completion, Descriptor, Exposed, OpKind, RemoteKey, RemoteSlice, Segment, Vi, ViError,
};

list! { "remote":
    Reliable reads,
    Reliable writes,
    Once large,
    Once many_reads_at_once,
    Reliable writes_with_notice,
    Reliable notices_without_memory,
    Once among_messages,
}

/// The answerer gives keys to the caller in one message.
pub(super) async fn give(side: &Side, vi: &Vi, keys: &[RemoteKey]) -> Outcome {
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_bytes()).collect();
    vi.post_send(Descriptor::new(bytes))?;
    drop(side.done(vi.send_queue()).await?);
    Ok(())
}

/// The caller takes keys.
pub(super) async fn keys<const N: usize>(side: &Side, vi: &Vi) -> Result<[RemoteKey; N], Wrong> {
    vi.post_recv(Descriptor::fresh(1 << 10))?;
    let bytes = side.done(vi.recv_queue()).await?.into_vec::<u8>();
    let (keys, _) = bytes.as_chunks::<{ RemoteKey::BYTES }>();
    let keys: Vec<RemoteKey> = keys.iter().map(RemoteKey::from_bytes).collect();
    keys.try_into().map_err(|keys| Wrong::new(format!("{keys:?} instead of {N} keys")))
}

/// Memory of the answerer with the bytes that belong to `seed`.
pub(super) fn exposed(
    side: &Side,
    pool: &Pool,
    seed: u64,
    len: usize,
    access: Access,
) -> Result<Exposed, Wrong> {
    let mut buf = pool.take(len)?;
    pattern::fill(seed, buf.bytes_mut());
    let exposed = side.nic.expose(buf, access)?;
    check_eq!(exposed.key().len(), len as u64, "bytes under a key");
    Ok(exposed)
}

/// Reads `len` bytes; what became of it.
pub(super) async fn read(
    side: &Side,
    vi: &Vi,
    from: RemoteSlice,
    len: usize,
) -> Result<Completion, Wrong> {
    vi.post_read(Descriptor::new(side.pool.take(len)?).with_tag(len as u64), from)?;
    let read = side.next(vi.send_queue()).await?;
    check_eq!((read.op, read.tag), (OpKind::Read, len as u64), "the completion of a read");
    Ok(read)
}

/// Writes bytes that belong to `seed`; what became of it.
pub(super) async fn write(
    side: &Side,
    vi: &Vi,
    to: RemoteSlice,
    seed: u64,
    len: usize,
) -> Result<Completion, Wrong> {
    vi.post_write(Descriptor::new(side.buf(seed, len)?), to)?;
    let written = side.next(vi.send_queue()).await?;
    check_eq!(written.op, OpKind::Write, "the completion of a write");
    Ok(written)
}

async fn reads(side: &Side) -> Outcome {
    let vi = side.pair("reads").await?;
    if !side.is_caller() {
        let memory = exposed(side, &side.another_pool(4096, 1)?, 1, 4_000, Access::READ)?;
        memory.write_at(3_990, &[9; 10]);
        let unread = vi.post_recv(Descriptor::empty())?;
        give(side, &vi, &[memory.key()]).await?;
        side.meet().await?;
        check!(vi.recv_queue().poll().is_none(), "a read consumed a receive");
        check!(vi.cancel(unread), "a read touched a receive");
        drop(vi.recv_queue().poll());
        drop(memory);
        return side.meet().await;
    }
    let [key] = keys(side, &vi).await?;
    let mut whole = pattern::bytes(1, 4_000);
    whole[3_990..].fill(9);
    for range in [0..4_000, 0..1, 3_999..4_000, 17..1_018, 4_000..4_000, 0..0] {
        let got = read(side, &vi, key.at(range.start as u64), range.len()).await?.ok()?;
        check_eq!(got.len, range.len() as u64, "bytes of {range:?} read");
        check!(got.into_buf().bytes() == &whole[range.clone()], "other bytes than {range:?}");
    }
    let pieces = [0, 5, 300, 0, 1].map(|len| vec![0_u8; len]);
    let scattered = pieces.into_iter().fold(Descriptor::empty(), Descriptor::and);
    vi.post_read(scattered, key.at(100))?;
    let got = side.done(vi.send_queue()).await?.into_descriptor();
    let got: Vec<u8> = got.segments().flat_map(|segment| segment.bytes().to_vec()).collect();
    check!(got == whole[100..406], "a read into pieces brought other bytes");
    side.meet().await?;
    // The other side looks at its receives before this one closes.
    side.meet().await
}

async fn writes(side: &Side) -> Outcome {
    let vi = side.pair("writes").await?;
    let parts = [(0, 1), (10, 100), (1_000, 2_999), (3_999, 1), (4_000, 0)];
    if side.is_caller() {
        let [key] = keys(side, &vi).await?;
        for (offset, len) in parts {
            let done = write(side, &vi, key.at(offset), offset, len).await?.ok()?;
            check_eq!(done.len, len as u64, "bytes written");
        }
        side.meet().await?;
        return side.meet().await;
    }
    let memory = exposed(side, &side.another_pool(4096, 1)?, 1, 4_000, Access::WRITE)?;
    give(side, &vi, &[memory.key()]).await?;
    let mut expected = pattern::bytes(1, 4_000);
    for (offset, len) in parts {
        let start = usize::try_from(offset)?;
        pattern::fill(offset, &mut expected[start..start + len]);
    }
    side.meet().await?;
    let mut seen = vec![0; 4_000];
    memory.read_at(0, &mut seen);
    check!(seen == expected, "the memory is not what was written");
    check!(memory.revoke().bytes() == expected, "revoking did not return what was written");
    side.meet().await
}

async fn large(side: &Side) -> Outcome {
    let vi = side.pair("large").await?;
    let len = side.profile.largest.min(1 << 20);
    if side.is_caller() {
        let [key] = keys(side, &vi).await?;
        let got = read(side, &vi, key.at(0), len).await?.ok()?;
        pattern::verify(5, got.into_buf().bytes())?;
        drop(write(side, &vi, key.at(0), 6, len).await?.ok()?);
        side.meet().await?;
        return side.meet().await;
    }
    let access = Access::READ | Access::WRITE;
    let memory = exposed(side, &side.another_pool(len, 1)?, 5, len, access)?;
    give(side, &vi, &[memory.key()]).await?;
    side.meet().await?;
    pattern::verify(6, memory.revoke().bytes())?;
    side.meet().await
}

async fn many_reads_at_once(side: &Side) -> Outcome {
    let vi = side.pair("many").await?;
    if !side.is_caller() {
        let memory = exposed(side, &side.another_pool(4096, 1)?, 1, 4_096, Access::READ)?;
        give(side, &vi, &[memory.key()]).await?;
        return side.meet().await;
    }
    let [key] = keys(side, &vi).await?;
    let whole = pattern::bytes(1, 4_096);
    let mut tickets = Vec::new();
    for number in 0..32 {
        let memory = Descriptor::new(side.pool.take(128)?);
        tickets.push(vi.post_read(memory, key.at(number * 128))?);
    }
    for _ in 0..32 {
        let got = side.done(vi.send_queue()).await?;
        let number = tickets.iter().position(|ticket| *ticket == got.ticket);
        let number = number.ok_or_else(|| Wrong::new("a read nobody posted"))?;
        let expected = &whole[number * 128..][..128];
        check!(got.into_buf().bytes() == expected, "read {number} brought other bytes");
    }
    side.meet().await
}

async fn writes_with_notice(side: &Side) -> Outcome {
    let vi = side.pair("notice").await?;
    if side.is_caller() {
        let [key] = keys(side, &vi).await?;
        vi.post_write_notify(Descriptor::new(side.buf(1, 100)?).with_tag(u64::MAX), key.at(50))?;
        vi.post_write_notify(Descriptor::new(side.buf(2, 100)?).with_tag(2), key.at(150))?;
        side.quiet(vi.recv_queue()).await?;
        side.meet().await?;
        for _ in 0..2 {
            check_eq!(side.done(vi.send_queue()).await?.op, OpKind::Write, "what completes");
        }
        return side.meet().await;
    }
    let memory = exposed(side, &side.another_pool(4096, 1)?, 9, 500, Access::WRITE)?;
    give(side, &vi, &[memory.key()]).await?;
    side.meet().await?;
    for (tag, seed, at) in [(u64::MAX, 1, 50), (2, 2, 150)] {
        side.post_recv(&vi, 10)?;
        let told = side.done(vi.recv_queue()).await?;
        check_eq!((told.tag, told.len), (tag, 0), "the notice of a write");
        let mut seen = [0; 100];
        memory.read_at(at, &mut seen);
        pattern::verify(seed, &seen)?;
    }
    side.quiet(vi.recv_queue()).await?;
    side.meet().await
}

/// A notice brings no bytes, so it has no memory made for it; the peer decides that.
async fn notices_without_memory(side: &Side) -> Outcome {
    let vi = side.pair("no memory").await?;
    if side.is_caller() {
        let [key] = keys(side, &vi).await?;
        for tag in 0..6 {
            let bytes = Descriptor::new(side.buf(tag, 100)?).with_tag(tag);
            vi.post_write_notify(bytes, key.at(0))?;
        }
        side.meet().await?;
        for _ in 0..6 {
            drop(side.done(vi.send_queue()).await?);
        }
        return side.meet().await;
    }
    let memory = exposed(side, &side.another_pool(4096, 1)?, 9, 100, Access::WRITE)?;
    give(side, &vi, &[memory.key()]).await?;
    side.meet().await?;
    let patience = Deadline::In(side.profile.patience);
    check_eq!(vi.recv::<u16>(10, patience)?, (vec![], 0), "a notice to a blocking receive");
    let got = vi.recv_into(&mut [1_u16; 10], patience)?;
    check_eq!(got, (0, 1), "a notice to a slice");
    vi.post_recv(Descriptor::fresh(1 << 20))?;
    let told = side.done(vi.recv_queue()).await?;
    check_eq!((told.tag, told.len, told.into_vec::<u8>()), (2, 0, vec![]), "to fresh bytes");
    vi.post_recv(Descriptor::new(Segment::fresh::<f64>(1 << 20)))?;
    let told = side.done(vi.recv_queue()).await?;
    check_eq!((told.tag, told.into_vec::<f64>()), (3, vec![]), "to fresh elements");
    for tag in 4..6 {
        vi.post_recv(Descriptor::handed(1 << 20))?;
        let told = side.done(vi.recv_queue()).await?;
        check_eq!(told.tag, tag, "a notice to a receive for a hand-over");
        let len = if tag == 4 { told.into_handed().len() } else { told.into_vec::<f64>().len() };
        check_eq!(len, 0, "what was handed over");
    }
    let bytes_of: [fn(Completion) -> Vec<u8>; 2] =
        [Completion::into_vec, |left| left.into_handed().to_vec()];
    for bytes_of in bytes_of {
        for descriptor in [Descriptor::fresh(10), Descriptor::handed(10)] {
            let ticket = vi.post_recv(descriptor)?;
            check!(vi.cancel(ticket), "a receive that nothing came for");
            let left = side.next(vi.recv_queue()).await?;
            check_eq!(left.status, Err(ViError::Cancelled), "a receive that was taken back");
            check_eq!(bytes_of(left), [], "memory of a receive that was taken back");
        }
    }
    side.meet().await
}

async fn among_messages(side: &Side) -> Outcome {
    let vi = side.pair("mixed").await?;
    let rounds = 10;
    if side.is_caller() {
        let [key] = keys(side, &vi).await?;
        for number in 0..rounds {
            vi.post_write(Descriptor::new(side.buf(number, 100)?), key.at(number * 100))?;
            side.post_send(&vi, number, 1_000)?;
        }
        for _ in 0..2 * rounds {
            drop(side.done(vi.send_queue()).await?);
        }
        side.meet().await?;
        return side.meet().await;
    }
    let memory = exposed(side, &side.another_pool(4096, 1)?, 99, 1_000, Access::WRITE)?;
    give(side, &vi, &[memory.key()]).await?;
    for number in 0..rounds {
        side.post_recv(&vi, 1_000)?;
        let got = side.done(vi.recv_queue()).await?;
        check_eq!(got.tag, number, "a message among writes");
        pattern::verify(number, got.into_buf().bytes())?;
        let mut seen = [0; 100];
        memory.read_at(usize::try_from(number)? * 100, &mut seen);
        pattern::verify(number, &seen)?;
    }
    side.meet().await?;
    side.meet().await
}
