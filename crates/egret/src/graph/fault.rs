//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

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
        /// Who waits for a node that is gone is not told.
        GoneUnheard,
        /// A receive for any rank keeps to itself that a channel died.
        DiedUnheard,
        /// What waits for a channel is not posted when that is open.
        NotPosted,
        /// A channel that nobody reads any more is kept.
        Kept,
        /// A graph in parts is taken when the first of them has come.
        Halves,
        /// A graph that did not go is not given back.
        NotBack,
    }
}
