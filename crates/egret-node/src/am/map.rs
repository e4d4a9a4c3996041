//! Asking for a remote endpoint.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{Deadline, Instant};
use egret_net::vi::ConnectError;

use super::outgoing::Phase;
use super::typed::Needed;
use super::{EndpointName, MapError, Outgoing, Remote};
use crate::link::LinkUpError;
use crate::link::control::{CONTROL_MAX, Control, Map, Needs, NotMapped};
use crate::link::lands::Flow;
use crate::links::core::{Core, Stopped};
use crate::links::slots::Key;
use crate::links::state::State;

/// A remote endpoint that was asked for; made by
/// [`Endpoint::map`](super::Endpoint::map). Whoever drops it does not want it.
#[derive(Debug)]
#[must_use = "the endpoint is mapped when this is awaited"]
pub struct Mapping {
    core: Arc<Core>,
    endpoint: Key,
    to: EndpointName,
    needs: Vec<Needed>,
    deadline: Deadline,
    started: Instant,
    /// From when the link is there.
    asked: Option<Remote>,
}

impl Mapping {
    pub(super) fn new(
        core: &Arc<Core>,
        endpoint: Key,
        to: &EndpointName,
        needs: &[Needed],
        deadline: Deadline,
    ) -> Self {
        let (to, needs, started) = (to.clone(), needs.to_vec(), core.nic.now());
        Self { core: Arc::clone(core), endpoint, to, needs, deadline, started, asked: None }
    }

    pub(super) fn wait(mut self) -> Result<Remote, MapError> {
        let core = Arc::clone(&self.core);
        match core.wait(self.deadline, |state, waker| self.step(state, waker)) {
            Ok(mapped) => mapped,
            Err(Stopped::TimedOut { waited }) => Err(self.timed_out(waited)),
            Err(Stopped::InHandler) => Err(MapError::InHandler),
        }
    }

    /// Goes on as far as it can.
    fn step(
        &mut self,
        state: &mut State,
        waker: Option<&Waker>,
    ) -> Option<Result<Remote, MapError>> {
        if self.asked.is_none() {
            match state.link_to(&self.to.host, self.deadline, waker)? {
                Ok(link) => match self.ask(state, link) {
                    Ok(remote) => self.asked = Some(remote),
                    Err(why) => return Some(Err(why)),
                },
                Err(why) => return Some(Err(MapError::Up(why))),
            }
        }
        let asked = self.asked.as_mut().expect("just asked");
        let line = match state.live(asked.link) {
            Ok(line) => line,
            Err(why) => return Some(Err(MapError::Link(why))),
        };
        let outgoing = line.am.outgoing.get(asked.number)?;
        let handlers = match &outgoing.phase {
            Phase::Asked => {
                outgoing.waiters.wait(waker);
                return None;
            }
            Phase::Refused(why) => return Some(Err(self.explain(why.clone()))),
            Phase::Mapped | Phase::Unmapped | Phase::Gone => outgoing.handlers.clone(),
        };
        asked.handlers = handlers;
        self.asked.take().map(Ok)
    }

    fn ask(&self, state: &mut State, link: Key) -> Result<Remote, MapError> {
        let (flow, bytes) = state.inflows.open(link.into()).map_err(MapError::Budget)?;
        let mut map = self.question(bytes);
        let len = Control::Map(map.clone()).to_bytes().len() as u64;
        if len > CONTROL_MAX - 8 {
            state.inflows.close(flow);
            return Err(MapError::TooLong { bytes: len, most: CONTROL_MAX });
        }
        let line = match state.live(link) {
            Ok(line) => line,
            Err(why) => {
                state.inflows.close(flow);
                return Err(why.into());
            }
        };
        let names = self.needs.iter().map(|needed| (needed.need.name.clone(), u8::MAX));
        let handlers = names.collect();
        let number = line.am.outgoing.insert(Outgoing::new(self.endpoint, flow, handlers));
        line.lands.open(Flow::Replies(number.index), bytes, None);
        map.number = number.index;
        line.control(&Control::Map(map));
        state.inflows.put(flow, link, Flow::Replies(number.index));
        state.pump(link);
        let (core, handlers) = (Arc::clone(&self.core), Vec::new());
        Ok(Remote { core, link, number, handlers })
    }

    /// What the peer is asked, but for the mapping's number.
    fn question(&self, bytes: u64) -> Map {
        let needs = self.needs.iter().map(|Needed { need }| {
            let (takes, answers) = (need.takes.fingerprint, need.answers.fingerprint);
            Needs { name: need.name.clone(), takes, answers }
        });
        let (name, tag) = (self.to.name.clone(), self.to.tag);
        Map { number: 0, name, tag, bytes, needs: needs.collect() }
    }

    /// The deadline has passed: what is known of why.
    fn timed_out(&self, waited: Duration) -> MapError {
        let (host, linked) = (self.to.host.clone(), self.asked.is_some());
        // Without that the next mapping would be told what this one was to be.
        let known = if linked { None } else { self.core.state.with(|state| state.give_up(&host)) };
        match known {
            // That is no more than that the time is over.
            Some(LinkUpError::Connect(ConnectError::NotAccepted { .. })) | None => {
                MapError::TimedOut { host, waited, linked }
            }
            Some(why) => MapError::Up(why),
        }
    }

    fn explain(&self, why: NotMapped) -> MapError {
        let (host, name) = (self.to.host.clone(), self.to.name.clone());
        match why {
            NotMapped::NoSuchEndpoint => MapError::NoSuchEndpoint { host, name },
            NotMapped::WrongTag => MapError::WrongTag { host, name },
            NotMapped::NoSuchHandler { name: handler } => {
                MapError::NoSuchHandler { endpoint: name, handler }
            }
            NotMapped::OtherTypes { have } => {
                let ours = self.needs.iter().find(|needed| needed.need.name == have.name);
                let ours = ours.map_or_else(String::new, |ours| ours.need.to_string());
                MapError::OtherTypes { handler: have.name.clone(), ours, theirs: have.to_string() }
            }
            NotMapped::NoRoom { why } => MapError::NoRoom { host, why },
        }
    }
}

impl Future for Mapping {
    type Output = Result<Remote, MapError>;

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
