//! Faults that tests plant in the rendezvous, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of
//! a fault.

/// One way to get the rendezvous wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Whoever knocks is let in.
    UserUnchecked,
    /// Descriptors beyond those declared stay open.
    SurplusLeaked,
    /// What is missing at the end of a packet reads as zeros.
    TruncatedAccepted,
    /// A greeting of any version is understood.
    VersionIgnored,
    /// The end of a connection looks like silence.
    EndIsSilence,
    /// A reset hides what the peer said before it left.
    ResetIsEnd,
}

#[cfg(not(test))]
#[inline(always)]
pub(super) const fn planted(_fault: Fault) -> bool {
    false
}

#[cfg(test)]
pub(super) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Runs `body` with `fault` planted on this thread, and says whether the checks
/// in it noticed (by a panic).
#[cfg(test)]
pub(super) fn caught(fault: Fault, body: impl FnOnce()) -> bool {
    PLANTED.set(Some(fault));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    PLANTED.set(None);
    outcome.is_err()
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}
