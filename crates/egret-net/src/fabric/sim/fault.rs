//! Faults put into the simulator on purpose, to show that the conformance
//! suite finds them. Without the `conformance` feature none can be switched on.
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

/// A fault to plant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The last byte of each chunk stays behind.
    LosesLastByte,
    /// Items are taken as they come, whatever their turn.
    Overtakes,
    /// A send does not wait for a posted receive; without one the message is gone.
    IgnoresReceives,
    /// A send completes when it leaves, at every level.
    CompletesEarly,
    /// A tag has 32 bits.
    ShortTag,
    /// A write outside the exposed memory is answered as if it had been done.
    IgnoresBounds,
    /// Closing forgets the descriptors that are still inside.
    ForgetsBuffers,
    /// A silent peer is never given up.
    NeverDies,
    /// Eager messages of bulk are drained before those of talk.
    BulkFirst,
    /// An eager message arrives in the other lane.
    LaneMistaken,
    /// An eager message overtakes those of its lane that were not drained.
    LaneTurned,
    /// An eager message counts as drained when it arrives.
    DrainedEarly,
    /// What was drained of a lane is what was said last, also by a frame that was overtaken.
    DrainedFalls,
    /// What was drained of a lane is how many messages were, not how far.
    CountsDrained,
    /// An eager message that there is no room for is dropped without being counted.
    DropsUncounted,
    /// An eager message waits for the posted message or remote write that has begun.
    TalkWaits,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::LosesLastByte,
        Self::Overtakes,
        Self::IgnoresReceives,
        Self::CompletesEarly,
        Self::ShortTag,
        Self::IgnoresBounds,
        Self::ForgetsBuffers,
        Self::NeverDies,
        Self::BulkFirst,
        Self::LaneMistaken,
        Self::LaneTurned,
        Self::DrainedEarly,
        Self::DrainedFalls,
        Self::CountsDrained,
        Self::DropsUncounted,
        Self::TalkWaits,
    ];

    /// Whether `self` is the fault that was planted.
    pub(super) fn is_in(self, planted: Option<Self>) -> bool {
        cfg!(any(test, feature = "conformance")) && planted == Some(self)
    }
}
