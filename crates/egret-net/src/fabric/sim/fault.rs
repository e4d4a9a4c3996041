//! Faults put into the simulator on purpose, to show that the conformance
//! suite finds them. Without the `conformance` feature none can be switched on.
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

use super::datapath::EndOutput;
use crate::vi::{AccessError, Lane, Posted, ViError};

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

// What follows returns the value that it is given, or does what it is named for, unless a fault is
// planted.
impl EndOutput<'_> {
    /// The turn of an item, where `next` is the next one.
    pub(super) fn turn(&self, number: u64, next: u64) -> u64 {
        if self.has(Fault::Overtakes) { next } else { number }
    }

    /// The bytes of a chunk.
    pub(super) fn chunk<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let is_cut = self.has(Fault::LosesLastByte) && bytes.len() > 1;
        &bytes[..bytes.len() - usize::from(is_cut)]
    }

    /// The tag of a message.
    pub(super) fn tag(&self, tag: u64) -> u64 {
        if self.has(Fault::ShortTag) { tag & 0xffff_ffff } else { tag }
    }

    /// The receives that the peer has.
    pub(super) fn receives(&self, said: u64) -> u64 {
        if self.has(Fault::IgnoresReceives) { u64::MAX } else { said }
    }

    /// The result of a remote access.
    pub(super) fn access(&self, result: Result<(), AccessError>) -> Result<(), AccessError> {
        match result {
            Err(AccessError::OutOfBounds { .. }) if self.has(Fault::IgnoresBounds) => Ok(()),
            result => result,
        }
    }

    /// The place of the lane of a message.
    pub(super) fn lane(&self, lane: Lane) -> usize {
        lane as usize ^ usize::from(self.has(Fault::LaneMistaken))
    }

    /// How many messages count as dropped.
    pub(super) fn dropped(&self, count: u64) -> u64 {
        if self.has(Fault::DropsUncounted) { 0 } else { count }
    }

    /// Gives a descriptor back that comes to nothing.
    pub(super) fn fail(&mut self, posted: Posted, why: ViError) {
        if self.has(Fault::ForgetsBuffers) {
            return std::mem::forget(posted);
        }
        posted.fail(why, self.notices);
    }
}
