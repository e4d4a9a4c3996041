//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.

egret_net::faults! {
    /// Ways to get it wrong.
    pub(super) enum Fault {
        /// Checksums are not looked at.
        Unchecked,
        /// Datagrams of another link are taken.
        OlderLife,
        /// A message that comes twice is delivered twice.
        Twice,
        /// A message is delivered when it comes, not when it is its turn.
        Overtaken,
        /// Nobody acknowledges what has come before.
        QuietDoubles,
        /// What was not acknowledged in time is not sent again.
        Unrepeated,
        /// After silence everything is repeated at once.
        Storm,
        /// An acknowledgement is acknowledged.
        AckOfAck,
        /// An acknowledgement of anything is believed.
        AnyAck,
        /// Nobody looks where a piece is in the window.
        Boundless,
        /// A piece has the bytes it has.
        AnySize,
    }
}
