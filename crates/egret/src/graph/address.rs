//! Where graphs go: the registry is asked who takes them, and a channel opened.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use egret_net::rt::Deadline;
use egret_node::channel::{ChannelError, ChannelWriter};
use egret_node::link::LinkError;
use egret_node::node::{Binding, Departure, NodeError, NodeHandle};

use super::RankGraphError;
use super::fault::{Fault, planted};

/// The graphs of one name at one rank.
#[derive(Debug, Clone)]
pub(super) struct GraphAddress {
    pub(super) handle: NodeHandle,
    pub(super) rank: u32,
    pub(super) name: String,
    pub(super) fingerprint: u64,
    /// Whether the rank is known to take them.
    pub(super) is_known: Arc<AtomicBool>,
}

/// A channel to a rank.
#[derive(Debug)]
pub(super) struct GraphChannel {
    pub(super) writer: ChannelWriter,
    /// Most bytes that it takes.
    pub(super) bytes_max: u64,
}

impl GraphAddress {
    /// What the graphs are called where the registry has names.
    pub(super) fn bound_name(name: &str, rank: u32) -> String {
        format!("{name}/{rank}")
    }

    /// What the registry is told of them.
    pub(super) fn bound_bytes(fingerprint: u64, bytes_max: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&fingerprint.to_le_bytes());
        bytes[8..].copy_from_slice(&bytes_max.to_le_bytes());
        bytes
    }

    /// Opens a channel, as soon as the rank takes such graphs, unless it is gone.
    pub(super) async fn open(&self) -> Result<GraphChannel, RankGraphError> {
        let mut opening = pin!(self.find());
        poll_fn(|context| {
            self.handle.wake_when_changed(context);
            match (opening.as_mut().poll(context), self.still_there()) {
                (Poll::Pending, Err(why)) => Poll::Ready(Err(why)),
                (opened, _) => opened,
            }
        })
        .await
    }

    async fn find(&self) -> Result<GraphChannel, RankGraphError> {
        let name = Self::bound_name(&self.name, self.rank);
        let bound = loop {
            match self.handle.begin().bound(&name, LOOKUP).await {
                Err(why @ (NodeError::OwnerGone { .. } | NodeError::NobodyLeft { .. })) => {
                    return Err(self.gone(&why.to_string()));
                }
                bound => {
                    if let Some(bound) = bound? {
                        break bound;
                    }
                }
            }
        };
        self.is_known.store(true, Ordering::Relaxed);
        let bytes_max = self.bytes_max(&bound)?;
        let route = poll_fn(|_| match self.handle.route(bound.owner) {
            // It has just joined, and this node is about to hear of that.
            Err(NodeError::Unknown { .. }) => Poll::Pending,
            route => Poll::Ready(route),
        });
        let route = route.await.map_err(|why| self.gone(&why.to_string()))?;
        let opened = route.links.channel(&route.host, &self.name, Deadline::UntilDead);
        let writer = opened.await.map_err(|why| self.not_opened(why))?;
        Ok(GraphChannel { writer, bytes_max })
    }

    fn bytes_max(&self, bound: &Binding) -> Result<u64, RankGraphError> {
        let (rank, name) = (self.rank, self.name.clone());
        let (words, _) = bound.bytes.as_chunks::<8>();
        match words {
            [fingerprint, most] if u64::from_le_bytes(*fingerprint) == self.fingerprint => {
                Ok(u64::from_le_bytes(*most))
            }
            _ => Err(RankGraphError::OtherType { rank, name }),
        }
    }

    fn not_opened(&self, why: ChannelError) -> RankGraphError {
        match why {
            ChannelError::Link(_) => self.gone(&why.to_string()),
            ChannelError::NoListener { .. }
            | ChannelError::Backlog { .. }
            | ChannelError::NoRoom { .. } => RankGraphError::Stopped { rank: self.rank },
            why => RankGraphError::Channel { rank: self.rank, why },
        }
    }

    /// Why a graph of so many bytes was not written; how long was waited is for the caller to say.
    pub(super) fn not_written(&self, why: ChannelError, bytes: u64) -> RankGraphError {
        let rank = self.rank;
        match why {
            ChannelError::ReaderGone => RankGraphError::Stopped { rank },
            ChannelError::PartTooLarge { most, .. } => {
                RankGraphError::TooLarge { rank, bytes, most }
            }
            ChannelError::Withdrawn | ChannelError::Lost { why: LinkError::Closed, .. } => {
                RankGraphError::Closed
            }
            ChannelError::Lost { why, .. } => self.gone(&why.to_string()),
            ChannelError::WriteTimedOut { waited, .. } => {
                RankGraphError::SendTimedOut { rank, waited, is_open: true }
            }
            ChannelError::InHandler => RankGraphError::InHandler,
            _ => RankGraphError::NoMemory,
        }
    }

    /// What the registry says of the node's end explains more than what its link does.
    fn gone(&self, link_says: &str) -> RankGraphError {
        let fate = gone(&self.handle, self.rank);
        let why = fate.as_ref().map_or(link_says, Departure::why).to_owned();
        RankGraphError::Gone { rank: self.rank, why }
    }

    /// Fails if the rank is gone.
    pub(super) fn still_there(&self) -> Result<(), RankGraphError> {
        let rank = self.rank;
        match gone(&self.handle, rank) {
            Some(fate) => Err(RankGraphError::Gone { rank, why: fate.why().to_owned() }),
            None => Ok(()),
        }
    }
}

/// What became of the node of a rank, if it is no member any more.
pub(super) fn gone(handle: &NodeHandle, rank: u32) -> Option<Departure> {
    if planted(Fault::GoneUnheard) {
        None
    } else {
        handle.id_of(rank).and_then(|node| handle.fate(node))
    }
}

/// How long the registry is asked to wait for a name before it is asked again.
const LOOKUP: Duration = Duration::from_secs(10);
