//! How a budget is shared out.

/// How a [`Budget`](super::Budget) is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowTerms {
    /// All there is.
    pub bytes: u64,
    /// What a flow may always hold.
    pub guarantee: u64,
    /// The most a flow holds without asking.
    pub window_max: u64,
    /// How many peers have a share of it each.
    pub peers: u64,
}

impl FlowTerms {
    /// The usual ones: 16 KiB for each flow, and never more than 4 MiB without asking.
    #[must_use]
    pub const fn of(bytes: u64) -> Self {
        Self { bytes, guarantee: 16 << 10, window_max: 4 << 20, peers: 0 }
    }

    /// With a share for each of so many peers: a quarter of everything, or up to half of it for
    /// two flows each. If not even one flow each is within that half, there are no shares.
    #[must_use]
    pub const fn shared_by(mut self, peers: u64) -> Self {
        self.peers = peers;
        self
    }

    /// The fewest bytes of which each peer has a share of two flows.
    #[must_use]
    pub const fn least(&self) -> u64 {
        self.peers * 2 * FLOWS_LEAST * self.guarantee
    }

    /// What each peer may hold, whatever the others do.
    #[must_use]
    pub const fn share(&self) -> u64 {
        if self.peers == 0 || self.guarantee == 0 {
            return 0;
        }
        let quarter = self.bytes / FLOOR / self.peers;
        let quarter = if quarter < self.guarantee { 0 } else { quarter };
        let half = self.bytes / 2 / self.peers / self.guarantee;
        let flows = if half < FLOWS_LEAST { half } else { FLOWS_LEAST };
        let least = flows * self.guarantee;
        if quarter > least { quarter } else { least }
    }
}

impl Default for FlowTerms {
    fn default() -> Self {
        Self::of(256 << 20)
    }
}

/// Flows that the share of a peer has room for, if half of everything is enough for that.
const FLOWS_LEAST: u64 = 2;
/// Large pieces leave this part of everything.
pub(super) const FLOOR: u64 = 4;
