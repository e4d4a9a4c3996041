//! What a window has done.

/// What a window has sent and heard so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::fabric::window) struct WindowCounters {
    /// Datagrams sent.
    pub(in crate::fabric::window) datagrams: u64,
    /// Datagrams among them that had nothing but acknowledgements.
    pub(in crate::fabric::window) acks: u64,
    /// Pieces sent for the first time.
    pub(in crate::fabric::window) sent: u64,
    /// Pieces sent again.
    pub(in crate::fabric::window) repeated: u64,
    /// Times that nothing was acknowledged for too long.
    pub(in crate::fabric::window) timeouts: u64,
    /// Times that a piece was sent again to learn what has come.
    pub(in crate::fabric::window) probes: u64,
    /// Datagrams heard, whatever they were.
    pub(in crate::fabric::window) heard: u64,
    /// Pieces that came before one they follow.
    pub(in crate::fabric::window) early: u64,
    /// Pieces that had come before.
    pub(in crate::fabric::window) doubles: u64,
    /// Datagrams that the network damaged.
    pub(in crate::fabric::window) damaged: u64,
}
