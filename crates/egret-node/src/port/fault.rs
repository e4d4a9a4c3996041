//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

egret_net::faults! {
    /// Faults in ports.
    pub(crate) enum Fault {
        /// The message that came last is received first.
        LastFirst,
        /// The end of a link overtakes what came by it.
        EndFirst,
        /// The place of a long message is not kept.
        PlaceLost,
        /// A message gives its credit back when it arrives.
        CreditAtOnce,
        /// Several messages of one connection are received at once.
        BusyIgnored,
        /// After an upcall that panicked no other begins.
        PanicCounts,
        /// A sender is connected whose type differs.
        TypesUnchecked,
    }
}
