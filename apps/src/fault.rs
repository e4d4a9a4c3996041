//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

#[cfg(test)]
use std::cell::Cell;

/// Ways to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// One point of a border is sent with its last bit changed.
    WrongBorder,
    /// A border is sent before it is final.
    EarlyBorder,
    /// A border is used where it is not the last.
    OldBorder,
    /// A point is no number.
    NoNumber,
    /// A process takes the largest change for half of it.
    SmallChange,
    /// A block goes around the ring with one value changed.
    WrongBlock,
    /// A process takes a block for that of another.
    OtherBlock,
    /// A process sends more than it was asked for.
    Twice,
}

/// Whether `fault` is planted on this thread.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn planted(_fault: Fault) -> bool {
    false
}

/// Whether `fault` is planted on this thread.
#[cfg(test)]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Plants a fault on this thread.
#[cfg(test)]
pub(crate) fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

#[cfg(test)]
thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}
