//! Asking for a remote endpoint.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{Deadline, Instant};
use egret_net::vi::ConnectError;

use super::outgoing::MappingPhase;
use super::signature::HandlerType;
use super::{EndpointName, MessageError, OutgoingMapping, RemoteEndpoint};
use crate::flow::InflowKey;
use crate::link::LinkError;
use crate::link::control::{CONTROL_MAX, LinkControl, MapRequest, NotMapped, RequiredHandler};
use crate::links::core::{LinksCore, WaitStopped};
use crate::links::state::LinksState;
use crate::slots::SlotKey;

/// A mapping that was asked for: a future of the [`RemoteEndpoint`]; made by
/// [`Endpoint::map`](super::Endpoint::map). Dropping it gives the mapping up.
///
/// ```
/// use egret_net::rt::Deadline;
/// use egret_node::am::{Endpoint, EndpointName, MessageError, RemoteEndpoint};
///
/// async fn find(client: &Endpoint, host: &str) -> Result<RemoteEndpoint, MessageError> {
///     client.map(&EndpointName::new(host, "math", 7), &[], Deadline::DEFAULT).await
/// }
/// ```
#[derive(Debug)]
#[must_use = "the endpoint is mapped when this is awaited"]
pub struct PendingMapping {
    core: Arc<LinksCore>,
    endpoint: SlotKey,
    to: EndpointName,
    needs: Vec<HandlerType>,
    deadline: Deadline,
    started: Instant,
    /// The remote endpoint, once the link is there and the peer was asked.
    asked: Option<RemoteEndpoint>,
}

impl PendingMapping {
    pub(super) fn new(
        core: &Arc<LinksCore>,
        endpoint: SlotKey,
        to: &EndpointName,
        needs: &[HandlerType],
        deadline: Deadline,
    ) -> Self {
        let (to, needs, started) = (to.clone(), needs.to_vec(), core.nic.now());
        Self { core: Arc::clone(core), endpoint, to, needs, deadline, started, asked: None }
    }

    pub(super) fn wait(mut self) -> Result<RemoteEndpoint, MessageError> {
        let core = Arc::clone(&self.core);
        match core.wait(self.deadline, |state, waker| self.step(state, waker)) {
            Ok(mapped) => mapped,
            Err(WaitStopped::TimedOut { waited }) => Err(self.timed_out(waited)),
            Err(WaitStopped::InHandler) => Err(MessageError::InHandler),
        }
    }

    /// Goes on without waiting; returns the result when there is one.
    fn step(
        &mut self,
        state: &mut LinksState,
        waker: Option<&Waker>,
    ) -> Option<Result<RemoteEndpoint, MessageError>> {
        if self.asked.is_none() {
            match state.link_to(&self.to.host, self.deadline, waker)? {
                Ok(link) => match self.ask(state, link) {
                    Ok(remote) => self.asked = Some(remote),
                    Err(why) => return Some(Err(why)),
                },
                Err(why) => return Some(Err(MessageError::NoLink(why))),
            }
        }
        let asked = self.asked.as_mut().expect("just asked");
        let line = match state.links.live(asked.link) {
            Ok(line) => line,
            Err(why) => return Some(Err(MessageError::Link(why))),
        };
        let outgoing = line.am.outgoing.get(asked.number)?;
        let handlers = match &outgoing.phase {
            MappingPhase::Asked => {
                outgoing.waiters.wait(waker);
                return None;
            }
            MappingPhase::Refused(why) => return Some(Err(self.explain(why.clone()))),
            MappingPhase::Mapped | MappingPhase::Unmapped | MappingPhase::Gone => {
                outgoing.handlers.clone()
            }
        };
        asked.handlers = handlers;
        self.asked.take().map(Ok)
    }

    fn ask(&self, state: &mut LinksState, link: SlotKey) -> Result<RemoteEndpoint, MessageError> {
        let (flow, bytes) = state.inflows.open(link.into()).map_err(MessageError::Budget)?;
        let mut map = self.question(bytes);
        let len = LinkControl::Map(map.clone()).to_bytes().len() as u64;
        if len > CONTROL_MAX - 8 {
            state.inflows.close(flow);
            return Err(MessageError::MapTooLong { bytes: len, most: CONTROL_MAX });
        }
        let line = match state.links.live(link) {
            Ok(line) => line,
            Err(why) => {
                state.inflows.close(flow);
                return Err(why.into());
            }
        };
        let names = self.needs.iter().map(|needed| (needed.need.name.clone(), u8::MAX));
        let handlers = names.collect();
        let number = line.am.outgoing.insert(OutgoingMapping::new(self.endpoint, flow, handlers));
        line.lands.open(InflowKey::Replies(number.index), bytes, None);
        map.number = number.index;
        line.control(&LinkControl::Map(map));
        state.inflows.put(flow, link, InflowKey::Replies(number.index));
        state.pump(link);
        let (core, handlers) = (Arc::clone(&self.core), Vec::new());
        Ok(RemoteEndpoint { core, link, number, handlers })
    }

    /// The question for the peer, but for the mapping's number.
    fn question(&self, bytes: u64) -> MapRequest {
        let needs = self.needs.iter().map(|HandlerType { need }| {
            let (takes, answers) = (need.takes.fingerprint, need.answers.fingerprint);
            RequiredHandler { name: need.name.clone(), takes, answers }
        });
        let (name, tag) = (self.to.name.clone(), self.to.tag);
        MapRequest { number: 0, name, tag, bytes, needs: needs.collect() }
    }

    /// The error after the deadline has passed, with what is known of the reason.
    fn timed_out(&self, waited: Duration) -> MessageError {
        let (host, linked) = (self.to.host.clone(), self.asked.is_some());
        // Without that the next mapping would be told what this one was to be.
        let known = if linked { None } else { self.core.state.with(|state| state.give_up(&host)) };
        match known {
            // That is no more than that the time is over.
            Some(LinkError::Connect(ConnectError::NotAccepted { .. })) | None => {
                MessageError::NotMappedInTime { host, waited, linked }
            }
            Some(why) => MessageError::NoLink(why),
        }
    }

    fn explain(&self, why: NotMapped) -> MessageError {
        let (host, name) = (self.to.host.clone(), self.to.name.clone());
        match why {
            NotMapped::NoSuchEndpoint => MessageError::NoSuchEndpoint { host, name },
            NotMapped::WrongTag => MessageError::OtherTag { host, name },
            NotMapped::NoSuchHandler { name: handler } => {
                MessageError::NoSuchHandler { endpoint: name, handler }
            }
            NotMapped::OtherTypes { have } => {
                let ours = self.needs.iter().find(|needed| needed.need.name == have.name);
                let ours = ours.map_or_else(String::new, |ours| ours.need.to_string());
                MessageError::OtherTypes {
                    handler: have.name.clone(),
                    ours,
                    theirs: have.to_string(),
                }
            }
            NotMapped::NoRoom { why } => MessageError::NoRoom { host, why },
        }
    }
}

impl Future for PendingMapping {
    type Output = Result<RemoteEndpoint, MessageError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let core = Arc::clone(&self.core);
        core.poll();
        if let Some(mapped) = core.state.with(|state| self.step(state, Some(context.waker()))) {
            return Poll::Ready(mapped);
        }
        let until = self.deadline.until_from(self.started);
        let now = core.nic.now();
        if until.is_some_and(|until| now >= until) {
            return Poll::Ready(Err(self.timed_out(now - self.started)));
        }
        Poll::Pending
    }
}
