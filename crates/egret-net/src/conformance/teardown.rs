//! Ends of connections: everything comes back, and says why.

use std::time::Duration;

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq, check_is};
use super::pattern;
use super::side::Side;
use crate::rt::Deadline;
use crate::vi::{ConnectError, Descriptor, PostError, Vi, ViError};

list! { "teardown":
    Reliable disconnected,
    Reliable dropped,
    Unreliable disconnected_unreliable,
    Reception nothing_is_lost,
    Every dropped_listener,
    Reliable again_and_again,
}

/// Two connections: everything is outstanding on the caller's end of the first
/// and on the answerer's end of the second. The caller ends both in some way.
async fn outstanding(side: &Side) -> Result<[Vi; 2], Wrong> {
    let vis = [side.pair("of the caller").await?, side.pair("of the answerer").await?];
    let own = &vis[usize::from(!side.is_caller())];
    for number in 0..3 {
        side.post_recv(own, 100)?;
        side.post_send(own, number, 5_000)?;
    }
    // Time for the other side to hear of the receives.
    side.quiet(own.send_queue()).await?;
    side.meet().await?;
    Ok(vis)
}

/// Everything comes back, failed for this reason, and the connection is over.
async fn over(side: &Side, vi: &Vi, why: &ViError) -> Outcome {
    for queue in [vi.recv_queue(), vi.send_queue()] {
        for number in 0..3 {
            let back = side.next(queue).await?;
            check_eq!(back.status, Err(why.clone()), "{:?} number {number}", back.op);
        }
        check_eq!(queue.outstanding(), 0, "descriptors outstanding");
    }
    refuses(vi, why)
}

fn refuses(vi: &Vi, why: &ViError) -> Outcome {
    check_eq!(vi.error(), Some(why.clone()), "the error state");
    for posted in [vi.post_recv(Descriptor::empty()), vi.post_send(Descriptor::empty())] {
        let reason = posted.err().map(|refused| refused.why);
        check_is!(reason, Some(PostError::Broken(named)) if named == why, "a later post");
    }
    Ok(())
}

async fn disconnected(side: &Side) -> Outcome {
    let [callers, answerers] = outstanding(side).await?;
    if side.is_caller() {
        for vi in [&callers, &answerers] {
            vi.disconnect();
            let left = vi.recv_queue().outstanding() + vi.send_queue().outstanding();
            check_eq!(left, 0, "descriptors outstanding after closing");
        }
        over(side, &callers, &ViError::Closed).await?;
        refuses(&answerers, &ViError::Closed)?;
        callers.disconnect();
        check_eq!(callers.error(), Some(ViError::Closed), "closed once more");
    } else {
        over(side, &answerers, &ViError::ClosedByPeer).await?;
        answerers.disconnect();
        check_eq!(answerers.error(), Some(ViError::ClosedByPeer), "closed on this side too");
    }
    side.meet().await
}

async fn dropped(side: &Side) -> Outcome {
    let [callers, answerers] = outstanding(side).await?;
    if side.is_caller() {
        let queues = [callers.recv_queue().clone(), callers.send_queue().clone()];
        drop((callers, answerers));
        for queue in queues {
            check_eq!(queue.outstanding(), 0, "descriptors of a connection that was dropped");
            for _ in 0..3 {
                let back = queue.poll().ok_or_else(|| Wrong::new("a descriptor is missing"))?;
                check_eq!(back.status, Err(ViError::Closed), "{:?}", back.op);
            }
        }
    } else {
        over(side, &answerers, &ViError::ClosedByPeer).await?;
    }
    side.meet().await
}

async fn disconnected_unreliable(side: &Side) -> Outcome {
    let vi = side.pair("unreliable").await?;
    for _ in 0..3 {
        side.post_recv(&vi, 100)?;
    }
    side.meet().await?;
    let why = if side.is_caller() { ViError::Closed } else { ViError::ClosedByPeer };
    if side.is_caller() {
        vi.disconnect();
        check_eq!(vi.recv_queue().outstanding(), 0, "receives outstanding after closing");
    }
    for _ in 0..3 {
        check_eq!(side.next(vi.recv_queue()).await?.status, Err(why.clone()), "a receive");
    }
    refuses(&vi, &why)?;
    side.meet().await
}

async fn nothing_is_lost(side: &Side) -> Outcome {
    let vi = side.pair("last words").await?;
    if side.is_caller() {
        side.meet().await?;
        for number in 0..5 {
            side.post_send(&vi, number, 2_000)?;
        }
        for _ in 0..5 {
            drop(side.done(vi.send_queue()).await?);
        }
        drop(vi);
        side.meet().await?;
        return side.meet().await;
    }
    for _ in 0..7 {
        side.post_recv(&vi, 2_000)?;
    }
    side.meet().await?;
    side.meet().await?;
    side.pause(side.profile.quiet).await;
    for number in 0..5 {
        let got = side.done(vi.recv_queue()).await?;
        check_eq!(got.tag, number, "a message sent before the end");
        pattern::verify(number, got.into_buf().bytes())?;
    }
    for _ in 0..2 {
        let back = side.next(vi.recv_queue()).await?;
        check_eq!(back.status, Err(ViError::ClosedByPeer), "a receive left over");
    }
    side.meet().await
}

async fn dropped_listener(side: &Side) -> Outcome {
    let (to, options) = (side.address("gone", 0), side.options());
    if !side.is_caller() {
        let listener = side.listen(&to, &options)?;
        side.meet().await?;
        side.pause(side.profile.quiet).await;
        drop(listener);
        side.meet().await?;
        let listener = side.listen(&to, &options)?;
        side.meet().await?;
        check_eq!(side.accept(&listener).await?.peer(), side.peer, "the next caller");
        return side.meet().await;
    }
    side.meet().await?;
    // Longer than the other side takes to drop it, also on a busy machine.
    let waiting = side.nic.connect(&to, &options, Deadline::In(Duration::from_secs(4)));
    let refused = side.must("an answer", waiting).await?.err();
    check_is!(
        refused,
        Some(ConnectError::NotListening { to: named, .. }) if **named == to,
        "a connection to a listener that was dropped"
    );
    side.meet().await?;
    side.meet().await?;
    let vi = side.connect(&to, &options).await?;
    side.meet().await?;
    check!(vi.peer() == side.peer, "connected to {}", vi.peer());
    Ok(())
}

async fn again_and_again(side: &Side) -> Outcome {
    for round in 0..10 {
        let vi = side.pair("again").await?;
        if side.is_caller() {
            side.post_send(&vi, round, 100)?;
            drop(side.done(vi.send_queue()).await?);
        } else {
            side.post_recv(&vi, 100)?;
            let got = side.done(vi.recv_queue()).await?;
            check_eq!(got.tag, round, "the message of round {round}");
        }
        side.meet().await?;
        if round % 2 == 0 {
            vi.disconnect();
        }
    }
    side.meet().await
}
