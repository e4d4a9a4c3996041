//! The death of a peer: known in time, everything back, the rest goes on.

use super::case::list;
use super::check::{Outcome, Wrong, check_eq, check_is};
use super::pattern;
use super::side::Side;
use crate::rt::Deadline;
use crate::vi::{Access, CompletionQueue, Descriptor, OpKind, PostError, RemoteKey, Vi, ViError};

list! { "death":
    Kills known_to_all,
    Kills nothing_is_said_to_have_arrived,
    Kills not_connected,
}

/// The answerer waits for its end.
pub(super) async fn be_killed(side: &Side) -> Outcome {
    side.pause(side.profile.patience).await;
    Err(Wrong::new("the answerer was not killed"))
}

/// The next completion says in time that the peer died.
async fn died(side: &Side, queue: &CompletionQueue, op: OpKind) -> Outcome {
    let back =
        side.within("a completion after the death", side.profile.death, queue.next()).await?;
    check_eq!(back.op, op, "what came back");
    check_is!(back.status, Err(ViError::PeerDied { .. }), "its status");
    Ok(())
}

fn broken(vi: &Vi) -> Outcome {
    check_is!(vi.error(), Some(ViError::PeerDied { .. }), "the error state");
    let refused = vi.post_send(Descriptor::empty()).err().map(|refused| refused.why);
    check_is!(refused, Some(PostError::Broken(ViError::PeerDied { .. })), "a later post");
    Ok(())
}

async fn known_to_all(side: &Side) -> Outcome {
    let (receiving, sending) = (side.pair("receiving").await?, side.pair("sending").await?);
    if !side.is_caller() {
        side.meet().await?;
        return be_killed(side).await;
    }
    let (here, there) = side.own_pair("alive").await?;
    side.post_recv(&there, 1_000)?;
    for number in 0..2 {
        side.post_recv(&receiving, 100)?;
        side.post_send(&sending, number, 5_000)?;
    }
    side.quiet(sending.send_queue()).await?;
    side.meet().await?;
    side.kill_peer()?;
    for _ in 0..2 {
        died(side, receiving.recv_queue(), OpKind::Recv).await?;
        died(side, sending.send_queue(), OpKind::Send).await?;
    }
    broken(&receiving)?;
    broken(&sending)?;
    check_eq!(there.error(), None, "the error state of another connection");
    side.post_send(&here, 7, 700)?;
    let got = side.done(there.recv_queue()).await?;
    pattern::verify(7, got.into_buf().bytes())?;
    drop(side.done(here.send_queue()).await?);
    Ok(())
}

async fn nothing_is_said_to_have_arrived(side: &Side) -> Outcome {
    let vi = side.pair("dead letters").await?;
    if !side.is_caller() {
        let pool = side.another_pool(4096, 1)?;
        let memory = side.nic.expose(pool.take(100)?, Access::READ | Access::WRITE)?;
        vi.post_send(Descriptor::new(memory.key().to_bytes().to_vec()))?;
        for _ in 0..2 {
            side.post_recv(&vi, 100)?;
        }
        side.meet().await?;
        return be_killed(side).await;
    }
    side.post_recv(&vi, RemoteKey::BYTES)?;
    let key = side.done(vi.recv_queue()).await?.into_buf();
    let key = RemoteKey::from_bytes(key.bytes().try_into()?);
    side.post_send(&vi, 0, 100)?;
    drop(side.done(vi.send_queue()).await?);
    side.meet().await?;
    side.kill_peer()?;
    // A receive is posted for this one, by nobody who lives.
    side.post_send(&vi, 1, 100)?;
    vi.post_read(Descriptor::new(side.pool.take(100)?), key.at(0))?;
    vi.post_write(Descriptor::new(side.pool.take(100)?), key.at(0))?;
    for op in [OpKind::Send, OpKind::Read, OpKind::Write] {
        died(side, vi.send_queue(), op).await?;
    }
    broken(&vi)
}

async fn not_connected(side: &Side) -> Outcome {
    let vi = side.pair("before").await?;
    let to = side.address("after", 0);
    if !side.is_caller() {
        let _listener = side.listen(&to, &side.options())?;
        side.meet().await?;
        return be_killed(side).await;
    }
    side.meet().await?;
    side.kill_peer()?;
    let deadline = Deadline::In(side.profile.death);
    let connecting = side.nic.connect(&to, &side.options(), deadline);
    let made = side.must("an answer", connecting).await?;
    check_is!(made, Err(_), "a connection to a peer that died");
    drop(vi);
    Ok(())
}
