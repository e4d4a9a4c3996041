//! A graph that was posted, until it has arrived.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::{self, Deadline, GivenBack};
use egret_net::vi::Segment;
use egret_node::am::in_handler;
use egret_node::channel::PostOutcome;
use egret_stream::graph::{Graph, Object};

use super::RankGraphError;
use super::fault::{Fault, planted};
use super::named_graphs::drive;
use super::rank_sender::RankSender;

/// What became of a graph that was sent: on failure the graph is given back, once, unless it may still go.
type SendOutcome<Root> = Result<(), GivenBack<Option<Box<Graph<Root>>>, RankGraphError>>;

/// A graph that was [posted](super::Graphs::post_send_graph): a future, or to be waited for.
///
/// The graph is sent by itself, after what was posted there before, and is given back if it cannot.
/// Dropped, it goes all the same, and the program does not learn what became of it; unless the graphs are
/// dropped before there is a way to the rank.
/// [`Receiving`](super::Receiving) has an example.
#[must_use = "what became of the graph is inside"]
pub struct Sending<Root>(SendingState<Root>);

enum SendingState<Root> {
    Under { way: Arc<RankSender>, posted: PostOutcome, memory: Arc<Segment> },
    Sent,
    Failed(RankGraphError, Option<Box<Graph<Root>>>),
}

impl<Root: Object> Sending<Root> {
    pub(super) fn new(way: &Arc<RankSender>, memory: Segment) -> Self {
        let (way, memory) = (Arc::clone(way), Arc::new(memory));
        Self(SendingState::Under { posted: way.send(&memory), way, memory })
    }

    /// Of memory that is where it is to be, or why it cannot be there.
    pub(super) fn over(outcome: Result<(), (RankGraphError, Arc<Segment>)>) -> Self {
        Self(match outcome {
            Ok(()) => SendingState::Sent,
            Err((why, memory)) => SendingState::Failed(why, graph(memory)),
        })
    }

    /// Waits until the graph is at the node of the rank.
    ///
    /// # Errors
    ///
    /// If the graph is not there in time, and may still go; or never will be: then `what` of the error is
    /// the graph, in which references to its objects are still right. It is given back once.
    #[track_caller]
    pub fn wait(&mut self, deadline: impl Into<Deadline>) -> SendOutcome<Root> {
        let started = rt::now();
        let way = match &self.0 {
            SendingState::Under { way, .. } if !in_handler() => Arc::clone(way),
            _ => {
                return self
                    .try_sent()
                    .unwrap_or(Err(GivenBack { why: RankGraphError::InHandler, what: None }));
            }
        };
        let sent = way.address.handle.wait_on(poll_fn(|it| self.poll_sent(it)), deadline);
        sent.unwrap_or_else(|| Err(GivenBack { why: way.timed_out(started), what: None }))
    }

    /// What became of it, if that is known.
    pub fn try_sent(&mut self) -> Option<SendOutcome<Root>> {
        self.drive();
        match self.poll_sent(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    fn drive(&self) {
        if let SendingState::Under { way, .. } = &self.0 {
            drive(&way.address.handle);
        }
    }

    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<SendOutcome<Root>> {
        if let SendingState::Under { posted, .. } = &mut self.0 {
            let Poll::Ready(sent) = Pin::new(posted).poll(context) else { return Poll::Pending };
            let before = std::mem::replace(&mut self.0, SendingState::Sent);
            if let (Err(why), SendingState::Under { way, memory, .. }) = (sent, before) {
                self.0 = SendingState::Failed(way.why(why, memory.len()), graph(memory));
            }
        }
        Poll::Ready(match &mut self.0 {
            SendingState::Failed(why, graph) => {
                Err(GivenBack { why: why.clone(), what: graph.take() })
            }
            SendingState::Under { .. } | SendingState::Sent => Ok(()),
        })
    }
}

/// The graph that memory was; of a copy, if a fabric still reads it.
fn graph<Root: Object>(memory: Arc<Segment>) -> Option<Box<Graph<Root>>> {
    let memory = Arc::try_unwrap(memory).unwrap_or_else(|memory| memory.bytes().to_vec().into());
    Graph::take_back(memory).ok().filter(|_| !planted(Fault::NotBack)).map(Box::new)
}

impl<Root: Object> Future for Sending<Root> {
    type Output = SendOutcome<Root>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.drive();
        self.poll_sent(context)
    }
}

impl<Root> fmt::Debug for Sending<Root> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_over = !matches!(self.0, SendingState::Under { .. });
        f.debug_struct("Sending").field("is_over", &is_over).finish_non_exhaustive()
    }
}
