//! Several iterations in one pass over memory.
//!
//! A pass of depth `d` is `2 d` half-iterations, red and black in turn. It goes
//! through the rows like a wave: its front relaxes red in one row, the first black
//! follows one row behind, the second red behind that, and so on, so that a row
//! stays in the cache until all of them have passed. Every point sees what it
//! would see if each half-iteration went over the whole grid before the next.
//!
//! A block of rows has `2 d` rows of each neighbour around it, its borders, as they
//! are before the pass. Half-iteration `s` relaxes `2 d - 1 - s` rows of each border
//! too: the neighbour does the same work, and no process waits for another within a
//! pass. Passes go down and up in turn. The border behind which a pass begins was
//! finished early in the neighbour's last pass, and the one where it ends has the
//! time of a whole pass to travel.

use std::ops::Range;

use super::grid::{Color, Grid, larger};
use super::plan::SorPass;

/// One pass over a block of rows.
#[derive(Debug)]
pub(crate) struct Sweep {
    own: Range<usize>,
    depth: usize,
    down: bool,
    measured: bool,
    omega: f64,
    /// How far it is.
    front: usize,
    /// The largest change of its own points in the last iteration, if measured.
    change: f64,
}

impl Sweep {
    /// A pass that has not begun.
    pub(crate) fn new(own: Range<usize>, pass: &SorPass, omega: f64) -> Self {
        let (depth, down, measured) = (pass.depth as usize, pass.down, pass.measured);
        Self { own, depth, down, measured, omega, front: 0, change: 0.0 }
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> usize {
        self.own.len() + 4 * self.depth - 2
    }

    /// Up to here it can go without the border at its far side.
    pub(crate) fn far(&self) -> usize {
        self.own.len() + 2 * self.depth - 2
    }

    /// From here on these many rows of its own at the near side are final.
    pub(crate) fn near(&self, rows: usize) -> usize {
        (rows + 4 * self.depth - 2).min(self.end())
    }

    /// The largest change so far.
    pub(crate) fn change(&self) -> f64 {
        self.change
    }

    /// Goes on until the front is there.
    pub(crate) fn advance(&mut self, grid: &mut Grid, front: usize) {
        while self.front < front.min(self.end()) {
            for half in 0..2 * self.depth {
                self.relax(grid, half);
            }
            self.front += 1;
        }
    }

    fn relax(&mut self, grid: &mut Grid, half: usize) {
        let Some(row) = self.row(half) else { return };
        let more = 2 * self.depth - 1 - half;
        let first = self.own.start.saturating_sub(more).max(1);
        let end = (self.own.end + more).min(grid.size() + 1);
        if !(first..end).contains(&row) {
            return;
        }
        let color = if half.is_multiple_of(2) { Color::Red } else { Color::Black };
        let last = half + 2 >= 2 * self.depth;
        if self.measured && last && self.own.contains(&row) {
            self.change = larger(self.change, grid.relax_measured(row, color, self.omega));
        } else {
            grid.relax(row, color, self.omega);
        }
    }

    /// The row that a half-iteration has come to.
    fn row(&self, half: usize) -> Option<usize> {
        let ahead = 2 * self.depth - 1;
        if self.down {
            (self.own.start + self.front).checked_sub(ahead + half)
        } else {
            (self.own.end - 1 + ahead + half).checked_sub(self.front)
        }
    }
}
