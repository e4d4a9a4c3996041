//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

use std::collections::VecDeque;

use super::post::Post;

egret_net::faults! {
    /// Faults in channels.
    pub(crate) enum Fault {
        /// What is dropped unread is not granted again.
        DroppedCharged,
        /// An abort ends the message after the one it is for.
        LateAbort,
        /// The parts that a writer had not sent go out after the abort.
        AbortedSent,
        /// A refused piece takes the channel with it.
        RefusalKept,
        /// The message that was posted last goes first.
        LastPosted,
        /// Nothing goes instead of a message with a place that is given up.
        PlaceEmpty,
    }
}

/// The message that was posted first goes first.
#[inline]
pub(super) fn keep_order(waiting: &mut VecDeque<Post>) {
    if planted(Fault::LastPosted) && waiting.front().is_some_and(Post::is_waiting) {
        waiting.rotate_right(1);
    }
}
