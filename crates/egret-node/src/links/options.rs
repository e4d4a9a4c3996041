//! Options of the links of a nic.

use egret_net::vi::Reliability;

use crate::flow::FlowTerms;

/// Options of the links of a nic. The defaults are right for most programs.
///
/// ```
/// use egret_node::LinksOptions;
///
/// let options = LinksOptions::default().budget(1 << 30).pool_size(100);
/// assert_eq!((options.window, options.peers_max), (256, 116));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinksOptions {
    /// Messages that each mapping to an endpoint of this side may have under way.
    pub window: u32,
    /// Messages that all mappings to endpoints of this side may have under way together. Each takes
    /// up to 4 KiB until its handler has run.
    ///
    /// A mapping reserves its window of these messages for as long as it lasts. A quarter of them is
    /// shared out among [`peers_max`](Self::peers_max) peers: each peer can have its share, whatever
    /// the others do. The rest is served in the order of requests, but a mapping gets no more than the
    /// share of its peer and a quarter of that rest. Where little is left, windows are smaller than
    /// asked for; where fewer than 16 messages are left, an endpoint is
    /// [not mapped](crate::am::MessageError::NoRoom). Nothing is allocated before use.
    pub messages: u64,
    /// Bytes of data that peers may send to this side before it has taken them, all links together.
    ///
    /// A quarter of the budget is shared out among [`peers_max`](Self::peers_max) peers: each peer can
    /// have its share, whatever the others do. If a share is less than two mappings or channels need,
    /// 16 KiB each, up to half of the budget is shared out, and nothing if half is too little for one.
    /// A node whose budget is 256 MiB or more [raises](crate::Links::set_pool_size) it in a pool so
    /// large that half of it is too little for two.
    pub budget: u64,
    /// Links that this nic accepts. A caller beyond this number replaces the oldest link without
    /// mappings, channels and paths; if there is no such link, the caller is
    /// [refused](crate::link::LinkError::Full). Links that this side makes are not refused.
    pub peers_max: u32,
    /// Whether a background thread drives the links when no thread waits. There is none in a
    /// simulated world.
    pub background: bool,
    /// The reliability level of the connections. If the nic does not offer it, `Reception` or
    /// `Delivery` is used.
    pub reliability: Reliability,
    /// Receives that each connection has posted, if the nic takes so many.
    pub(crate) receives: u32,
}

impl Default for LinksOptions {
    fn default() -> Self {
        let reliability = Reliability::Reception;
        let (window, messages, budget, peers_max) = (256, 1 << 20, 256 << 20, 1024);
        let receives = RECEIVES;
        Self { window, messages, budget, peers_max, background: true, reliability, receives }
    }
}

impl LinksOptions {
    /// Sets [`window`](Self::window).
    ///
    /// # Panics
    ///
    /// If `messages` is 0.
    #[must_use]
    pub const fn window(mut self, messages: u32) -> Self {
        assert!(messages > 0, "LinksOptions::window must be at least 1");
        self.window = messages;
        self
    }

    /// Sets [`messages`](Self::messages).
    ///
    /// # Panics
    ///
    /// If `messages` is below 16, which one mapping needs.
    #[must_use]
    pub const fn messages(mut self, messages: u64) -> Self {
        assert!(
            messages >= WINDOW_LEAST,
            "LinksOptions::messages must be at least 16, which one mapping needs"
        );
        self.messages = messages;
        self
    }

    /// How messages are shared out among peers: as a budget in which one message is one byte.
    pub(crate) const fn admits(&self) -> FlowTerms {
        let (bytes, guarantee) = (self.messages, WINDOW_LEAST);
        FlowTerms { bytes, guarantee, window_max: bytes, peers: self.peers_max as u64 }
    }

    /// Sets [`budget`](Self::budget).
    #[must_use]
    pub const fn budget(mut self, bytes: u64) -> Self {
        self.budget = bytes;
        self
    }

    /// Sets [`peers_max`](Self::peers_max).
    ///
    /// # Panics
    ///
    /// If `links` is 0.
    #[must_use]
    pub const fn peers_max(mut self, links: u32) -> Self {
        assert!(links > 0, "LinksOptions::peers_max must be at least 1");
        self.peers_max = links;
        self
    }

    /// Sets [`peers_max`](Self::peers_max) to what a pool of this size needs: one link for each node,
    /// and 16 for the registry, for tools, and for nodes that restart before their former link is
    /// known to be dead.
    #[must_use]
    pub const fn pool_size(self, nodes: u32) -> Self {
        self.peers_max(Self::pool_peers(nodes))
    }

    /// The links that a pool of this size needs.
    pub(crate) const fn pool_peers(nodes: u32) -> u32 {
        nodes.saturating_add(16)
    }

    /// Sets [`background`](Self::background).
    #[must_use]
    pub const fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Sets [`reliability`](Self::reliability).
    #[must_use]
    pub const fn reliability(mut self, level: Reliability) -> Self {
        self.reliability = level;
        self
    }
}

/// Messages that a mapping reserves at least.
const WINDOW_LEAST: u64 = 16;
/// Receives that a connection has posted, unless its nic takes fewer.
const RECEIVES: u32 = 256;
