//! A member that has lost its link to the registry makes another one, if the registry remembers it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};

use super::names::answer;
use super::questions::RegistryDesk;
use super::view::{PoolWatch, RegistryFollow};
use crate::Links;
use crate::am::{EndpointName, Message};
use crate::pool::wire::{ASK, ENDPOINT, RegistryAnswer, RegistryQuestion, VERSION};
use crate::pool::{NodeError, RegistryRefusal};

/// What came of one attempt.
enum Attempt {
    Reached(Arc<RegistryDesk>),
    /// The registry does not know the node as a member any more.
    Refused(RegistryRefusal),
    /// The registry was not reached, for this reason.
    Failed(String),
    /// The node is closed.
    Over,
}

/// Makes a link to the registry until there is one, the grace is over, or the registry refuses.
pub(super) async fn come_back(watch: Arc<PoolWatch>) {
    let Some(follow) = watch.following() else { return };
    let (started, until) = (rt::now(), follow.grace.until());
    let mut pause = PAUSE_LEAST;
    loop {
        let last = match attempt(&watch, follow).await {
            Attempt::Reached(desk) => return watch.come_back(desk),
            Attempt::Refused(RegistryRefusal::Fenced { why }) => return watch.was_fenced(&why),
            Attempt::Refused(why @ RegistryRefusal::Unwritten { .. }) => why.to_string(),
            Attempt::Refused(why) => return watch.lose(&why.to_string()),
            Attempt::Over => return,
            Attempt::Failed(why) => why,
        };
        if until.is_some_and(|until| rt::now() >= until) {
            let tried = rt::now() - started;
            return watch.lose(&format!(
                "it could not be reached at {} for {tried:.1?} (EGRET_REGISTRY_GRACE): {last}",
                follow.address
            ));
        }
        // Members that have lost it together do not all come back together.
        let jitter = pause.mul_f64((rt::random() % 1024) as f64 / 1024.0);
        sleep(&watch.links, pause + jitter).await;
        pause = (2 * pause).min(PAUSE_MOST);
    }
}

async fn attempt(watch: &PoolWatch, follow: &RegistryFollow) -> Attempt {
    let Some(endpoint) = follow.endpoint.upgrade().filter(|_| watch.is_open()) else {
        return Attempt::Over;
    };
    let until = rt::now() + ATTEMPT;
    let to = EndpointName::new(&follow.address, ENDPOINT, 0);
    let map = || within(&watch.links, until, endpoint.map(&to, &[], Deadline::In(ATTEMPT)));
    let mut mapped = Vec::new();
    for _ in 0..2 {
        match map().await {
            Some(Ok(remote)) => mapped.push(remote),
            Some(Err(why)) => return Attempt::Failed(why.to_string()),
            None => return Attempt::Failed(format!("it has not answered within {ATTEMPT:?}")),
        }
    }
    let (Some(follows), Some(asks)) = (mapped.pop(), mapped.pop()) else { return Attempt::Over };
    let bytes = RegistryQuestion::Resume { id: follow.own, next: watch.next() }.to_bytes();
    let call = match asks.try_request(Message::to(ASK).words(&[VERSION]).bytes(&bytes)) {
        Ok(call) => call,
        Err(unsent) => return Attempt::Failed(unsent.why.to_string()),
    };
    match within(&watch.links, until, call).await.map(answer) {
        Some(Ok(RegistryAnswer::Welcome { id, .. })) if id == follow.own => {
            Attempt::Reached(Arc::new(RegistryDesk { follows, asks }))
        }
        Some(Err(NodeError::Refused(why))) => Attempt::Refused(why),
        Some(Err(why)) => Attempt::Failed(why.to_string()),
        Some(Ok(_)) => Attempt::Failed(NodeError::OtherAnswer.to_string()),
        None => Attempt::Failed(format!("it has not answered within {ATTEMPT:?}")),
    }
}

/// Awaits a future until a moment.
pub(super) async fn within<F: Future>(
    links: &Links,
    until: Instant,
    future: F,
) -> Option<F::Output> {
    let (mut future, mut alarm) = (pin!(future), None);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if rt::now() >= until => Poll::Ready(None),
        Poll::Pending => {
            alarm = Some(links.alarm(until, context.waker()));
            Poll::Pending
        }
    })
    .await
}

/// Waits for so long, woken by the driver of the links.
pub(super) async fn sleep(links: &Links, time: Duration) {
    _ = within(links, rt::now() + time, std::future::pending::<()>()).await;
}

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Time until the next attempt, which doubles.
const PAUSE_LEAST: Duration = Duration::from_millis(10);
const PAUSE_MOST: Duration = Duration::from_millis(500);
