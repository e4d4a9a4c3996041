//! What a nic can do, and how surely.

use std::fmt;

/// What a [`Nic`](super::Nic) allows. Asking for more is an error that names the limit.
///
/// ```
/// use egret_net::vi::Reliability;
///
/// let sim = egret_net::fabric::sim::Sim::new(1);
/// let limits = sim.nic("a").limits();
/// assert!(limits.segments_max >= 16 && limits.offers(Reliability::Delivery));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Descriptors that may be outstanding on one queue of one [`Vi`](super::Vi).
    pub queue_depth: u32,
    /// Bytes that one descriptor may transfer.
    pub transfer_max: u64,
    /// Segments that one descriptor may have; never below 16.
    pub segments_max: u32,
    /// Bytes of memory that may be registered at the same time.
    pub registrable_max: u64,
    /// From this many bytes on, a slice is sent faster from where it lies than
    /// from a copy. Measured for each fabric with `egret bench latency`.
    pub pin_threshold: u64,
    /// Whether the fabric offers this level: unreliable, delivery, reception.
    pub reliability: [bool; 3],
}

impl Limits {
    /// The least that every fabric offers; a fabric sets what it has more.
    #[must_use]
    pub const fn least() -> Self {
        Self {
            queue_depth: 64,
            transfer_max: u32::MAX as u64,
            segments_max: 16,
            registrable_max: 1 << 30,
            pin_threshold: 8 << 10,
            reliability: [true; 3],
        }
    }

    /// Whether the fabric offers `level`.
    #[must_use]
    pub const fn offers(&self, level: Reliability) -> bool {
        self.reliability[level as usize]
    }
}

/// When a send is complete, and what happens to one that finds no receive
/// posted: the three levels of the Virtual Interface Architecture.
///
/// That a send is complete the sender hears from the peer's nic, which says so when it is
/// driven, by a poll or a wait of any thread. A peer that received the message and then only
/// computes, without driving its nic, leaves the send incomplete over `tcp`, and a blocking
/// [`send`](super::Vi::send) fails at its deadline although the message is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Reliability {
    /// Complete when it has left. May be lost, doubled or overtaken; a message
    /// that finds no receive posted is dropped and counted.
    Unreliable = 0,
    /// Complete when the data has reached the peer's fabric. In order, once;
    /// waits while the peer has no receive posted.
    Delivery = 1,
    /// Complete when the data lies in the memory the peer posted. In order,
    /// once; waits while the peer has no receive posted.
    #[default]
    Reception = 2,
}

impl Reliability {
    /// All levels, the least first.
    pub const ALL: [Self; 3] = [Self::Unreliable, Self::Delivery, Self::Reception];

    /// The level with this number on the wire.
    #[must_use]
    pub const fn from_wire(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Unreliable),
            1 => Some(Self::Delivery),
            2 => Some(Self::Reception),
            _ => None,
        }
    }

    /// Whether nothing is lost and nothing overtakes while the connection lives.
    #[must_use]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Unreliable)
    }
}

impl fmt::Display for Reliability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreliable => "unreliable",
            Self::Delivery => "reliable delivery",
            Self::Reception => "reliable reception",
        })
    }
}
