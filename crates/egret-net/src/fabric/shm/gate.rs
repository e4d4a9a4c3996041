//! Gates: how a process writes another's memory for as long as it may.
//!
//! Each end of a connection has this in the memory that it writes and the other
//! reads:
//!
//! ```text
//!   line 0                          then
//!   ┌─────────┬───────────────────┐ ┌────────────────────────────────────────┐
//!   │ inside  │ 7 words of 0      │ │ gates: a word each, 0 for shut         │
//!   └─────────┴───────────────────┘ └────────────────────────────────────────┘
//! ```
//!
//! The keeper of some memory opens a gate by storing a number there that it
//! never used before, and tells the other. Who [enters](Entrant::enter) says so
//! in its own *inside* by the number, then looks whether the gate is still open,
//! and only then writes; it says 0 when it is out, and looks once more. The
//! keeper [shuts](Keeper::shut) the gate and then looks who is
//! [inside](Keeper::is_inside). Between saying and looking there is a full fence
//! on both sides, so not both can miss what the other said:
//!
//! * who found the gate open is seen inside by a keeper that has shut it, until
//!   it is out, and with that the keeper has all that was written;
//! * who found it still open on its way out was not seen inside: what it wrote is
//!   there for the keeper, whatever that does about those who are late.

use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use super::fault::{Fault, planted, step};
use super::foreign::Foreign;
use super::memory::{LINE, LINE_WORDS, Own, Peek, Readable, WORD, Writable};
use crate::atomics::{Atomics, Word};

/// A gate that was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pass {
    /// Below [`GATES`].
    pub(super) gate: u16,
    /// What was stored there; not zero.
    pub(super) number: u64,
}

/// The side with the memory.
#[derive(Debug)]
pub(super) struct Keeper<O = Own, F = Foreign>(Two<O, F>);

/// The side that writes it, one write at a time.
#[derive(Debug)]
pub(super) struct Entrant<O = Own, F = Foreign>(Two<O, F>);

/// The words of both sides, where both have them at the same place.
#[derive(Debug)]
struct Two<O, F> {
    own: O,
    foreign: F,
    /// In words.
    at: usize,
    gates: u16,
}

impl<O: Writable, F: Readable> Keeper<O, F> {
    /// So many gates, all shut: our memory is zero at byte `offset`, where the
    /// peer has the same. `None` if it has not.
    pub(super) fn new(own: O, foreign: F, offset: usize, gates: u16) -> Option<Self> {
        Two::new(own, foreign, offset, gates).map(Self)
    }

    pub(super) fn open(&self, pass: Pass) {
        self.0.own(self.0.gate(pass)).store(pass.number, Release);
    }

    /// Nobody gets in any more.
    pub(super) fn shut(&self, pass: Pass) {
        self.0.own(self.0.gate(pass)).store(0, Release);
        if !planted(Fault::ShutUnfenced) {
            O::Atomics::fence(SeqCst);
        }
    }

    /// Whether the peer is inside. If not, and the gate is shut, all that it ever
    /// wrote there is known here.
    pub(super) fn is_inside(&self, pass: Pass) -> bool {
        let inside = self.0.foreign(INSIDE) == pass.number;
        if !planted(Fault::OutUnfenced) {
            O::Atomics::fence(Acquire);
        }
        inside
    }

    /// Whether the peer is inside anywhere.
    pub(super) fn is_anywhere(&self) -> bool {
        let inside = self.0.foreign(INSIDE) != 0;
        O::Atomics::fence(Acquire);
        inside
    }
}

impl<O: Writable, F: Readable> Entrant<O, F> {
    /// As [`Keeper::new`].
    pub(super) fn new(own: O, foreign: F, offset: usize, gates: u16) -> Option<Self> {
        Two::new(own, foreign, offset, gates).map(Self)
    }

    /// Whether the gate is open now, which it need not stay.
    pub(super) fn is_open(&self, pass: Pass) -> bool {
        self.0.foreign(self.0.gate(pass)) == pass.number
    }

    /// Calls `write` if the gate is open, and says whether what was written is the
    /// keeper's. If not it may be, or some of it, or nothing.
    pub(super) fn enter(&mut self, pass: Pass, write: impl FnOnce()) -> bool {
        let early = planted(Fault::GateBeforeInside) && self.is_open(pass);
        self.0.own(INSIDE).store(pass.number, Release);
        step();
        if !planted(Fault::EnterUnfenced) {
            O::Atomics::fence(SeqCst);
        }
        let may = early || self.is_open(pass);
        if may {
            write();
        }
        self.0.own(INSIDE).store(0, Release);
        step();
        if !planted(Fault::LeaveUnfenced) {
            O::Atomics::fence(SeqCst);
        }
        may && self.is_open(pass)
    }
}

impl<O: Writable, F: Readable> Two<O, F> {
    fn new(own: O, foreign: F, offset: usize, gates: u16) -> Option<Self> {
        let end = offset.checked_add(bytes(gates))?;
        let is_there = |lines: usize| offset.is_multiple_of(LINE) && end <= lines * LINE;
        let both = is_there(own.lines().len()) && is_there(foreign.lines().len());
        both.then_some(Self { own, foreign, at: offset / WORD, gates })
    }

    fn gate(&self, pass: Pass) -> usize {
        assert!(pass.gate < self.gates, "there is no gate {}", pass.gate);
        LINE_WORDS + usize::from(pass.gate)
    }

    fn own(&self, word: usize) -> &<O::Atomics as Atomics>::Word {
        &self.own.lines().as_flattened()[self.at + word]
    }

    fn foreign(&self, word: usize) -> u64 {
        self.foreign.lines().as_flattened()[self.at + word].peek()
    }
}

const INSIDE: usize = 0;

/// How many gates there are: with their first line, a page.
pub(super) const GATES: u16 = 504;

/// What so many take, in bytes.
pub(super) const fn bytes(gates: u16) -> usize {
    LINE + (gates as usize * WORD).next_multiple_of(LINE)
}
