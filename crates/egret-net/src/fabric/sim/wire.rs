//! What travels between simulated nodes.
//!
//! Every frame of a connection carries the same header of counts. They only
//! grow, so a lost, doubled or late frame needs no repair of its own: the next
//! one says all that it said.

use std::sync::Arc;

use super::eager::EagerRecord;
use crate::buf::Kind;
use crate::fabric::common::ConnectRefusal;
use crate::vi::{AccessError, Lane, RemoteSlice, ViError};

/// Index of a node in its world.
pub(super) type SimNodeId = usize;
/// One end of a connection, on its node. Never used twice.
pub(super) type EndId = u64;

#[derive(Debug, Clone)]
pub(super) struct SimFrame {
    pub from: SimNodeId,
    /// Which life of the sender sent it: a restart does not answer for the dead.
    pub from_life: u32,
    pub from_end: EndId,
    pub to: SimNodeId,
    /// `None` while the connector does not know it.
    pub to_end: Option<EndId>,
    pub body: FrameBody,
}

#[derive(Debug, Clone)]
pub(super) enum FrameBody {
    /// The bytes of a [`Hello`](crate::vi::Hello).
    Connect(Vec<u8>),
    Accept,
    Refuse(ConnectRefusal),
    /// The service has a listener, which has not accepted yet.
    Queued,
    /// A message of the unreliable level.
    Datagram(SimDatagram),
    /// The next item of the reliable stream.
    Item(SimCounts, u64, StreamItem),
    /// Nothing but the counts.
    Ack(SimCounts),
    /// Asks for an [`Ack`](Self::Ack), and says how far the lanes of eager messages were sent.
    Ping(SimCounts, [u64; 2]),
    /// The end that sends this has left the connection.
    Gone(SimCloseReason),
}

/// What one end of a connection has seen and allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SimCounts {
    /// Items of the peer's stream taken, in order.
    pub taken: u64,
    /// Receives posted, ever.
    pub receives: u64,
    /// Messages placed in posted memory, ever.
    pub placed: u64,
    /// The highest position of eager messages that was drained, of each lane.
    pub drained: [u64; 2],
}

#[derive(Debug, Clone)]
pub(super) struct SimDatagram {
    /// Of an eager message its lane and position.
    pub eager: Option<(Lane, u64)>,
    pub tag: u64,
    pub kind: Option<Kind>,
    pub bytes: Arc<[u8]>,
}

/// The reliable stream: messages in chunks, and remote reads and writes.
#[derive(Debug, Clone)]
pub(super) enum StreamItem {
    /// A message begins, with its first bytes; chunks follow if there are more.
    Begin { len: u64, tag: u64, kind: Option<Kind>, bytes: Arc<[u8]> },
    /// More bytes of the message that began last.
    Chunk { bytes: Arc<[u8]> },
    /// An eager message.
    Eager(EagerRecord),
    /// Asks for bytes of exposed memory.
    Read { id: u64, from: RemoteSlice, len: u64 },
    /// Some bytes that were asked for.
    ReadChunk { id: u64, offset: u64, bytes: Arc<[u8]> },
    /// A read is over.
    ReadEnd { id: u64, result: Result<(), AccessError> },
    /// A write to exposed memory begins; its chunks follow.
    Write { to: RemoteSlice, len: u64 },
    /// Some bytes of the write that began last.
    WriteChunk { offset: u64, bytes: Arc<[u8]> },
    /// The write is over; asks how it went, and may deliver a tag.
    WriteEnd { id: u64, notify: Option<u64> },
    /// How a write went.
    Written { id: u64, result: Result<(), AccessError> },
    /// Stands where an item was that has been taken before its turn; never sent.
    Overtook,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SimCloseReason {
    /// The end was closed.
    Closed,
    /// The end failed, for this reason.
    Failed(ViError),
    /// The end is unknown: the node restarted, or the connector gave up.
    Unknown,
}

impl SimCloseReason {
    /// What the other end is to make of it.
    pub(super) fn into_error(self) -> ViError {
        match self {
            Self::Closed => ViError::ClosedByPeer,
            Self::Failed(why) => why,
            Self::Unknown => ViError::PeerDied { why: "it no longer knows the connection" },
        }
    }
}

/// Bytes that a header costs on a simulated link.
const HEADER: u64 = 64;

impl FrameBody {
    /// Bytes on the link, for the time they take.
    pub(super) fn wire_len(&self) -> u64 {
        HEADER + self.payload().map_or(0, |bytes| bytes.len() as u64)
    }

    /// One word for the trace.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::Accept => "accept",
            Self::Refuse(_) => "refuse",
            Self::Queued => "queued",
            Self::Datagram(_) => "datagram",
            Self::Item(_, _, item) => item.name(),
            Self::Ack(_) => "ack",
            Self::Ping(..) => "ping",
            Self::Gone(_) => "gone",
        }
    }

    /// The number that tells frames of one kind apart in the trace.
    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Item(_, number, _) => *number,
            Self::Ack(counts) | Self::Ping(counts, _) => counts.taken,
            Self::Datagram(datagram) => datagram.tag,
            _ => 0,
        }
    }

    fn payload(&self) -> Option<&[u8]> {
        match self {
            Self::Connect(bytes) => Some(bytes),
            Self::Datagram(datagram) => Some(&datagram.bytes),
            Self::Item(
                _,
                _,
                StreamItem::Begin { bytes, .. }
                | StreamItem::Chunk { bytes }
                | StreamItem::Eager(EagerRecord { bytes, .. })
                | StreamItem::ReadChunk { bytes, .. }
                | StreamItem::WriteChunk { bytes, .. },
            ) => Some(bytes),
            _ => None,
        }
    }
}

impl StreamItem {
    const fn name(&self) -> &'static str {
        match self {
            Self::Begin { .. } => "begin",
            Self::Chunk { .. } => "chunk",
            Self::Eager(_) => "eager",
            Self::Read { .. } => "read",
            Self::ReadChunk { .. } => "read-chunk",
            Self::ReadEnd { .. } => "read-end",
            Self::Write { .. } => "write",
            Self::WriteChunk { .. } => "write-chunk",
            Self::WriteEnd { .. } => "write-end",
            Self::Written { .. } => "written",
            Self::Overtook => "overtook",
        }
    }
}
