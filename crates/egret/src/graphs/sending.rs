//! Graphs that were posted.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::{self, Deadline};
use egret_net::vi::Segment;
use egret_node::am::in_handler;
use egret_stream::graph::{Graph, Object};

use super::bell::{GLANCE, Place, wait};
use super::line::{Failed, Line, Outcome};
use super::mail::Mail;
use super::{GraphError, NotSent};
use crate::rmi::clock::Alarm;
use crate::rmi::exchange::Exchange;

/// A graph that was [posted](super::Graphs::post_send_graph): a future, or to be waited for.
///
/// It goes by itself, after what was posted there before, and is given back if it cannot.
/// Dropped, it goes all the same, and nobody hears what became of it; unless the graphs are
/// dropped too.
#[must_use = "what became of the graph is inside"]
pub struct Sending<Root> {
    mail: Arc<Mail>,
    line: Option<Arc<Line>>,
    state: State<Root>,
    place: Place,
    glance: Option<Alarm>,
}

enum State<Root> {
    Under(Arc<Outcome>),
    Sent,
    Failed(GraphError, Option<Box<Graph<Root>>>),
}

impl<Root: Object> Sending<Root> {
    pub(super) fn new(mail: &Arc<Mail>, line: Arc<Line>, outcome: Arc<Outcome>) -> Self {
        mail.pump();
        Self::of(mail, Some(line), State::Under(outcome))
    }

    pub(super) fn over(mail: &Arc<Mail>, outcome: Result<(), Failed>) -> Self {
        Self::of(mail, None, outcome.into())
    }

    pub(super) fn not_begun(mail: &Arc<Mail>, why: GraphError, graph: Graph<Root>) -> Self {
        Self::of(mail, None, State::Failed(why, Some(graph.into())))
    }

    fn of(mail: &Arc<Mail>, line: Option<Arc<Line>>, state: State<Root>) -> Self {
        let (mail, place) = (Arc::clone(mail), mail.bell.place());
        Self { mail, line, state, place, glance: None }
    }

    /// Waits until the graph is at the node of the rank.
    ///
    /// # Errors
    ///
    /// If it is not there in time, and may still go; or never will be: then the graph is inside.
    pub fn wait(&mut self, deadline: impl Into<Deadline>) -> Result<(), NotSent<Root>> {
        let (started, until) = (rt::now(), deadline.into().until());
        if let Some(outcome) = self.try_sent() {
            return outcome;
        }
        let goes_on = |why| Err(NotSent { why, graph: None });
        if in_handler() {
            return goes_on(GraphError::InHandler);
        }
        wait(until, |context| self.poll_sent(context)).unwrap_or_else(|| {
            let line = self.line.as_ref().expect("what is under way has one");
            goes_on(line.timed_out(started))
        })
    }

    /// What became of it, if that is known.
    pub fn try_sent(&mut self) -> Option<Result<(), NotSent<Root>>> {
        match self.poll_sent(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<Result<(), NotSent<Root>>> {
        self.place.wait(context);
        if let State::Under(outcome) = &self.state {
            self.mail.pump();
            let Some(outcome) = outcome.take() else { return Poll::Pending };
            self.state = outcome.into();
        }
        match &mut self.state {
            State::Under(_) => Poll::Pending,
            State::Sent => Poll::Ready(Ok(())),
            State::Failed(why, graph) => {
                Poll::Ready(Err(NotSent { why: why.clone(), graph: graph.take() }))
            }
        }
    }
}

impl<Root: Object> From<Result<(), Failed>> for State<Root> {
    fn from(outcome: Result<(), Failed>) -> Self {
        match outcome {
            Ok(()) => Self::Sent,
            Err(Failed { why, memory }) => Self::Failed(why, memory.and_then(graph)),
        }
    }
}

/// The graph that memory was; of a copy, if a fabric still reads it.
fn graph<Root: Object>(memory: Arc<Segment>) -> Option<Box<Graph<Root>>> {
    let memory = Arc::try_unwrap(memory).unwrap_or_else(|memory| memory.bytes().to_vec().into());
    Graph::take_back(memory).ok().map(Box::new)
}

impl<Root: Object> Future for Sending<Root> {
    type Output = Result<(), NotSent<Root>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let sent = self.poll_sent(context);
        self.glance = sent.is_pending().then(|| {
            let clock = &Exchange::of(&self.mail.handle).clock;
            clock.set(rt::now() + GLANCE, context.waker())
        });
        sent
    }
}

impl<Root> fmt::Debug for Sending<Root> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_over = !matches!(self.state, State::Under(_));
        f.debug_struct("Sending").field("is_over", &is_over).finish_non_exhaustive()
    }
}
