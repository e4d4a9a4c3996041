//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.

egret_net::faults! {
    /// Ways to get it wrong.
    pub(crate) enum Fault {
        /// Whoever says that it is a host is taken for it.
        AnyKey,
        /// A link gives way to an older one.
        AnyNumber,
        /// Links of those who are not listed, or not any more, stay.
        UnlistedStay,
        /// A message is served twice.
        Twice,
        /// The credit of a message that is not answered is not given back.
        CreditKept,
        /// An answer goes to another call.
        OtherCall,
        /// What an endpoint has waiting after a move is served in the wrong order.
        MovedAround,
        /// Whatever was not acknowledged is said not to have been delivered.
        SaidLost,
        /// A sender does not look at its window.
        Boundless,
        /// What was received into is not received into again.
        NotPosted,
        /// Nobody is told of a message that came back.
        Untold,
        /// A mapping that was given up still holds bytes.
        Leaky,
        /// The number of a mapping is free before the peer knows.
        NumberFree,
        /// An endpoint is not told that a link ended.
        EndUntold,
        /// An endpoint is told twice that a link ended.
        EndTwice,
        /// The pieces of a message are in another order.
        PiecesSwapped,
        /// Links are closed with a reason before the peer has what was sent.
        Hasty,
        /// Data that goes back holds memory while others wait for that.
        HeldAgainst,
        /// An endpoint's own window is not what its mappings get.
        OtherWindow,
        /// A short request overtakes one with data.
        Overtakes,
        /// A request with data has no place among the short ones.
        NotPlaced,
        /// The place of a request whose data was refused is not given up.
        PlaceKept,
        /// A background thread that rests is not called when who has the role leaves.
        RestUncalled,
    }
}
