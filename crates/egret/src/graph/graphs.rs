//! The handle by which a program sends graphs to ranks and receives them.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use egret_net::rt::Deadline;
use egret_node::am::in_handler;
use egret_node::node::NodeHandle;
use egret_stream::graph::{Graph, Object, Ref, Slice, Text};

use super::named_graphs::NamedGraphs;
use super::rank_sender::RankSender;
use super::receiving::Receiving;
use super::sending::Sending;
use super::{GraphsOptions, RankGraphError, Source};

/// The graphs of one type that a node makes, sends and receives; see the [module](super).
///
/// Graphs from one rank come in the order in which they were sent. Dropped, the node takes no
/// such graphs any more; those that were received stay.
pub struct Graphs<Root> {
    mail: Arc<NamedGraphs>,
    /// To the ranks that graphs were sent to.
    ways: BTreeMap<u32, Arc<RankSender>>,
    current: Option<Graph<Root>>,
}

impl<Root: Object> Graphs<Root> {
    /// Takes graphs of this type from now on, which the registry tells the others.
    ///
    /// # Errors
    ///
    /// If that was done on this node already, or the registry does not answer.
    pub fn join(node: &NodeHandle) -> Result<Self, RankGraphError> {
        Self::join_with(node, GraphsOptions::default())
    }

    /// The same, with options.
    ///
    /// # Errors
    ///
    /// As [`join`](Self::join).
    pub fn join_with(node: &NodeHandle, options: GraphsOptions) -> Result<Self, RankGraphError> {
        let graphs = Self::open(node, options)?;
        let (name, bytes) = graphs.mail.bound();
        node.bind(&name, &bytes)?;
        Ok(graphs)
    }

    /// The same, without a thread.
    ///
    /// # Errors
    ///
    /// As [`join`](Self::join).
    pub fn begin_join(
        node: &NodeHandle,
        options: GraphsOptions,
    ) -> impl Future<Output = Result<Self, RankGraphError>> + Send + use<Root> {
        let node = node.clone();
        async move {
            let graphs = Self::open(&node, options)?;
            let (name, bytes) = graphs.mail.bound();
            node.begin().bind(&name, &bytes).await?;
            Ok(graphs)
        }
    }

    fn open(node: &NodeHandle, options: GraphsOptions) -> Result<Self, RankGraphError> {
        if node.is_open() {
            return Err(RankGraphError::OpenPool { node: node.id() });
        }
        let mail = NamedGraphs::open(node, &Graph::<Root>::kind(), options)?;
        Ok(Self { mail, ways: BTreeMap::new(), current: None })
    }

    /// Starts a graph with its root, which is the current one from now on. The one before is
    /// freed.
    pub fn start(&mut self, root: Root) -> Ref<Root> {
        self.set_current(Graph::new(root));
        self.current().root_ref()
    }

    /// Begins a graph whose root is [made last](Graph::build), which is the current one from now
    /// on. The one before is freed.
    pub fn build(&mut self, make: impl FnOnce(&mut Graph<Root>) -> Ref<Root>) {
        self.set_current(Graph::build(make));
    }

    /// Makes a graph the current one, as one that was received; gives the one before.
    pub fn set_current(&mut self, graph: Graph<Root>) -> Option<Graph<Root>> {
        self.current.replace(graph)
    }

    /// The current graph.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub const fn current(&self) -> &Graph<Root> {
        self.current.as_ref().expect(NONE)
    }

    /// The current graph, to be written.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub const fn current_mut(&mut self) -> &mut Graph<Root> {
        self.current.as_mut().expect(NONE)
    }

    /// Whether there is a current graph.
    #[must_use]
    pub const fn has_current(&self) -> bool {
        self.current.is_some()
    }

    /// Takes the current graph: there is none from now on. To drop it frees it.
    pub const fn take_current(&mut self) -> Option<Graph<Root>> {
        self.current.take()
    }

    /// Frees the current graph; whether there was one.
    pub fn free_current(&mut self) -> bool {
        self.take_current().is_some()
    }

    /// Adds an object to the current graph.
    ///
    /// # Panics
    ///
    /// If there is no current graph, or as [`Graph::insert`].
    pub fn insert<T: Object>(&mut self, value: T) -> Ref<T> {
        self.current_mut().insert(value)
    }

    /// Adds a slice to the current graph.
    ///
    /// # Panics
    ///
    /// If there is no current graph, or as [`Graph::insert_slice`].
    pub fn insert_slice<T: Object>(&mut self, values: &[T]) -> Slice<T> {
        self.current_mut().insert_slice(values)
    }

    /// Adds a text to the current graph.
    ///
    /// # Panics
    ///
    /// If there is no current graph, or as [`Graph::insert_text`].
    pub fn insert_text(&mut self, text: &str) -> Text {
        self.current_mut().insert_text(text)
    }

    /// Sends the current graph to a rank, which may be this one, after all that was posted
    /// there, and waits until it is at that node; a large one goes from where it lies. It stays
    /// the current one. If the rank does not take such graphs yet it is waited for.
    ///
    /// # Errors
    ///
    /// If it is not there in time, or never will be. It does not arrive then, unless it was on
    /// its way.
    ///
    /// # Panics
    ///
    /// If there is no current graph.
    pub fn send_graph(
        &mut self,
        rank: u32,
        deadline: impl Into<Deadline>,
    ) -> Result<(), RankGraphError> {
        self.mail.check_open(rank)?;
        let way = self.way(rank);
        let graph = self.current.as_mut().expect(NONE);
        graph.check_before_sending().map_err(|why| RankGraphError::Dangling { rank, why })?;
        let message = graph.message();
        match way {
            None => self.mail.keep(message.into_owned().into()).map_err(|(why, _)| why),
            Some(_) if in_handler() => Err(RankGraphError::InHandler),
            Some(way) => way.wait_send(&message, deadline.into()),
        }
    }

    /// The way to a rank; none if that is this node.
    fn way(&mut self, rank: u32) -> Option<Arc<RankSender>> {
        if rank == self.mail.handle.rank() {
            return None;
        }
        if let Some(way) = self.ways.get(&rank).filter(|way| way.is_good()) {
            return Some(Arc::clone(way));
        }
        let way = RankSender::new(self.mail.address(rank));
        self.ways.insert(rank, Arc::clone(&way));
        Some(way)
    }

    /// Sends the current graph, which is given away, without waiting: it goes after all that was
    /// posted there, from where it lies. If it cannot, the error gives it back.
    ///
    /// # Panics
    ///
    /// If there is no current graph.
    pub fn post_send_graph(&mut self, rank: u32) -> Sending<Root> {
        let graph = self.take_current().expect(NONE);
        let sound = graph.check_before_sending();
        let memory = graph.into_segment();
        if let Err(why) = sound {
            let why = RankGraphError::Dangling { rank, why };
            return Sending::over(Err((why, memory.into())));
        }
        match self.mail.check_open(rank).map(|()| self.way(rank)) {
            Err(why) => Sending::over(Err((why, memory.into()))),
            Ok(None) => Sending::over(self.mail.keep(memory)),
            Ok(Some(way)) => Sending::new(&way, memory),
        }
    }

    /// Waits for a graph of a rank, or of [`ANY`](super::ANY); gives it, checked, with the rank
    /// that sent it.
    ///
    /// # Errors
    ///
    /// If none came in time or never will, or if what came is refused: the next is received as
    /// usual.
    #[track_caller]
    pub fn recv_graph(
        &mut self,
        from: impl Into<Source>,
        deadline: impl Into<Deadline>,
    ) -> Result<(Graph<Root>, u32), RankGraphError> {
        let deadline = deadline.into();
        self.post_recv_graph(from).wait(deadline)
    }

    /// A graph of a rank, or of [`ANY`](super::ANY), that has come, if one has.
    ///
    /// # Errors
    ///
    /// If none will come, or what came is refused.
    pub fn try_recv_graph(
        &mut self,
        from: impl Into<Source>,
    ) -> Result<Option<(Graph<Root>, u32)>, RankGraphError> {
        self.post_recv_graph(from).try_received().transpose()
    }

    /// Receives a graph of a rank, or of [`ANY`](super::ANY), without waiting.
    pub fn post_recv_graph(&mut self, from: impl Into<Source>) -> Receiving<Root> {
        Receiving::new(&self.mail, from.into())
    }
}

impl<Root> Drop for Graphs<Root> {
    fn drop(&mut self) {
        let (name, bytes) = self.mail.bound();
        self.mail.handle.unbind_soon(&name, &bytes);
        self.mail.close();
    }
}

impl<Root> fmt::Debug for Graphs<Root> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graphs").field("current", &self.current).finish_non_exhaustive()
    }
}

const NONE: &str = "there is no current graph: `start` one";
