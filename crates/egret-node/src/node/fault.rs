//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

egret_net::faults! {
    /// Faults in the choice of a fabric.
    pub(crate) enum Fault {
        /// A fabric that is preferred is not taken.
        PreferenceIgnored,
        /// A fabric is taken that does not give what is required.
        RequirementIgnored,
        /// What failed to connect is taken again.
        FailureForgotten,
    }
}
