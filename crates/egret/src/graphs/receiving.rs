//! Graphs that are to come.

use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::{self, Deadline};
use egret_node::am::in_handler;
use egret_stream::graph::{Graph, Object, Reason, Refusal, Refused};

use super::fault::{Fault, planted};
use super::inbox::Memory;
use super::mail::{Mail, drive};
use super::{GraphError, Source};

/// A graph that [is to come](super::Graphs::post_recv_graph), with the rank that sent it: a
/// future, or to be waited for. Of several that may take a graph, who looks first takes it.
/// Dropped, it takes none.
#[must_use = "the graph is received when this is awaited or waited for"]
pub struct Receiving<Root> {
    mail: Arc<Mail>,
    from: Source,
    root: PhantomData<fn() -> Root>,
}

impl<Root: Object> Receiving<Root> {
    pub(super) fn new(mail: &Arc<Mail>, from: Source) -> Self {
        Self { mail: Arc::clone(mail), from, root: PhantomData }
    }

    /// Waits for the graph. Another one may be waited for afterwards.
    ///
    /// # Errors
    ///
    /// If none came in time or never will, or it is refused.
    pub fn wait(
        &mut self,
        deadline: impl Into<Deadline>,
    ) -> Result<(Graph<Root>, u32), GraphError> {
        let started = rt::now();
        if in_handler() {
            return self.try_received().unwrap_or(Err(GraphError::InHandler));
        }
        let from = self.from;
        let came = self.mail.handle.wait_on(poll_fn(|it| self.poll_received(it)), deadline);
        came.unwrap_or_else(|| Err(GraphError::RecvTimedOut { from, waited: rt::now() - started }))
    }

    /// The graph, if it has come.
    pub fn try_received(&mut self) -> Option<Result<(Graph<Root>, u32), GraphError>> {
        drive(&self.mail.handle);
        match self.poll_received(&Context::from_waker(Waker::noop())) {
            Poll::Ready(came) => Some(came),
            Poll::Pending => None,
        }
    }

    fn poll_received(&self, context: &Context<'_>) -> Poll<Result<(Graph<Root>, u32), GraphError>> {
        let came = self.mail.poll_take(self.from, context);
        came.map(|came| came.and_then(|(memory, from)| Ok((self.graph(memory, from)?, from))))
    }

    /// The graph, checked, in the memory it came in.
    fn graph(&self, memory: Memory, from: u32) -> Result<Graph<Root>, GraphError> {
        let (rank, most) = (self.mail.handle.rank(), self.mail.bytes_max);
        let too_large = |bytes| Err(GraphError::TooLarge { rank, bytes, most });
        let read = match memory {
            Memory::TooLarge(bytes) => return too_large(bytes),
            Memory::NoRoom => return Err(GraphError::NoMemory),
            Memory::Part(part) if part.bytes().len() as u64 > most && !planted(Fault::AnySize) => {
                return too_large(part.bytes().len() as u64);
            }
            Memory::Part(part) => Graph::from_buf(part.into_buf()?).map_err(why),
            Memory::Words(words) => Graph::from_words(words).map_err(why),
            Memory::Pieces { said, there } => {
                Err(Refusal { offset: 0, reason: Reason::Length { said, there } })
            }
            Memory::Own(memory) => match memory.into_vec() {
                Ok(words) => Graph::from_words(words).map_err(why),
                Err(memory) => match memory.into_buf() {
                    Ok(buf) => Graph::from_buf(buf).map_err(why),
                    Err(memory) => Graph::from_bytes(memory.bytes()),
                },
            },
        };
        read.map_err(|why| GraphError::Refused { from, why })
    }
}

fn why<M>(refused: Refused<M>) -> Refusal {
    refused.refusal
}

impl<Root: Object> Future for Receiving<Root> {
    type Output = Result<(Graph<Root>, u32), GraphError>;

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
