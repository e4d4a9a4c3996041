//! Graphs that come from others.

use std::fmt;
use std::future::{Future, poll_fn};
use std::mem::replace;
use std::pin::{Pin, pin};
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
    /// Most bytes of a graph.
    bytes_max: u64,
}

struct Incoming {
    from: NodeId,
    next: Pin<Box<dyn Future<Output = (Reader, Next)> + Send>>,
}

/// What has come as a graph.
pub(super) enum Memory {
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

/// What comes next by a channel.
enum Next {
    Message(Memory),
    Ended,
    Died(LinkError),
}

impl Inbox {
    pub(super) fn open(handle: &Handle, name: &str, bytes_max: u64) -> Result<Self, GraphError> {
        let listen = |(fabric, links): &(String, egret_node::Links)| {
            let taken = |_| GraphError::Taken { name: name.to_owned() };
            Ok((fabric.clone(), links.listen(name, BACKLOG).map_err(taken)?))
        };
        let listeners = handle.links().iter().map(listen).collect::<Result<_, GraphError>>()?;
        Ok(Self { listeners, strangers: Vec::new(), readers: Vec::new(), next: 0, bytes_max })
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
            match self.readers[at].poll(context, self.bytes_max) {
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
                Some(from) => {
                    let next = Box::pin(next(reader, self.bytes_max));
                    self.readers.push(Incoming { from, next });
                }
                None => self.strangers.push((fabric, reader)),
            }
        }
    }
}

impl Incoming {
    fn poll(&mut self, context: &mut Context<'_>, bytes_max: u64) -> Poll<Next> {
        self.next.as_mut().poll(context).map(|(reader, came)| {
            self.next = Box::pin(next(reader, bytes_max));
            came
        })
    }
}

async fn next(mut reader: Reader, bytes_max: u64) -> (Reader, Next) {
    let next = loop {
        let came = match reader.next().await {
            Ok(None) => break Next::Ended,
            Ok(Some(mut message)) => gather(&mut message, bytes_max).await,
            Err(why) => Err(why),
        };
        match came {
            Ok(memory) => break Next::Message(memory),
            Err(ReadError::Link(why)) => break Next::Died(why),
            // Its sender has given it up, and knows.
            Err(_) => pause().await,
        }
    };
    (reader, next)
}

/// A graph that is one part, or several behind one that says how many bytes they have. What is
/// not wanted of a message is skipped.
async fn gather(message: &mut Delivery<'_>, bytes_max: u64) -> Result<Memory, ReadError> {
    let pieces = |said, there| Ok(Memory::Pieces { said, there });
    let Some(first) = message.next_part().await? else { return pieces(0, 0) };
    let bytes = match <[u8; 8]>::try_from(first.bytes()) {
        Ok(bytes) => u64::from_le_bytes(bytes),
        Err(_) => {
            let is_whole = matches!(message.poll_next_part(), Ok(Some(None)));
            let there = first.bytes().len() as u64;
            return if is_whole { Ok(Memory::Part(first)) } else { pieces(there, there + 1) };
        }
    };
    if bytes > bytes_max && !planted(Fault::AnySize) {
        return Ok(Memory::TooLarge(bytes));
    }
    let (mut words, count) = (Vec::new(), usize::try_from(bytes / 8).unwrap_or(usize::MAX));
    if words.try_reserve_exact(count).is_err() {
        return Ok(Memory::NoRoom);
    }
    while let Some(part) = message.next_part().await? {
        let there = 8 * words.len() as u64 + part.bytes().len() as u64;
        let part = match part.into_typed::<u64>() {
            Ok(part) if !part.is_empty() && part.len() <= count - words.len() => part,
            Err(ReadError::NoMemory) => return Ok(Memory::NoRoom),
            _ => return pieces(bytes, there),
        };
        words.extend_from_slice(&part);
        if planted(Fault::Halves) {
            break;
        }
        pause().await;
    }
    let there = words.len() as u64 * 8;
    if there == bytes { Ok(Memory::Words(words)) } else { pieces(bytes, there) }
}

/// Lets whoever waits look at its deadline, however fast a peer sends.
async fn pause() {
    let mut is_over = false;
    let turn = |context: &mut Context<'_>| {
        if replace(&mut is_over, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    };
    poll_fn(turn).await;
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

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("from", &self.from).finish_non_exhaustive()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the memory of a graph")
    }
}

/// Channels that wait to be accepted: each is accepted when anything is received.
const BACKLOG: usize = 1024;
