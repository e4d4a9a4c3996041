//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a
//! fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

/// What of a value that was tried stays in a stream.
pub(crate) fn stays(is_whole: bool) -> bool {
    is_whole || planted(Fault::HalfWritten)
}

/// The next chunk of a stream.
#[inline]
pub(crate) fn chunk(next: &[u8], position: usize) -> &[u8] {
    let is_short = planted(Fault::LostAtSplit) && position > 0 && next.len() > 1;
    if is_short { &next[1..] } else { next }
}

egret_net::faults! {
    /// Ways to get it wrong.
    pub(crate) enum Fault {
        /// What does not fit leaves its beginning in the stream.
        HalfWritten,
        /// Arrays are not aligned.
        NoPadding,
        /// A length is believed, and memory taken for it.
        TrustedLength,
        /// A run over the end of a chunk goes on behind the first byte of the next.
        LostAtSplit,
        /// What a source did not fill counts as filled.
        FilledUp,
        /// The depth of nested values is not counted.
        Bottomless,
        /// A shared value is written again.
        Unshared,
        /// Cycles of a value that could not be read stay.
        Leaked,
        /// A type of the same name is taken for the same.
        AnyStructure,
        /// A number stands alone where its explanation may not have arrived.
        TooBare,
        /// A value is handed out unchecked.
        Unchecked,
        /// A field that the writer lacks is made without a default.
        MadeUp,
        /// A field that is skipped leaves its last byte.
        SkippedShort,
        /// A fingerprint does not see the names of fields.
        Nameless,
    }
}
