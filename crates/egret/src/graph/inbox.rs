//! Graphs that come from others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use egret_net::sync::Mutex;
use egret_net::vi::Segment;
use egret_node::channel::{ChannelError, ChannelListener, ChannelReader, Part};
use egret_node::node::{Event, Member, NodeHandle, NodeId};

use super::fault::{self, Fault, planted};
use super::{RankGraphError, Source};

/// The channels by which graphs of one name come.
#[derive(Debug)]
pub(super) struct GraphInbox {
    /// By the names of their fabrics.
    listeners: Vec<(String, ChannelListener)>,
    /// The rank that is polled first.
    next: AtomicUsize,
    /// Most bytes of a graph.
    bytes_max: u64,
    /// Why the last channel of a rank ended that did not come to its end, if nobody who asks for that
    /// rank was told, and nothing came by another.
    died: Mutex<BTreeMap<u32, ChannelError>>,
}

/// What there is of what was asked for.
pub(super) enum InboxPoll {
    /// A graph, and its sender's rank.
    Graph(ReceivedGraph, u32),
    /// The link of the one who was to send it has ended.
    Died(u32, ChannelError),
    /// Nothing, and whether something may still come by a channel.
    Nothing { is_open: bool },
}

/// What has come as a graph.
pub(super) enum ReceivedGraph {
    /// From another node, in the buffer it landed in.
    Part(Part),
    /// From another node, put together.
    Words(Vec<u64>),
    /// From this node.
    Own(Segment),
    /// Parts that are no graph: so many bytes are said, and so many there.
    Pieces { said: u64, there: u64 },
    /// So many bytes, which are more than are taken.
    TooLarge(u64),
    /// What there is no memory for.
    NoRoom,
}

impl GraphInbox {
    pub(super) fn open(
        handle: &NodeHandle,
        name: &str,
        bytes_max: u64,
    ) -> Result<Self, RankGraphError> {
        let listen = |(fabric, links): &(String, egret_node::Links)| {
            let taken = |_| RankGraphError::Taken { name: name.to_owned() };
            Ok((fabric.clone(), links.listen(name, BACKLOG).map_err(taken)?))
        };
        let listeners = handle.links().iter().map(listen).collect::<Result<_, RankGraphError>>()?;
        let (next, died) = (AtomicUsize::new(0), Mutex::default());
        Ok(Self { listeners, next, bytes_max, died })
    }

    /// The next graph from there; if there is none, the task is woken when it looks as if.
    pub(super) fn poll(
        &self,
        handle: &NodeHandle,
        from: Source,
        context: &Context<'_>,
    ) -> InboxPoll {
        if let Source::Rank(rank) = from
            && let Some(why) = self.died.lock().remove(&rank)
        {
            return InboxPoll::Died(rank, why);
        }
        let (mut is_open, mut ranks) = (false, BTreeMap::<u32, Vec<_>>::new());
        for (fabric, listener) in &self.listeners {
            for reader in listener.poll_kept(context) {
                // The registry may not have told of its node yet.
                let Some(node) = sender(handle, fabric, &reader) else {
                    is_open = true;
                    continue;
                };
                if is_wanted(from, node.rank) {
                    ranks.entry(node.rank).or_default().push((node.incarnation, listener, reader));
                }
            }
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed) % ranks.len().max(1);
        let (before, behind): (Vec<_>, Vec<_>) =
            ranks.into_iter().enumerate().partition(|(at, _)| *at < first);
        for (_, (rank, mut channels)) in behind.into_iter().chain(before) {
            // One channel after the other, or the graphs of a rank would not come in order.
            channels.sort_by_key(|(incarnation, ..)| *incarnation);
            fault::keep_order(&mut channels);
            for (_, listener, reader) in channels {
                let came = reader.poll_whole(self.most(), context);
                match came {
                    Poll::Pending => {
                        is_open = true;
                        if fault::is_in_order() {
                            break;
                        }
                    }
                    Poll::Ready(Ok(Some(parts))) => {
                        // By a later channel: what ended before is of no interest any more.
                        self.died.lock().remove(&rank);
                        return InboxPoll::Graph(gather(parts, self.bytes_max), rank);
                    }
                    Poll::Ready(Err(ChannelError::MessageTooLarge { bytes, .. })) => {
                        return InboxPoll::Graph(ReceivedGraph::TooLarge(bytes), rank);
                    }
                    Poll::Ready(Ok(None)) => _ = listener.let_go(&reader),
                    // Of several who see it one tells of it.
                    Poll::Ready(Err(why)) if listener.let_go(&reader) => {
                        if from == Source::Rank(rank) {
                            return InboxPoll::Died(rank, why);
                        }
                        self.keep_death(handle, rank, why);
                    }
                    Poll::Ready(Err(_)) => {}
                }
            }
        }
        InboxPoll::Nothing { is_open }
    }

    /// A channel died that somebody else may wait for.
    fn keep_death(&self, handle: &NodeHandle, rank: u32, why: ChannelError) {
        if planted(Fault::DiedUnheard) {
            return;
        }
        self.died.lock().insert(rank, why);
        handle.tell_changed();
    }

    /// Most bytes of a message: a graph, and how many bytes it has.
    fn most(&self) -> u64 {
        if planted(Fault::AnySize) { u64::MAX } else { self.bytes_max.saturating_add(8) }
    }
}

pub(super) fn is_too_large(bytes: u64, bytes_max: u64) -> bool {
    bytes > bytes_max && !planted(Fault::AnySize)
}

/// A graph that is one part, or several behind one that says how many bytes they have.
fn gather(parts: Vec<Part>, bytes_max: u64) -> ReceivedGraph {
    let mut parts = parts.into_iter();
    let pieces = |said, there| ReceivedGraph::Pieces { said, there };
    let Some(first) = parts.next() else { return pieces(0, 0) };
    let Ok(bytes) = <[u8; 8]>::try_from(first.bytes()).map(u64::from_le_bytes) else {
        let there = first.bytes().len() as u64;
        return if parts.len() == 0 {
            ReceivedGraph::Part(first)
        } else {
            pieces(there, there + 1)
        };
    };
    if is_too_large(bytes, bytes_max) {
        return ReceivedGraph::TooLarge(bytes);
    }
    let there = parts.as_slice().iter().map(|part| part.bytes().len() as u64).sum();
    if there < bytes {
        return pieces(bytes, there);
    }
    let (mut words, count) = (Vec::new(), usize::try_from(bytes / 8).unwrap_or(usize::MAX));
    if words.try_reserve_exact(count).is_err() {
        return ReceivedGraph::NoRoom;
    }
    for part in fault::all(parts) {
        let there = 8 * words.len() as u64 + part.bytes().len() as u64;
        let part = match part.into_typed::<u64>() {
            Ok(part) if part.len() <= count - words.len() => part,
            Err(ChannelError::NoMemory { .. }) => return ReceivedGraph::NoRoom,
            _ => return pieces(bytes, there),
        };
        words.extend_from_slice(&part);
    }
    let there = words.len() as u64 * 8;
    if there == bytes { ReceivedGraph::Words(words) } else { pieces(bytes, there) }
}

/// The node that writes a channel: whose nic has this name; also if it is none any more.
fn sender(handle: &NodeHandle, fabric: &str, reader: &ChannelReader) -> Option<NodeId> {
    if let Some(node) = reader.node().get() {
        return Some(*node);
    }
    let mut events = handle.events();
    let mut found = None;
    while let Some(event) = events.try_next() {
        if let Event::Joined(member) = event
            && has_nic(&member, fabric, reader.host())
        {
            found = Some(member.id);
        }
    }
    found.map(|node| *reader.node().get_or_init(|| node))
}

/// Whether a receive from `from` takes graphs of this rank.
fn is_wanted(from: Source, rank: u32) -> bool {
    from.is(rank) || planted(Fault::OthersToo)
}

fn has_nic(member: &Member, fabric: &str, host: &str) -> bool {
    let mut offers = member.fabrics.iter();
    offers.any(|offer| offer.fabric == fabric && offer.host == host) || planted(Fault::OtherSender)
}

impl fmt::Debug for ReceivedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the memory of a graph")
    }
}

/// Channels that wait to be accepted: each is accepted when anything is received.
const BACKLOG: usize = 1024;
