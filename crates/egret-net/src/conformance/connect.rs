//! Connecting: who finds whom, and who is told why not.

use std::time::Duration;

use super::case::list;
use super::check::{Outcome, Wrong, check, check_eq, check_is};
use super::side::Side;
use crate::rt::Deadline;
use crate::vi::{Address, ConnectError, Descriptor, OpenError, Reliability, ViOptions};

list! { "connect":
    Every by_service_and_tag,
    Every nobody_listens,
    Every told_at_once,
    Every nobody_accepts,
    Every before_the_listener,
    Every taken,
    Every other_level,
    Reliable two_at_once,
    Every given_up,
    Strongest to_itself,
}

/// How long the connections may try that must fail.
const LONG_ENOUGH: Duration = Duration::from_secs(1);

async fn by_service_and_tag(side: &Side) -> Outcome {
    let (seven, eight) = (side.address("door", 7), side.address("door", 8));
    let options = side.options();
    let (first, second) = if side.is_caller() {
        let first = side.connect(&seven, &options).await?;
        (first, side.connect(&eight, &options).await?)
    } else {
        let other = side.listen(&eight, &options)?;
        let listener = side.listen(&seven, &options)?;
        let first = side.accept(&listener).await?;
        check!(listener.poll_accept()?.is_none(), "one caller was accepted twice");
        (first, side.accept(&other).await?)
    };
    side.meet().await?;
    check!(first.id() != second.id(), "two connections have one number");
    for vi in [&first, &second] {
        check_eq!(vi.peer(), side.peer, "the peer's name");
        check_eq!(vi.reliability(), side.level, "the level");
        check_eq!(vi.error(), None, "a new connection's error");
    }
    side.meet().await
}

async fn nobody_listens(side: &Side) -> Outcome {
    let here = side.address("here", 1);
    if !side.is_caller() {
        let listener = side.listen(&here, &side.options())?;
        side.meet().await?;
        side.meet().await?;
        check!(listener.poll_accept()?.is_none(), "a caller with the wrong tag came through");
        return Ok(());
    }
    side.meet().await?;
    let elsewhere = side.address("elsewhere", 1);
    let refused = refusal(side, &elsewhere).await?;
    check_is!(
        refused,
        ConnectError::NotListening { to, waited } if **to == elsewhere && *waited >= LONG_ENOUGH,
        "a connection to {elsewhere}"
    );
    let wrong_tag = Address { tag: 2, ..here };
    let refused = refusal(side, &wrong_tag).await?;
    check_is!(
        refused,
        ConnectError::OtherTag { to, waited } if **to == wrong_tag && *waited >= LONG_ENOUGH,
        "a connection to {wrong_tag}"
    );
    let nowhere = Address::new("no such host", "here", 1);
    let refused = refusal(side, &nowhere).await?;
    check_is!(
        refused,
        ConnectError::UnknownHost { host, .. } if *host == nowhere.host,
        "a connection to {nowhere}"
    );
    side.meet().await
}

/// Who does not wait for a listener is told long before its deadline: that is ten minutes, and
/// a case takes one at most.
async fn told_at_once(side: &Side) -> Outcome {
    let (here, options) = (side.address("here", 1), side.options().at_once());
    if !side.is_caller() {
        let listener = side.listen(&here, &options)?;
        side.meet().await?;
        drop(side.accept(&listener).await?);
        return side.meet().await;
    }
    side.meet().await?;
    let for_long = Deadline::In(Duration::from_secs(600));
    let elsewhere = side.address("elsewhere", 1);
    let refused = side.must("an answer", side.nic.connect(&elsewhere, &options, for_long)).await?;
    check_is!(
        refused,
        Err(ConnectError::NotListening { to, .. }) if **to == elsewhere,
        "a connection to {elsewhere}"
    );
    let wrong_tag = Address { tag: 2, ..here.clone() };
    let refused = side.must("an answer", side.nic.connect(&wrong_tag, &options, for_long)).await?;
    check_is!(
        refused,
        Err(ConnectError::OtherTag { to, .. }) if **to == wrong_tag,
        "a connection to {wrong_tag}"
    );
    let vi = side.must("a connection", side.nic.connect(&here, &options, for_long)).await??;
    check_eq!(vi.peer(), side.peer, "who listens is found");
    drop(vi);
    side.meet().await
}

/// Why a connection was not made.
async fn refusal(side: &Side, to: &Address) -> Result<ConnectError, Wrong> {
    refusal_within(side, to, LONG_ENOUGH).await
}

/// The same, if the connection may try for so long.
async fn refusal_within(
    side: &Side,
    to: &Address,
    within: Duration,
) -> Result<ConnectError, Wrong> {
    let options = side.options();
    let connecting = side.nic.connect(to, &options, Deadline::In(within));
    match side.must("an answer", connecting).await? {
        Err(why) => Ok(why),
        Ok(vi) => Err(Wrong::new(format!("{to} was connected to {}", vi.peer()))),
    }
}

async fn nobody_accepts(side: &Side) -> Outcome {
    let to = side.address("busy", 0);
    if !side.is_caller() {
        let listener = side.listen(&to, &side.options())?;
        side.meet().await?;
        side.meet().await?;
        drop(listener);
        return Ok(());
    }
    side.meet().await?;
    let refused = refusal(side, &to).await?;
    check_is!(
        refused,
        ConnectError::NotAccepted { to: named, waited } if **named == to && *waited >= LONG_ENOUGH,
        "a connection that nobody accepted"
    );
    side.meet().await
}

async fn before_the_listener(side: &Side) -> Outcome {
    let (to, options) = (side.address("late", 0), side.options());
    let patience = Deadline::In(side.profile.patience);
    let vi = if side.is_caller() {
        let connecting = side.nic.connect(&to, &options, patience);
        side.meet().await?;
        side.must("a connection", connecting).await??
    } else {
        side.meet().await?;
        side.pause(Duration::from_millis(50)).await;
        let listener = side.listen(&to, &options)?;
        side.accept(&listener).await?
    };
    side.meet().await?;
    check_eq!(vi.peer(), side.peer, "the peer's name");
    check_eq!(vi.error(), None, "a new connection's error");
    side.meet().await
}

async fn taken(side: &Side) -> Outcome {
    let Address { service, .. } = side.address("taken", 0);
    let listen = |service: &str, tag| side.nic.listen(service, tag, &side.options());
    let first = listen(&service, 1)?;
    let again = listen(&service, 1).err();
    check_is!(
        again,
        Some(OpenError::ServiceTaken { service: named, tag: 1 }) if *named == service,
        "a second listener"
    );
    drop(listen(&service, 2)?);
    drop(first);
    drop(listen(&service, 1)?);
    drop(listen(&"n".repeat(255), 1)?);
    let too_long = listen(&"n".repeat(256), 1).err();
    check_is!(too_long, Some(OpenError::NameTooLong { bytes: 256 }), "a long name");
    Ok(())
}

async fn other_level(side: &Side) -> Outcome {
    let offered = side.nic.limits();
    let to = side.address("levels", 0);
    for level in [Reliability::Unreliable, Reliability::Delivery, Reliability::Reception] {
        let options = ViOptions::of(level);
        if !offered.offers(level) {
            let refused = side.nic.listen(&to.service, 9, &options).err();
            check_eq!(refused, Some(OpenError::Unsupported(level)), "listening");
        } else if level != side.level {
            let listener = if side.is_caller() { None } else { Some(side.listen(&to, &options)?) };
            side.meet().await?;
            if side.is_caller() {
                let refused = refusal_within(side, &to, side.profile.patience).await?;
                let named = ConnectError::ReliabilityMismatch { ours: side.level, theirs: level };
                check_eq!(refused, named, "connecting to a listener of another level");
            }
            side.meet().await?;
            drop(listener);
        }
    }
    Ok(())
}

async fn two_at_once(side: &Side) -> Outcome {
    let (to, options) = (side.address("both", 0), side.options());
    if side.is_caller() {
        let patience = Deadline::In(side.profile.patience);
        let one = side.nic.connect(&to, &options, patience);
        let other = side.nic.connect(&to, &options, patience);
        let other = side.must("the second connection", other).await??;
        let one = side.must("the first connection", one).await??;
        for (vi, tag) in [(&one, 1), (&other, 2)] {
            vi.post_recv(Descriptor::empty())?;
            vi.post_send(Descriptor::empty().with_tag(tag))?;
        }
        for (vi, tag) in [(&other, 2), (&one, 1)] {
            check_eq!(side.done(vi.recv_queue()).await?.tag, tag, "what came back");
        }
        return side.meet().await;
    }
    let listener = side.listen(&to, &options)?;
    let vis = [side.accept(&listener).await?, side.accept(&listener).await?];
    for vi in &vis {
        vi.post_recv(Descriptor::empty())?;
        let tag = side.done(vi.recv_queue()).await?.tag;
        vi.post_send(Descriptor::empty().with_tag(tag))?;
    }
    side.meet().await
}

async fn given_up(side: &Side) -> Outcome {
    let (to, options) = (side.address("given up", 0), side.options());
    if side.is_caller() {
        let patience = Deadline::In(side.profile.patience);
        drop(side.nic.connect(&to, &options, patience));
    }
    side.meet().await?;
    side.pause(side.profile.quiet).await;
    drop(side.pair("kept").await?);
    side.meet().await
}

async fn to_itself(side: &Side) -> Outcome {
    let (here, there) = side.own_pair("mirror").await?;
    check_eq!(here.peer(), side.nic.host(), "the peer of a connection to itself");
    check_eq!(there.peer(), side.nic.host(), "the peer of a connection to itself");
    if side.level.is_reliable() {
        side.post_recv(&there, 256)?;
        side.post_send(&here, 5, 100)?;
        let got = side.done(there.recv_queue()).await?;
        check_eq!((got.tag, got.len), (5, 100), "a message to itself");
        drop(side.done(here.send_queue()).await?);
    }
    Ok(())
}
