//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

/// Keeps the channels of a rank in the order in which they were sorted.
pub(super) fn keep_order<T>(channels: &mut [T]) {
    if planted(Fault::AnyChannel) {
        channels.reverse();
    }
}

/// Whether a channel waits for what is to come by an earlier one.
pub(super) fn is_in_order() -> bool {
    !planted(Fault::AnyChannel)
}

/// All parts of a graph.
pub(super) fn all<P>(parts: impl Iterator<Item = P>) -> impl Iterator<Item = P> {
    parts.take(if planted(Fault::Halves) { 1 } else { usize::MAX })
}

egret_net::faults! {
    /// Ways to get it wrong.
    pub(crate) enum Fault {
        /// What was posted last goes first.
        LastFirst,
        /// A new channel of a rank is read while there is something in the old one.
        AnyChannel,
        /// A graph is taken for one of another rank.
        OtherSender,
        /// A receive for one rank takes those of others.
        OthersToo,
        /// A graph that is larger than is taken is taken.
        AnySize,
        /// A receive from a node that is gone does not end.
        GoneUnheard,
        /// A receive for any rank keeps to itself that a channel died.
        DiedUnheard,
        /// What waits for a channel is not posted when that is open.
        NotPosted,
        /// A channel without a reader is kept.
        Kept,
        /// A graph in parts is taken when the first of them has come.
        Halves,
        /// A graph that did not go is not given back.
        NotBack,
    }
}
