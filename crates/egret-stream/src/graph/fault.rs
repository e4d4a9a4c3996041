//! Faults that tests plant in graphs, to show that the checks find them.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

egret_net::faults! {
    /// Ways to get it wrong.
    pub(crate) enum Fault {
        /// An object that was taken away, or another in its place, is found.
        Stale,
        /// A part that grows is not copied to its new place.
        LeftBehind,
        /// A reference to another type is accepted on arrival.
        AnyClass,
        /// A reference past the last object is accepted on arrival.
        PastTheEnd,
        /// Slices may lie on each other.
        Overlapping,
        /// The bits of values are not looked at on arrival.
        AnyBits,
        /// A compaction forgets to renew references.
        Unrenewed,
        /// Parts of the message may lie on each other.
        PartsOverlap,
        /// An object that gets the place of another gets its stamp too.
        SameStamp,
        /// All graphs have the same stamps.
        SameSeed,
        /// The types are not asked for their own checks.
        Unchecked,
        /// A root is believed to be one.
        AnyRoot,
    }
}
