//! Graphs that come from others.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

use egret_net::vi::Segment;
use egret_node::channel::{Delivery, Listener, Part, ReadError, Reader};
use egret_node::link::LinkError;
use egret_node::node::{Event, Handle, NodeId};

use super::fault::{Fault, planted};
use super::{GraphError, Source};

/// The channels by which graphs of one name come.
#[derive(Debug)]
pub(super) struct Inbox {
    /// By the names of their fabrics.
    listeners: Vec<(String, Listener)>,
    /// Channels of nodes that the registry has not told of yet.
    strangers: Vec<(String, Reader)>,
    /// In the order in which they were opened.
    readers: Vec<Incoming>,
    /// Who is looked at first.
    next: usize,
}

#[derive(Debug)]
struct Incoming {
    from: NodeId,
    reader: Reader,
}

/// The memory of a graph that has come.
pub(super) enum Memory {
    /// From another node, in the buffer it landed in; nothing, if it is not one part.
    Part(Option<Part>),
    /// From this node.
    Own(Segment),
}

/// What comes next by a channel.
enum Next {
    Message(Memory),
    Ended,
    Died(LinkError),
}

impl Inbox {
    pub(super) fn open(handle: &Handle, name: &str) -> Result<Self, GraphError> {
        let listen = |(fabric, links): &(String, egret_node::Links)| {
            let taken = |_| GraphError::Taken { name: name.to_owned() };
            Ok((fabric.clone(), links.listen(name, BACKLOG).map_err(taken)?))
        };
        let listeners = handle.links().iter().map(listen).collect::<Result<_, GraphError>>()?;
        Ok(Self { listeners, strangers: Vec::new(), readers: Vec::new(), next: 0 })
    }

    /// The next graph, with its sender's rank; or why a link of the one who was to send it ended.
    pub(super) fn poll(
        &mut self,
        handle: &Handle,
        from: Source,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Memory, u32), (u32, LinkError)>> {
        self.accept(handle, context);
        let mut left = self.readers.len();
        while left > 0 {
            left -= 1;
            let at = self.next % self.readers.len();
            let rank = self.readers[at].from.rank;
            // One channel after the other, or the graphs of a rank would not come in order.
            let is_first = self.readers[..at].iter().all(|before| before.from.rank != rank)
                || planted(Fault::AnyChannel);
            if !is_first || !from.is(rank) && !planted(Fault::OthersToo) {
                self.next = at + 1;
                continue;
            }
            match self.readers[at].poll(context) {
                Poll::Pending => self.next = at + 1,
                Poll::Ready(Next::Message(memory)) => {
                    self.next = at + 1;
                    return Poll::Ready(Ok((memory, rank)));
                }
                Poll::Ready(Next::Ended) => self.forget(at, &mut left),
                Poll::Ready(Next::Died(why)) => {
                    self.forget(at, &mut left);
                    if from == Source::Rank(rank) {
                        return Poll::Ready(Err((rank, why)));
                    }
                }
            }
        }
        Poll::Pending
    }

    /// Whether something may still come from there.
    pub(super) fn is_open(&self, from: Source) -> bool {
        !self.strangers.is_empty() || self.readers.iter().any(|reader| from.is(reader.from.rank))
    }

    fn forget(&mut self, at: usize, left: &mut usize) {
        self.readers.remove(at);
        *left = self.readers.len();
    }

    fn accept(&mut self, handle: &Handle, context: &mut Context<'_>) {
        for (fabric, listener) in &self.listeners {
            while let Poll::Ready(reader) = pin!(listener.accept()).poll(context) {
                self.strangers.push((fabric.clone(), reader));
            }
        }
        for (fabric, reader) in std::mem::take(&mut self.strangers) {
            match sender(handle, &fabric, reader.host()) {
                Some(from) => self.readers.push(Incoming { from, reader }),
                None => self.strangers.push((fabric, reader)),
            }
        }
    }
}

impl Incoming {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        loop {
            let next = match pin!(self.reader.next()).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(None)) => return Poll::Ready(Next::Ended),
                Poll::Ready(Ok(Some(mut message))) => whole(&mut message),
                Poll::Ready(Err(why)) => Err(why),
            };
            match next {
                Ok(part) => return Poll::Ready(Next::Message(Memory::Part(part))),
                Err(ReadError::Link(why)) => return Poll::Ready(Next::Died(why)),
                // Its sender has given it up, and knows.
                Err(_) => {}
            }
        }
    }
}

/// The one part of a message; nothing, if it has more or none, which no graph has.
fn whole(message: &mut Delivery<'_>) -> Result<Option<Part>, ReadError> {
    let Some(Some(part)) = message.poll_next_part()? else { return Ok(None) };
    Ok(matches!(message.poll_next_part(), Ok(Some(None))).then_some(part))
}

/// The node whose nic has this name; also if it is none any more.
fn sender(handle: &Handle, fabric: &str, host: &str) -> Option<NodeId> {
    let mut events = handle.events();
    let mut found = None;
    while let Some(event) = events.try_next() {
        if let Event::Joined(member) = event
            && (member.fabrics.iter().any(|offer| offer.fabric == fabric && offer.host == host)
                || planted(Fault::OtherSender))
        {
            found = Some(member.id);
        }
    }
    found
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the memory of a graph")
    }
}

/// Channels that wait to be accepted: each is accepted when anything is received.
const BACKLOG: usize = 1024;
