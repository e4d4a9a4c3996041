//! Joining a pool.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::vi::{PublicKey, Secret};

use super::handle::NodeHandle;
use super::launched::{self, LaunchedJoin};
use super::names::answer;
use super::open::OpenedFabrics;
use super::probe::ProbeServer;
use super::questions::{RegistryDesk, is_of_lost_link};
use super::resume::sleep;
use super::view::{PoolWatch, RegistryFollow};
use super::{Node, panic, place};
use crate::am::{Endpoint, EndpointName, Message, MessageError, RemoteEndpoint};
use crate::in_handler::in_handler;
use crate::pool::wire::{ASK, ENDPOINT, JoinRequest, RegistryAnswer, RegistryQuestion, VERSION};
use crate::pool::{FabricOffer, JoinError, NodeError, NodeId, RegistryRefusal};
use crate::settings::{Config, SettingKey};
use crate::{Alarm, Links};

/// A node that is joining: a future of the [`Node`]; made by [`Node::begin_join`]. Dropping it gives up.
///
/// ```
/// use egret_node::node::{Config, JoinError, Node};
///
/// async fn join() -> Result<Node, JoinError> {
///     Node::begin_join(Config::from_env()?)?.await
/// }
/// ```
#[must_use = "the node joins when this is awaited"]
pub struct Joining {
    future: Pin<Box<dyn Future<Output = Result<Node, JoinError>> + Send>>,
}

impl Future for Joining {
    type Output = Result<Node, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.future.as_mut().poll(context)
    }
}

impl fmt::Debug for Joining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joining").finish_non_exhaustive()
    }
}

/// Joins, on the calling thread.
pub(super) fn join(config: &Config) -> Result<Node, JoinError> {
    if in_handler() {
        return Err(JoinError::InHandler);
    }
    let launched = launched::meet(config)?;
    let node = join_at(launched.as_ref().map_or(config, |(config, _)| config))?;
    Ok(kept(node, launched))
}

fn join_at(config: &Config) -> Result<Node, JoinError> {
    let (terms, opened) = (JoinParameters::of(config)?, OpenedFabrics::of(config)?);
    let (control, until) = (opened.control.clone(), terms.until);
    let mut joining = Box::pin(run(opened, terms));
    loop {
        // When its time is over it is polled once more, and says so.
        if let Some(joined) = control.wait_on(joining.as_mut(), left(until)) {
            return joined;
        }
    }
}

/// What is left of the time to join.
fn left(until: Option<Instant>) -> Deadline {
    until.map_or(Deadline::UntilDead, |until| Deadline::In(until.since(rt::now())))
}

/// Gives the node the registry that was opened for it.
fn kept(mut node: Node, launched: Option<LaunchedJoin>) -> Node {
    node.registry = launched.and_then(|(_, keeper)| keeper);
    node
}

pub(super) fn begin(config: &Config) -> Result<Joining, JoinError> {
    if config.settings.task().is_some() && config.over.is_none() {
        let config = config.clone();
        let future = async move {
            let launched = launched::meet_elsewhere(config.clone()).await?;
            let config = launched.as_ref().map_or(&config, |(config, _)| config);
            let (terms, opened) = (JoinParameters::of(config)?, OpenedFabrics::of(config)?);
            Ok(kept(run(opened, terms).await?, launched))
        };
        return Ok(Joining { future: Box::pin(future) });
    }
    let (terms, opened) = (JoinParameters::of(config)?, OpenedFabrics::of(config)?);
    Ok(Joining { future: Box::pin(run(opened, terms)) })
}

/// What the settings say about joining.
struct JoinParameters {
    address: String,
    /// The key that the registry must prove, if the secret says so.
    key: Option<PublicKey>,
    deadline: Deadline,
    until: Option<Instant>,
    join: JoinRequest,
    job: bool,
    /// How long the registry may be out of reach.
    grace: Deadline,
}

impl JoinParameters {
    fn of(config: &Config) -> Result<Self, JoinError> {
        let settings = &config.settings;
        let deadline: Deadline = settings.needed(SettingKey::Deadline)?;
        let job = settings.value::<String>(SettingKey::Job)?.is_some();
        let join = JoinRequest {
            pool: settings.needed(SettingKey::Pool)?,
            size: settings.value(SettingKey::Size)?,
            rank: settings.value(SettingKey::Rank)?,
            is_open: config.is_open,
            machine: String::new(),
            location: settings.value(SettingKey::Location)?.unwrap_or_default(),
            fabrics: Vec::new(),
        };
        let address: String = settings.needed(SettingKey::Registry)?;
        let secret = settings.secret()?;
        let key = secret.as_ref().and_then(Secret::key);
        if config.over.is_none() && key.is_none() && secret.is_some_and(|it| !it.is_random()) {
            return Err(JoinError::KeyUnknown { address });
        }
        let grace = settings.needed(SettingKey::RegistryGrace)?;
        Ok(Self { address, key, deadline, until: deadline.until(), join, job, grace })
    }

    fn lost(&self, why: impl fmt::Display) -> JoinError {
        JoinError::Lost { address: self.address.clone(), why: why.to_string() }
    }
}

async fn run(opened: OpenedFabrics, mut terms: JoinParameters) -> Result<Node, JoinError> {
    let started = rt::now();
    let offers = opened.fabrics.iter().zip(&opened.properties);
    let offers = offers.map(|((name, links), is)| FabricOffer::new(name, links.host(), is.clone()));
    terms.join.fabrics = offers.collect();
    terms.join.machine = place::machine(opened.control.host());
    terms.join.location = place::location(terms.join.location, opened.control.host());
    opened.control.allow_calling(&terms.address, terms.key);
    let probes = ProbeServer::open(&opened.fabrics);
    let endpoint = Arc::new(opened.control.bundle().endpoint(0));
    let watch = PoolWatch::new(&opened.control, &endpoint);
    let (desk, welcome) = loop {
        match ask_to_join(&endpoint, &opened.control, &terms, started).await {
            // The registry may be started again.
            Err(JoinAttempt::LinkLost(_)) if !terms.is_late() => {
                sleep(&opened.control, LATER).await;
            }
            Err(JoinAttempt::LinkLost(why)) => return Err(terms.lost(why)),
            Err(JoinAttempt::Failed(why)) => return Err(why),
            Ok(joined) => break joined,
        }
    };
    let JoinWelcome { id, size, is_open, heard, is_kept } = welcome;
    opened.fabrics.iter().for_each(|(_, links)| links.set_pool_size(size));
    opened.control.set_pool_size(size);
    let closed_size = (!is_open).then_some(size);
    let following = RegistryFollow {
        own: id,
        address: terms.address.clone(),
        endpoint: Arc::downgrade(&endpoint),
        is_kept,
        grace: terms.grace,
        heard,
        fabrics: opened.fabrics.clone(),
    };
    let abandoned = AbandonedJoin(Some(Arc::clone(&watch)));
    watch.follow(closed_size, following, desk);
    seen(&watch, &opened.control, id, &terms, started).await?;
    abandoned.disarm();
    panic::install(terms.job);
    let JoinParameters { join, deadline, .. } = terms;
    let handle = NodeHandle::new(opened, watch, endpoint, (id, closed_size, join.pool, deadline));
    handle.part(|| probes);
    Ok(Node::of(handle))
}

/// Closes the watch of a node that gives up, or is given up, before its program has it: the watch makes no link to the
/// registry again.
struct AbandonedJoin(Option<Arc<PoolWatch>>);

impl AbandonedJoin {
    /// The program has the node from now on.
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for AbandonedJoin {
    fn drop(&mut self) {
        if let Some(watch) = &self.0 {
            watch.close();
        }
    }
}

/// Why one attempt to join came to nothing.
enum JoinAttempt {
    /// The link to the registry has ended.
    LinkLost(MessageError),
    Failed(JoinError),
}

impl JoinAttempt {
    fn of(why: MessageError, failed: impl FnOnce(MessageError) -> JoinError) -> Self {
        if is_of_lost_link(&why) { Self::LinkLost(why) } else { Self::Failed(failed(why)) }
    }
}

/// The registry's answer to a node that has joined.
struct JoinWelcome {
    id: NodeId,
    /// The size of a closed pool, or how many members an open one has at most at a time.
    size: u32,
    is_open: bool,
    heard: Duration,
    is_kept: bool,
}

/// Makes a link to the registry, and requests to be a member.
async fn ask_to_join(
    endpoint: &Endpoint,
    control: &Links,
    terms: &JoinParameters,
    started: Instant,
) -> Result<(RegistryDesk, JoinWelcome), JoinAttempt> {
    let asks = map(endpoint, terms).await?;
    let follows = map(endpoint, terms).await?;
    let welcome = welcome(&asks, control, terms, started).await?;
    Ok((RegistryDesk { follows, asks }, welcome))
}

/// Maps the endpoint of the registry.
async fn map(endpoint: &Endpoint, terms: &JoinParameters) -> Result<RemoteEndpoint, JoinAttempt> {
    let to = EndpointName::new(&terms.address, ENDPOINT, 0);
    let mapped = endpoint.map(&to, &[], left(terms.until)).await;
    let address = || terms.address.clone();
    let failed = |why| JoinError::NoRegistry { address: address(), why };
    mapped.map_err(|why| JoinAttempt::of(why, failed))
}

/// Requests to be a member. A rank whose former life has just ended is requested again: the registry
/// may not know yet.
async fn welcome(
    asks: &RemoteEndpoint,
    control: &Links,
    terms: &JoinParameters,
    started: Instant,
) -> Result<JoinWelcome, JoinAttempt> {
    let lost = |why: MessageError| JoinAttempt::of(why, |why| terms.lost(why));
    let bytes = RegistryQuestion::Join(terms.join.clone()).to_bytes();
    loop {
        let message = Message::to(ASK).words(&[VERSION]).bytes(&bytes);
        let mut call = asks.try_request(message).map_err(|unsent| lost(unsent.why))?;
        let mut alarm = None;
        let reply = poll_fn(|context| match Pin::new(&mut call).poll(context) {
            Poll::Pending if terms.is_late() => Poll::Ready(None),
            Poll::Pending => {
                alarm = terms.alarm(control, context.waker());
                Poll::Pending
            }
            polled => polled.map(Some),
        });
        let Some(reply) = reply.await else {
            return Err(JoinAttempt::Failed(terms.timed_out(started)));
        };
        match answer(reply) {
            Ok(RegistryAnswer::Welcome { id, size, is_open, heard_ms, resume_ms }) => {
                let (heard, is_kept) = (Duration::from_millis(heard_ms), resume_ms > 0);
                return Ok(JoinWelcome { id, size, is_open, heard, is_kept });
            }
            Err(NodeError::Refused(
                RegistryRefusal::RankTaken { .. } | RegistryRefusal::HostTaken { .. },
            )) if rt::now() - started < GRACE => {}
            Err(NodeError::Refused(why)) => {
                let address = terms.address.clone();
                return Err(JoinAttempt::Failed(JoinError::Refused { address, why }));
            }
            Err(NodeError::NoAnswer(why)) => return Err(lost(why)),
            Err(why) => return Err(JoinAttempt::Failed(terms.lost(why))),
            Ok(_) => return Err(JoinAttempt::Failed(terms.lost(NodeError::OtherAnswer))),
        }
        sleep(control, AGAIN).await;
    }
}

/// Waits until the node has received the event that it has joined.
async fn seen(
    watch: &PoolWatch,
    control: &Links,
    id: NodeId,
    terms: &JoinParameters,
    started: Instant,
) -> Result<(), JoinError> {
    let mut alarm = None;
    poll_fn(|context| {
        control.poll();
        alarm = terms.alarm(control, context.waker());
        watch.wake_when_changed(context.waker());
        let view = watch.view.lock();
        if let Some(why) = &view.lost {
            return Poll::Ready(Err(terms.lost(why)));
        }
        if let Some(why) = &view.fenced {
            return Poll::Ready(Err(terms.lost(format!("this node was declared dead: {why}"))));
        }
        if view.state.member(id).is_some() {
            return Poll::Ready(Ok(()));
        }
        drop(view);
        if terms.is_late() { Poll::Ready(Err(terms.timed_out(started))) } else { Poll::Pending }
    })
    .await
}

impl JoinParameters {
    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| rt::now() >= until)
    }

    /// Wakes when the time is over.
    fn alarm(&self, control: &Links, waker: &Waker) -> Option<Alarm> {
        self.until.map(|until| control.alarm(until, waker))
    }

    fn timed_out(&self, started: Instant) -> JoinError {
        JoinError::TimedOut { address: self.address.clone(), waited: rt::now() - started }
    }
}

/// Time until a rank that is taken is requested again.
const AGAIN: Duration = Duration::from_millis(5);
/// Time until a node that has lost its link to the registry asks again to join.
const LATER: Duration = Duration::from_millis(100);
/// How long a rank may still seem taken after its former life.
const GRACE: Duration = Duration::from_secs(2);
