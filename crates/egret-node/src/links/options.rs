//! How the links of a nic are to be.

use egret_net::vi::Reliability;

use crate::flow::FlowTerms;

/// How the links of a nic are to be. The defaults are right for most.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinksOptions {
    /// Messages that may be under way by each mapping of an endpoint here.
    pub window: u32,
    /// Messages of all links together that may be under way by mappings of endpoints here: each
    /// takes up to 4 KiB until its handler has run.
    ///
    /// A mapping takes its window of them, for as long as it lasts. A quarter is shared out among
    /// [`peers_max`](Self::peers_max) peers: its share each peer can have, whatever the others do.
    /// The rest is for who comes first, but a mapping gets no more than its peer's share and a quarter
    /// of that rest: where little is left, windows are smaller than asked for, and where not even 16
    /// messages are, an endpoint is [not mapped](crate::am::MapError::NoRoom). Nothing is allocated
    /// before use.
    pub messages: u64,
    /// Bytes of data that may be on their way here and not yet taken, all links together.
    ///
    /// A quarter of it is shared out among [`peers_max`](Self::peers_max) peers: its share each
    /// peer can have, whatever the others do. If that is less than two mappings or channels take,
    /// 16 KiB each, up to half is shared out, and nothing if half is too little for one. A node
    /// that has 256 MiB or more [raises](crate::Links::set_pool_size) it in a pool so large that
    /// half is too little for two.
    pub budget: u64,
    /// Links that others may have to this nic. Who calls when there are as many takes the place
    /// of the oldest link by which nothing is mapped and no channel or path open; if there is none it is
    /// [refused](crate::link::LinkUpError::Full). Links that this side calls for are not refused.
    pub peers_max: u32,
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
        let (window, messages, budget, peers_max) = (256, 1 << 20, 256 << 20, 1024);
        Self { window, messages, budget, peers_max, background: true, reliability }
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

    /// Admits at most so many messages, of all mappings together.
    ///
    /// # Panics
    ///
    /// If that is too little for one mapping, 16.
    #[must_use]
    pub const fn messages(mut self, messages: u64) -> Self {
        assert!(messages >= WINDOW_LEAST, "no mapping finds room in less than 16 messages");
        self.messages = messages;
        self
    }

    /// How messages are shared out among peers.
    pub(crate) const fn admits(&self) -> FlowTerms {
        let (bytes, guarantee) = (self.messages, WINDOW_LEAST);
        FlowTerms { bytes, guarantee, window_max: bytes, peers: self.peers_max as u64 }
    }

    /// Takes at most so many bytes of data that are not yet used.
    #[must_use]
    pub const fn budget(mut self, bytes: u64) -> Self {
        self.budget = bytes;
        self
    }

    /// Lets others have so many links.
    ///
    /// # Panics
    ///
    /// If that is none.
    #[must_use]
    pub const fn peers_max(mut self, links: u32) -> Self {
        assert!(links > 0, "a nic without links has nobody to talk to");
        self.peers_max = links;
        self
    }

    /// As many links as a pool of this size needs: one of each node, and 16 for the registry,
    /// for tools, and for nodes that start again before their former link is known to be dead.
    #[must_use]
    pub const fn pool_size(self, nodes: u32) -> Self {
        self.peers_max(Self::pool_peers(nodes))
    }

    /// The links that a pool of this size needs.
    pub(crate) const fn pool_peers(nodes: u32) -> u32 {
        nodes.saturating_add(16)
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

/// Messages that a mapping is charged with, at least.
const WINDOW_LEAST: u64 = 16;
