//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

egret_net::faults! {
    /// Faults in flows and in their budget.
    pub(crate) enum Fault {
        /// What a flow held when it was closed is not free again.
        Leaky,
        /// A flow may hold whatever is free.
        Greedy,
        /// A flow that asks gets more, whether it is read or not.
        Stuffed,
        /// What was guaranteed is not set aside.
        Unreserved,
        /// The first peer takes the shares of others.
        Unshared,
        /// A piece of any size is waited for.
        Believed,
        /// What others hold makes a piece too large that its sender's share has room for.
        Floored,
        /// The credit of a peer for what it sends is not checked.
        Unchecked,
        /// A writer does not look at its credit.
        Spendthrift,
        /// A want is not heard if the credit crosses it.
        WantForgotten,
        /// Credit that is not used is not asked for when others wait for it.
        NotRecalled,
        /// What was granted for a piece is asked back at once.
        AskedBack,
    }
}

/// What is free again of what a closed flow held.
#[inline]
pub(super) fn freed(held: u64) -> u64 {
    if planted(Fault::Leaky) { 0 } else { held }
}

/// What a flow may have of what is spare, one part in so many.
#[inline]
pub(super) fn share_of(spare: u64, parts: u64) -> u64 {
    if planted(Fault::Greedy) { u64::MAX } else { spare / parts }
}

/// What is set aside of what a flow lacks.
#[inline]
pub(super) fn set_aside(lacked: u64) -> u64 {
    if planted(Fault::Unreserved) { 0 } else { lacked }
}
