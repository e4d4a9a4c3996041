//! Counters of links.

/// Counters of the links of a nic, from [`Links::counters`](crate::Links::counters), since the links were opened.
///
/// [`Links`](crate::Links) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LinkCounters {
    /// Links that were made, by this side or by peers.
    pub made: u64,
    /// Links that ended, for whatever reason.
    pub ended: u64,
    /// Links that ended because the peer broke the protocol.
    pub cut_off: u64,
    /// Connections that were refused a link: without a valid hello, without permission, or too many.
    pub turned_away: u64,
    /// Messages that the connections of links have sent.
    pub sent: u64,
    /// Messages that they have received.
    pub received: u64,
    /// Bytes of these messages, and of what this side has written to memory of peers.
    pub sent_bytes: u64,
    /// Bytes of the messages that were received, and of what this side has read from memory of peers.
    pub received_bytes: u64,
    /// Messages of [paths](crate::Path) whose handlers have run.
    pub path_received: u64,
    /// Messages of paths that arrived and were dropped: the port has no handler, too many wait, or they
    /// were duplicates, damaged or too late.
    pub path_dropped: u64,
}
