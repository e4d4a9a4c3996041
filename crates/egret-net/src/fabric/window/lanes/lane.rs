//! What a window keeps apart.

/// A lane of a window. None waits for those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(in crate::fabric::window) enum WindowLane {
    /// How far an end is, requests, and short answers.
    Control = 0,
    /// Messages of the eager class, and the last word of a connection.
    Eager = 1,
    /// Posted messages and remote writes, in their order.
    Posted = 2,
    /// The bytes that remote reads ask for.
    Answers = 3,
}

/// How many there are.
pub(super) const LANES: usize = 4;

impl WindowLane {
    /// All of them, the most urgent first.
    pub(in crate::fabric::window) const ALL: [Self; LANES] =
        [Self::Control, Self::Eager, Self::Posted, Self::Answers];
}
