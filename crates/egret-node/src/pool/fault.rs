//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

egret_net::faults! {
    /// Faults in what the registry and its members both apply.
    pub(crate) enum Fault {
        /// The next winner of an election has the epoch of the one before.
        EpochKept,
    }
}
