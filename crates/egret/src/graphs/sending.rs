//! Graphs that were posted.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::{self, Deadline};
use egret_node::am::in_handler;

use super::GraphError;
use super::bell::{GLANCE, Place, wait};
use super::line::{Line, Outcome};
use super::mail::Mail;
use crate::rmi::clock::Alarm;
use crate::rmi::exchange::Exchange;

/// A graph that was [posted](super::Graphs::post_send_graph): a future, or to be waited for.
///
/// It goes by itself, after what was posted there before. Dropped, it goes all the same, and
/// nobody hears what became of it; unless the graphs are dropped too.
#[must_use = "what became of the graph is inside"]
#[derive(Debug)]
pub struct Sending {
    mail: Arc<Mail>,
    line: Option<Arc<Line>>,
    state: State,
    place: Place,
    glance: Option<Alarm>,
}

#[derive(Debug)]
enum State {
    Under(Arc<Outcome>),
    Over(Result<(), GraphError>),
}

impl Sending {
    pub(super) fn new(mail: &Arc<Mail>, line: Arc<Line>, outcome: Arc<Outcome>) -> Self {
        mail.pump();
        Self::of(mail, Some(line), State::Under(outcome))
    }

    pub(super) fn over(mail: &Arc<Mail>, outcome: Result<(), GraphError>) -> Self {
        Self::of(mail, None, State::Over(outcome))
    }

    fn of(mail: &Arc<Mail>, line: Option<Arc<Line>>, state: State) -> Self {
        let (mail, place) = (Arc::clone(mail), mail.bell.place());
        Self { mail, line, state, place, glance: None }
    }

    /// Waits until the graph is at the node of the rank.
    ///
    /// # Errors
    ///
    /// If it is not there in time, and may still go; or never will be.
    pub fn wait(&mut self, deadline: impl Into<Deadline>) -> Result<(), GraphError> {
        let (started, until) = (rt::now(), deadline.into().until());
        if let Some(outcome) = self.try_sent() {
            return outcome;
        }
        if in_handler() {
            return Err(GraphError::InHandler);
        }
        wait(until, |context| self.poll_sent(context)).unwrap_or_else(|| {
            let line = self.line.as_ref().expect("what is under way has one");
            Err(line.timed_out(started))
        })
    }

    /// What became of it, if that is known.
    pub fn try_sent(&mut self) -> Option<Result<(), GraphError>> {
        match self.poll_sent(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<Result<(), GraphError>> {
        self.place.wait(context);
        if let State::Under(outcome) = &self.state {
            self.mail.pump();
            match outcome.take() {
                Some(outcome) => self.state = State::Over(outcome),
                None => return Poll::Pending,
            }
        }
        let State::Over(outcome) = &self.state else { return Poll::Pending };
        Poll::Ready(outcome.clone())
    }
}

impl Future for Sending {
    type Output = Result<(), GraphError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let sent = self.poll_sent(context);
        self.glance = sent.is_pending().then(|| {
            let clock = &Exchange::of(&self.mail.handle).clock;
            clock.set(rt::now() + GLANCE, context.waker())
        });
        sent
    }
}
