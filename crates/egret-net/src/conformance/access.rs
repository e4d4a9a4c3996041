//! What protects the memory that remote reads and writes reach.

use super::case::list;
use super::check::{Outcome, check, check_eq, check_is};
use super::pattern;
use super::remote::{exposed, give, keys, read, write};
use super::side::Side;
use crate::buf::MemoryError;
use crate::rt::GivenBack;
use crate::vi::{Access, AccessError, Descriptor, OpKind, RemoteKey, RemoteSlice, Vi, ViError};

list! { "access":
    Once out_of_bounds,
    Once not_granted,
    Once revoked,
    Once refused_notice,
    Reception refused_notice_hurries_nothing,
    Once registered_once,
}

async fn refused_notice(side: &Side) -> Outcome {
    let vi = side.pair("refused notice").await?;
    if side.is_caller() {
        let [key] = keys(side, &vi).await?;
        vi.post_write_notify(Descriptor::new(side.buf(1, 100)?).with_tag(1), key.at(450))?;
        let refused = side.next(vi.send_queue()).await?;
        check_is!(refused.status, Err(ViError::RemoteAccess(_)), "a write past the end");
        side.post_send(&vi, 2, 10)?;
        check_eq!(side.done(vi.send_queue()).await?.tag, 2, "a message after a refused write");
        return side.meet().await;
    }
    let memory = exposed(side, &side.another_pool(4096, 1)?, 9, 500, Access::WRITE)?;
    side.post_recv(&vi, 10)?;
    give(side, &vi, &[memory.key()]).await?;
    let got = side.done(vi.recv_queue()).await?;
    check_eq!((got.tag, got.len), (2, 10), "the receive that a refused write left alone");
    pattern::verify(9, memory.revoke().bytes())?;
    side.meet().await
}

/// A send is not complete before it is received, whatever comes after it.
async fn refused_notice_hurries_nothing(side: &Side) -> Outcome {
    let vi = side.pair("no hurry").await?;
    if side.is_caller() {
        let [key] = keys(side, &vi).await?;
        side.post_send(&vi, 1, 10)?;
        vi.post_write_notify(Descriptor::new(side.buf(1, 100)?), key.at(450))?;
        loop {
            let done = side.next(vi.send_queue()).await?;
            if done.op == OpKind::Send {
                drop(done.ok()?);
                break;
            }
        }
        side.meet().await?;
        return side.meet().await;
    }
    let memory = exposed(side, &side.another_pool(4096, 1)?, 9, 500, Access::WRITE)?;
    side.post_recv(&vi, 10)?;
    side.post_recv(&vi, 10)?;
    give(side, &vi, &[memory.key()]).await?;
    side.meet().await?;
    let got = vi.recv_queue().poll();
    check_eq!(got.map(|got| got.tag), Some(1), "a message whose send is complete");
    side.meet().await
}

/// Reads and writes `len` bytes at the place, and both are refused with this.
async fn refused(
    side: &Side,
    vi: &Vi,
    place: RemoteSlice,
    len: usize,
    why: [AccessError; 2],
) -> Outcome {
    let done = read(side, vi, place, len).await?;
    check_eq!(done.status, Err(why[0].into()), "a read of {len} bytes at {place:?}");
    let done = write(side, vi, place, 66, len).await?;
    check_eq!(done.status, Err(why[1].into()), "a write of {len} bytes at {place:?}");
    check_eq!(vi.error(), None, "the connection after a refused access");
    Ok(())
}

async fn out_of_bounds(side: &Side) -> Outcome {
    let vi = side.pair("bounds").await?;
    let size = 1_000;
    if side.is_caller() {
        let [key] = keys(side, &vi).await?;
        let places = [
            (0, 1_001),
            (999, 2),
            (1_000, 1),
            (1_001, 0),
            (u64::MAX, 1),
            (u64::MAX, 2),
            (u64::MAX - 3, 8),
            (1 << 32, 10),
            (u64::MAX - 999, 1_000),
        ];
        for (offset, len) in places {
            let why = AccessError::OutOfBounds { offset, len: len as u64, size };
            refused(side, &vi, key.at(offset), len, [why; 2]).await?;
        }
        drop(read(side, &vi, key.at(999), 1).await?.ok()?);
        side.meet().await?;
        return side.meet().await;
    }
    let pool = side.another_pool(4096, 2)?;
    let access = Access::READ | Access::WRITE;
    // Another piece in the same region, which must not be reached.
    let before = exposed(side, &pool, 8, 1_000, access)?;
    let memory = exposed(side, &pool, 9, 1_000, access)?;
    give(side, &vi, &[memory.key()]).await?;
    side.meet().await?;
    pattern::verify(9, memory.revoke().bytes())?;
    pattern::verify(8, before.revoke().bytes())?;
    side.meet().await
}

async fn not_granted(side: &Side) -> Outcome {
    let vi = side.pair("granted").await?;
    if side.is_caller() {
        let [readable, writable] = keys(side, &vi).await?;
        check_eq!(readable.access(), Access::READ, "what a key says it grants");
        let done = write(side, &vi, readable.at(0), 66, 10).await?;
        let why = AccessError::Forbidden { asked: "write" };
        check_eq!(done.status, Err(why.into()), "a write with a key for reading");
        let done = read(side, &vi, writable.at(0), 10).await?;
        let why = AccessError::Forbidden { asked: "read" };
        check_eq!(done.status, Err(why.into()), "a read with a key for writing");
        let mut forged = readable.to_bytes();
        forged[RemoteKey::BYTES - 1] = 3;
        let forged = RemoteKey::from_bytes(&forged);
        check!(write(side, &vi, forged.at(0), 66, 10).await?.status.is_err(), "a forged grant");
        drop(write(side, &vi, writable.at(0), 2, 500).await?.ok()?);
        drop(read(side, &vi, readable.at(0), 500).await?.ok()?);
        side.meet().await?;
        return side.meet().await;
    }
    let pool = side.another_pool(4096, 2)?;
    let readable = exposed(side, &pool, 1, 500, Access::READ)?;
    let writable = exposed(side, &pool, 9, 500, Access::WRITE)?;
    give(side, &vi, &[readable.key(), writable.key()]).await?;
    side.meet().await?;
    pattern::verify(1, readable.revoke().bytes())?;
    pattern::verify(2, writable.revoke().bytes())?;
    side.meet().await
}

async fn revoked(side: &Side) -> Outcome {
    let vi = side.pair("revoked").await?;
    if side.is_caller() {
        let [key, kept] = keys(side, &vi).await?;
        drop(read(side, &vi, key.at(0), 100).await?.ok()?);
        side.meet().await?;
        side.meet().await?;
        refused(side, &vi, key.at(0), 100, [AccessError::Revoked; 2]).await?;
        let mut unknown = key.to_bytes();
        unknown[0] ^= 1;
        let unknown = RemoteKey::from_bytes(&unknown);
        refused(side, &vi, unknown.at(0), 100, [AccessError::Revoked; 2]).await?;
        drop(read(side, &vi, kept.at(0), 100).await?.ok()?);
        side.meet().await?;
        return side.meet().await;
    }
    let pool = side.another_pool(4096, 2)?;
    let access = Access::READ | Access::WRITE;
    let memory = exposed(side, &pool, 1, 100, access)?;
    let kept = exposed(side, &pool, 2, 100, access)?;
    give(side, &vi, &[memory.key(), kept.key()]).await?;
    side.meet().await?;
    let buf = memory.revoke();
    side.meet().await?;
    side.meet().await?;
    pattern::verify(1, buf.bytes())?;
    side.meet().await
}

async fn registered_once(side: &Side) -> Outcome {
    let pool = side.another_pool(4096, 4)?;
    let region = pool.region();
    let bytes = region.len() as u64;
    let first = side.nic.register(region)?;
    let second = side.nic.register(region)?;
    check_eq!(side.nic.registered(), bytes, "bytes of one region registered twice");
    drop(first);
    let shown = side.nic.expose(pool.take(10)?, Access::READ)?;
    drop(second);
    check_eq!(side.nic.registered(), bytes, "bytes registered while a buffer is exposed");
    check!(region.is_pinned(), "exposed memory is not pinned");
    drop(shown);
    check_eq!(side.nic.registered(), 0, "bytes registered at the end");
    check!(!region.is_pinned(), "memory is pinned that is not registered");
    let nothing = Access { read: false, write: false };
    let refused = side.nic.expose(pool.take(10)?, nothing).err();
    check_is!(
        refused,
        Some(GivenBack { why: MemoryError::NoAccess, what: buf }) if buf.len() == 10,
        "a key that grants nothing"
    );
    Ok(())
}
