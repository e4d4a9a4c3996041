//! A graph that is to be received.

use egret_net::rt::waits;
use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::{self, Deadline, GivenBack};
use egret_node::am::in_handler;
use egret_stream::graph::{Graph, GraphDefect, GraphError, GraphRefusal, Object};

use super::inbox::{ReceivedGraph, is_too_large};
use super::named_graphs::{NamedGraphs, drive};
use super::{RankGraphError, Source};

/// A graph that [is to come](super::Graphs::post_recv_graph), with the rank that sent it: a
/// future, or to be waited for. Of several that may take a graph, who looks first takes it.
/// Dropped, it takes none.
///
/// ```
/// use egret::prelude::*;
///
/// # #[derive(Clone, Copy, Object)]
/// # #[repr(C)]
/// # struct Car {
/// #     year: u64,
/// # }
/// # let pool = egret::local::pool(2)?;
/// # let (here, there) = (&pool[0], &pool[1]);
/// # let mut sends = Graphs::<Car>::join(&here)?;
/// # let mut takes = Graphs::<Car>::join(&there)?;
/// let mut receiving = takes.post_recv_graph(here.rank());
/// sends.start(Car { year: 2000 });
/// sends.send_graph(there.rank(), here.deadline())?;
/// let (graph, from) = receiving.wait(there.deadline())?; // or `.await`
/// assert_eq!((graph.root().year, from), (2000, here.rank()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the graph is received when this is awaited or waited for"]
pub struct Receiving<Root> {
    mail: Arc<NamedGraphs>,
    from: Source,
    root: PhantomData<fn() -> Root>,
}

impl<Root: Object> Receiving<Root> {
    pub(super) fn new(mail: &Arc<NamedGraphs>, from: Source) -> Self {
        Self { mail: Arc::clone(mail), from, root: PhantomData }
    }

    /// Waits for the graph. Another one may be waited for afterwards.
    ///
    /// # Errors
    ///
    /// If none came in time or never will, or it is refused.
    #[track_caller]
    pub fn wait(
        &mut self,
        deadline: impl Into<Deadline>,
    ) -> Result<(Graph<Root>, u32), RankGraphError> {
        let started = rt::now();
        if in_handler() {
            return self.try_received().unwrap_or(Err(RankGraphError::InHandler));
        }
        let from = self.from;
        let _waits = waits::scope(self.mail.handle.wait_hint("graph", None));
        let came = self.mail.handle.wait_on(poll_fn(|it| self.poll_received(it)), deadline);
        came.unwrap_or_else(|| {
            Err(RankGraphError::RecvTimedOut { from, waited: rt::now() - started })
        })
    }

    /// The graph, if it has come.
    pub fn try_received(&mut self) -> Option<Result<(Graph<Root>, u32), RankGraphError>> {
        drive(&self.mail.handle);
        match self.poll_received(&Context::from_waker(Waker::noop())) {
            Poll::Ready(came) => Some(came),
            Poll::Pending => None,
        }
    }

    fn poll_received(
        &self,
        context: &Context<'_>,
    ) -> Poll<Result<(Graph<Root>, u32), RankGraphError>> {
        let came = self.mail.poll_take(self.from, context);
        came.map(|came| came.and_then(|(memory, from)| Ok((self.graph(memory, from)?, from))))
    }

    /// The graph, checked, in the memory it came in.
    fn graph(&self, memory: ReceivedGraph, from: u32) -> Result<Graph<Root>, RankGraphError> {
        let (rank, most) = (self.mail.handle.rank(), self.mail.bytes_max);
        let too_large = |bytes| Err(RankGraphError::TooLarge { rank, bytes, most });
        let read = match memory {
            ReceivedGraph::TooLarge(bytes) => return too_large(bytes),
            ReceivedGraph::NoRoom => return Err(RankGraphError::NoMemory),
            ReceivedGraph::Part(part) if is_too_large(part.bytes().len() as u64, most) => {
                return too_large(part.bytes().len() as u64);
            }
            ReceivedGraph::Part(part) => Graph::from_buf(part.into_buf()?).map_err(why),
            ReceivedGraph::Words(words) => Graph::from_words(words).map_err(why),
            ReceivedGraph::Pieces { said, there } => {
                let reason = GraphDefect::Length { said, there };
                Err(GraphRefusal { offset: 0, reason }.into())
            }
            ReceivedGraph::Own(memory) => match memory.into_vec() {
                Ok(words) => Graph::from_words(words).map_err(why),
                Err(memory) => match memory.into_buf() {
                    Ok(buf) => Graph::from_buf(buf).map_err(why),
                    Err(memory) => Graph::from_bytes(memory.bytes()),
                },
            },
        };
        read.map_err(|why| RankGraphError::Refused { from, why })
    }
}

fn why<M>(refused: GivenBack<M, GraphError>) -> GraphError {
    refused.why
}

impl<Root: Object> Future for Receiving<Root> {
    type Output = Result<(Graph<Root>, u32), RankGraphError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        drive(&self.mail.handle);
        self.poll_received(context)
    }
}

impl<Root> fmt::Debug for Receiving<Root> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiving").field("from", &self.from).finish_non_exhaustive()
    }
}
