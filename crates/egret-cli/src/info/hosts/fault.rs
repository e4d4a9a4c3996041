//! Faults that tests plant in what `egret info --hosts` makes of the answers, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

egret::__private::net::faults! {
    /// Ways to get it wrong.
    pub(super) enum Fault {
        /// A pair without tcp does not prevent a job.
        PairForgiven,
        /// A machine with another job protocol does not prevent a job.
        ProtocolForgiven,
        /// A machine that was not reached is not in the findings.
        UnreachedUntold,
        /// Limits are compared with nothing.
        LimitsIgnored,
        /// A clock is compared by the answer that came last instead of the one that came soonest.
        LastAnswer,
        /// A process that answers anything passes for a machine of the check.
        StrangerBelieved,
    }
}
