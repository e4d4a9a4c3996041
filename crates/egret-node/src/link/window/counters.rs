//! What a window has done.

/// What a window has sent and heard so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WindowCounters {
    /// Datagrams sent.
    pub(crate) datagrams: u64,
    /// Those of them that had nothing but acknowledgements.
    pub(crate) acks: u64,
    /// Pieces sent for the first time.
    pub(crate) sent: u64,
    /// Pieces sent again.
    pub(crate) repeated: u64,
    /// Times that nothing was acknowledged for too long.
    pub(crate) timeouts: u64,
    /// Datagrams heard, whatever they were.
    pub(crate) heard: u64,
    /// Pieces that came before one they follow.
    pub(crate) early: u64,
    /// Pieces that had come before.
    pub(crate) doubles: u64,
    /// Datagrams that the network damaged.
    pub(crate) damaged: u64,
    /// Datagrams of another link: of an older life of the peer or of this node.
    pub(crate) foreign: u64,
}
