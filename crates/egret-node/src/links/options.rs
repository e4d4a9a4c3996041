//! How the links of a nic are to be.

use egret_net::vi::Reliability;

/// How the links of a nic are to be. The defaults are right for most.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinksOptions {
    /// Messages that may be under way by each mapping of an endpoint here.
    pub window: u32,
    /// Bytes of data that may be on their way here and not yet taken, all links together.
    pub budget: u64,
    /// Whether a thread drives the links when nobody waits. There is none in a simulated
    /// world.
    pub background: bool,
    /// What the connections are to be: unreliable ones, if the nic has no others or if
    /// asked for, get what is missing from the links.
    pub reliability: Reliability,
}

impl Default for LinksOptions {
    fn default() -> Self {
        let reliability = Reliability::Reception;
        Self { window: 256, budget: 256 << 20, background: true, reliability }
    }
}

impl LinksOptions {
    /// Lets so many messages of each mapping be under way.
    ///
    /// # Panics
    ///
    /// If that is none.
    #[must_use]
    pub const fn window(mut self, messages: u32) -> Self {
        assert!(messages > 0, "a window of nothing lets nothing through");
        self.window = messages;
        self
    }

    /// Takes at most so many bytes of data that are not yet used.
    #[must_use]
    pub const fn budget(mut self, bytes: u64) -> Self {
        self.budget = bytes;
        self
    }

    /// Drives the links in the background, or not.
    #[must_use]
    pub const fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Connects at this level.
    #[must_use]
    pub const fn reliability(mut self, level: Reliability) -> Self {
        self.reliability = level;
        self
    }
}
