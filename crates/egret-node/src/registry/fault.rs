//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.

egret_net::faults! {
    /// Ways to get it wrong.
    pub(crate) enum Fault {
        /// A key that had a life gets another.
        KeyReused,
        /// A node may be where another is.
        HostShared,
        /// A rank may have all of the log.
        LogForOne,
        /// A node that was declared dead is served.
        NotFenced,
        /// A rank that is joined again has the incarnation that it had.
        SameIncarnation,
        /// Names outlive their node.
        NamesKept,
        /// Somebody is not told something.
        Skipped,
        /// Somebody is told in another order.
        Reordered,
        /// Who does not answer is waited for for ever.
        Deaf,
        /// Who is silent is not asked.
        Unasked,
        /// The time in which the registry was stopped counts.
        Unforgiving,
        /// A node that is gone dies again with its link.
        TwiceDead,
        /// A name is taken back whatever it stands for by now.
        AnyUnbound,
        /// Who waits for a name is not told that it is bound.
        WaitForgotten,
        /// Who waits for a name is not told that nobody is there to bind it.
        InVain,
    }
}
