//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

egret_net::faults! {
    /// Faults in links and active messages.
    pub(crate) enum Fault {
        /// A link is made with whoever claims to be a host, whatever its key.
        AnyKey,
        /// A link is replaced by an older one.
        AnyNumber,
        /// Links of peers that are not listed, or not any more, stay.
        UnlistedStay,
        /// A message is served twice.
        Twice,
        /// The credit of a message that is not answered is not given back.
        CreditKept,
        /// An answer goes to another call.
        OtherCall,
        /// Messages that waited while an endpoint moved are served in the wrong order.
        MovedAround,
        /// Messages that were not acknowledged are reported as certainly not delivered.
        SaidLost,
        /// A sender ignores its window.
        Boundless,
        /// A receive that has completed is not posted again.
        NotPosted,
        /// The error handler does not run for a message that came back.
        Untold,
        /// A mapping that was given up still holds bytes.
        Leaky,
        /// The number of a mapping is free before the peer knows.
        NumberFree,
        /// The end handler of an endpoint does not run when a link has ended.
        EndUntold,
        /// The end handler of an endpoint runs twice for one link.
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
        /// A background thread that rests is not woken when the thread with the role leaves.
        RestUncalled,
    }
}
