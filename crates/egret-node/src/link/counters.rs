//! What links have done.

/// What the links of a nic have done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LinkCounters {
    /// Links that were made, by either side.
    pub made: u64,
    /// Links that ended, for whatever reason.
    pub ended: u64,
    /// Peers that were cut off.
    pub cut_off: u64,
    /// Connections that were sent away, for they did not say hello, or not so.
    pub turned_away: u64,
    /// Messages that the connections of links have sent.
    pub sent: u64,
    /// Messages that they have received.
    pub received: u64,
    /// Messages of [paths](crate::Path) that handlers have run for.
    pub path_received: u64,
    /// Messages of paths that came and were dropped: nobody has the port, too many wait, or they were
    /// doubled, damaged or too late.
    pub path_dropped: u64,
}
