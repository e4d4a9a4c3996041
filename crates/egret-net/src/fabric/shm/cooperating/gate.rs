//! Gates: by them a process writes memory of another one, for as long as that one permits.
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
//! never used before, and tells the other. An entrant that [enters](GateEntrant::enter) says so
//! in its own *inside* by the number, then looks whether the gate is still open,
//! and only then writes; it stores 0 when it is out, and looks once more. The
//! keeper [shuts](GateKeeper::shut) the gate and then looks who is
//! [inside](GateKeeper::is_inside). Between saying and looking there is a full fence
//! on both sides, so not both can miss what the other said:
//!
//! * an entrant that found the gate open is seen inside by a keeper that has shut it,
//!   until it is out, and with that the keeper has all that was written;
//! * an entrant that found the gate still open on its way out was not seen inside: what
//!   it wrote is there for the keeper, whatever the keeper does about late entrants.

use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use super::super::fault::{self, Fault, planted, step};
use super::super::foreign::ForeignMemory;
use super::super::memory::{LINE, LINE_WORDS, OwnMemory, Peek, Readable, WORD, Writable};
use crate::atomics::{Atomics, Word};

/// A gate that was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct GatePass {
    /// Below [`GATES`].
    pub(in super::super) gate: u16,
    /// What was stored there; not zero.
    pub(in super::super) number: u64,
}

/// The side with the memory.
#[derive(Debug)]
pub(in super::super) struct GateKeeper<O = OwnMemory, F = ForeignMemory>(GateWords<O, F>);

/// The side that writes it, one write at a time.
#[derive(Debug)]
pub(in super::super) struct GateEntrant<O = OwnMemory, F = ForeignMemory>(GateWords<O, F>);

/// The words of both sides, where both have them at the same place.
#[derive(Debug)]
struct GateWords<O, F> {
    own: O,
    foreign: F,
    /// In words.
    at: usize,
    gates: u16,
}

impl<O: Writable, F: Readable> GateKeeper<O, F> {
    /// So many gates, all shut: our memory is zero at byte `offset`, where the
    /// peer has the same. `None` if it has not.
    pub(in super::super) fn new(own: O, foreign: F, offset: usize, gates: u16) -> Option<Self> {
        GateWords::new(own, foreign, offset, gates).map(Self)
    }

    pub(in super::super) fn open(&self, pass: GatePass) {
        self.0.own(self.0.gate(pass)).store(pass.number, Release);
    }

    /// Shuts a gate: no write begins by it any more.
    pub(in super::super) fn shut(&self, pass: GatePass) {
        self.0.own(self.0.gate(pass)).store(0, Release);
        fault::shut_fence::<O::Atomics>(SeqCst);
    }

    /// Whether the peer is inside. If not, and the gate is shut, all that it ever
    /// wrote there is known here.
    pub(in super::super) fn is_inside(&self, pass: GatePass) -> bool {
        let inside = self.0.foreign(INSIDE) == pass.number;
        fault::out_fence::<O::Atomics>(Acquire);
        inside
    }

    /// Whether the peer is inside anywhere.
    pub(in super::super) fn is_anywhere(&self) -> bool {
        let inside = self.0.foreign(INSIDE) != 0;
        O::Atomics::fence(Acquire);
        inside
    }
}

impl<O: Writable, F: Readable> GateEntrant<O, F> {
    /// As [`GateKeeper::new`].
    pub(in super::super) fn new(own: O, foreign: F, offset: usize, gates: u16) -> Option<Self> {
        GateWords::new(own, foreign, offset, gates).map(Self)
    }

    /// Whether the gate is open now, which it need not stay.
    pub(in super::super) fn is_open(&self, pass: GatePass) -> bool {
        self.0.foreign(self.0.gate(pass)) == pass.number
    }

    /// Calls `write` if the gate is open, and says whether what was written is the
    /// keeper's. If not it may be, or some of it, or nothing.
    pub(in super::super) fn enter(&mut self, pass: GatePass, write: impl FnOnce()) -> bool {
        let may = self.go_in(pass);
        if may {
            write();
        }
        self.0.own(INSIDE).store(0, Release);
        step();
        fault::leave_fence::<O::Atomics>(SeqCst);
        may && self.is_open(pass)
    }

    /// Says that this side is inside, and then looks whether it may be.
    fn go_in(&self, pass: GatePass) -> bool {
        let early = planted(Fault::GateBeforeInside) && self.is_open(pass);
        self.0.own(INSIDE).store(pass.number, Release);
        step();
        fault::enter_fence::<O::Atomics>(SeqCst);
        early || self.is_open(pass)
    }
}

impl<O: Writable, F: Readable> GateWords<O, F> {
    fn new(own: O, foreign: F, offset: usize, gates: u16) -> Option<Self> {
        let end = offset.checked_add(bytes(gates))?;
        let is_there = |lines: usize| offset.is_multiple_of(LINE) && end <= lines * LINE;
        let both = is_there(own.lines().len()) && is_there(foreign.lines().len());
        both.then_some(Self { own, foreign, at: offset / WORD, gates })
    }

    fn gate(&self, pass: GatePass) -> usize {
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
pub(in super::super) const GATES: u16 = 504;

/// What so many take, in bytes.
pub(in super::super) const fn bytes(gates: u16) -> usize {
    LINE + (gates as usize * WORD).next_multiple_of(LINE)
}
