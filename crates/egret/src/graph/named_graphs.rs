//! Graphs of one name at a node: its inbox, and what it sends to itself.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use egret_net::buf::Kind;
use egret_net::sync::Mutex;
use egret_net::vi::Segment;
use egret_node::node::{self, NodeHandle};

use super::address::{GraphAddress, gone};
use super::inbox::{GraphInbox, InboxPoll, ReceivedGraph};
use super::{GraphsOptions, RankGraphError, Source};

/// The graphs of one name that a node receives.
#[derive(Debug)]
pub(super) struct NamedGraphs {
    pub(super) handle: NodeHandle,
    pub(super) bytes_max: u64,
    name: String,
    fingerprint: u64,
    /// Nothing, when it is closed.
    inbox: Mutex<Option<Arc<GraphInbox>>>,
    /// What this node has sent to itself.
    own: Mutex<VecDeque<Segment>>,
}

/// The graphs of a node, to be closed with it.
#[derive(Debug, Default)]
struct NodeGraphs(Mutex<Vec<Weak<NamedGraphs>>>);

impl NamedGraphs {
    /// Takes graphs of a kind from now on; no peer knows of them yet.
    pub(super) fn open(
        handle: &NodeHandle,
        kind: &Kind,
        options: GraphsOptions,
    ) -> Result<Arc<Self>, RankGraphError> {
        let GraphsOptions { name, bytes_max } = options;
        let name = name.unwrap_or_else(|| kind.name.to_string());
        let inbox = GraphInbox::open(handle, &name, bytes_max)?;
        let mail = Arc::new(Self {
            handle: handle.clone(),
            bytes_max,
            name,
            fingerprint: kind.fingerprint,
            inbox: Mutex::new(Some(inbox.into())),
            own: Mutex::default(),
        });
        let part = handle.part(NodeGraphs::default);
        let mut all = part.0.lock();
        all.retain(|mail| mail.strong_count() > 0);
        all.push(Arc::downgrade(&mail));
        Ok(mail)
    }

    /// The name and the bytes by which the registry tells others.
    pub(super) fn bound(&self) -> (String, [u8; 16]) {
        let name = GraphAddress::bound_name(&self.name, self.handle.rank());
        (name, GraphAddress::bound_bytes(self.fingerprint, self.bytes_max))
    }

    /// Takes and receives nothing any more.
    pub(super) fn close(&self) {
        let inbox = self.inbox.lock().take();
        drop(inbox);
        self.handle.tell_changed();
    }

    /// Whether graphs can be sent to a rank.
    pub(super) fn check_open(&self, rank: u32) -> Result<(), RankGraphError> {
        if self.inbox.lock().is_none() {
            return Err(RankGraphError::Closed);
        }
        self.check(rank)
    }

    /// Where the graphs of this name are at a rank.
    pub(super) fn address(&self, rank: u32) -> GraphAddress {
        let (handle, name) = (self.handle.clone(), self.name.clone());
        let (fingerprint, is_known) = (self.fingerprint, Arc::default());
        GraphAddress { handle, rank, name, fingerprint, is_known }
    }

    /// Keeps a graph for this node itself.
    pub(super) fn keep(&self, memory: Segment) -> Result<(), (RankGraphError, Arc<Segment>)> {
        let (rank, bytes, most) = (self.handle.rank(), memory.len(), self.bytes_max);
        if bytes > most {
            return Err((RankGraphError::TooLarge { rank, bytes, most }, memory.into()));
        }
        self.own.lock().push_back(memory);
        self.handle.tell_changed();
        Ok(())
    }

    /// The next graph from there, with its sender's rank.
    pub(super) fn poll_take(
        &self,
        from: Source,
        context: &Context<'_>,
    ) -> Poll<Result<(ReceivedGraph, u32), RankGraphError>> {
        if let Source::Rank(rank) = from {
            self.check(rank)?;
        }
        self.handle.wake_when_changed(context);
        let rank = self.handle.rank();
        if from.is(rank)
            && let Some(memory) = self.own.lock().pop_front()
        {
            return Poll::Ready(Ok((ReceivedGraph::Own(memory), rank)));
        }
        let inbox = self.inbox.lock().clone();
        let Some(inbox) = inbox else { return Poll::Ready(Err(RankGraphError::Closed)) };
        // Asked before: who is gone by now has opened all its channels, and what came by them
        // counts.
        let gone = self.gone(from);
        match inbox.poll(&self.handle, from, context) {
            InboxPoll::Graph(memory, from) => Poll::Ready(Ok((memory, from))),
            InboxPoll::Nothing { is_open: true } => Poll::Pending,
            InboxPoll::Nothing { .. } => gone.map_or(Poll::Pending, |why| Poll::Ready(Err(why))),
            InboxPoll::Died(rank, why) => {
                let link_says = || RankGraphError::Gone { rank, why: why.to_string() };
                Poll::Ready(Err(gone.or_else(|| self.gone(from)).unwrap_or_else(link_says)))
            }
        }
    }

    /// Why nothing can come from there any more.
    fn gone(&self, from: Source) -> Option<RankGraphError> {
        let (own, size) = (self.handle.rank(), self.handle.size());
        match from {
            Source::Rank(rank) => {
                let fate = gone(&self.handle, rank)?;
                Some(RankGraphError::Gone { rank, why: fate.why().to_owned() })
            }
            Source::Any if size == 1 => None,
            Source::Any => {
                let mut others = (0..size).filter(|rank| *rank != own);
                others
                    .all(|rank| gone(&self.handle, rank).is_some())
                    .then_some(RankGraphError::AllGone)
            }
        }
    }

    fn check(&self, rank: u32) -> Result<(), RankGraphError> {
        let size = self.handle.size();
        if rank < size { Ok(()) } else { Err(RankGraphError::NoSuchRank { rank, size }) }
    }
}

/// Does what can be done without waiting, for who looks without driving.
pub(super) fn drive(handle: &NodeHandle) {
    handle.links().iter().for_each(|(_, links)| links.poll());
}

impl node::NodePart for NodeGraphs {}

impl Drop for NodeGraphs {
    fn drop(&mut self) {
        let all = std::mem::take(self.0.get_mut());
        all.iter().filter_map(Weak::upgrade).for_each(|mail| mail.close());
    }
}
