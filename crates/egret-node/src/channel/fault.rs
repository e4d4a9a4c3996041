//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

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
    }
}
