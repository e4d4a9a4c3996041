//! The parallel program: the rows of one process, and the borders that it exchanges.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use egret::prelude::*;
use egret::rt;

use super::grid::{self, Grid};
use super::plan::{SorPass, SorPlan};
use super::sequential::SorOutcome;
use super::sweep::Sweep;
use crate::AppError;
use crate::fault::{Fault, planted};
use crate::rounds::TrafficTotals;
use crate::slots::{Ahead, NumberedSlots};
use crate::team::{AppTeam, failed};

/// Where the neighbours of a process put the rows beside its own.
#[egret::remote]
pub(crate) trait Borders {
    /// Nothing: a stub connects when it is called first, and calls that are only begun
    /// should find it connected.
    #[nonblocking]
    fn connect(&self);

    /// Rows that are final after a pass, of the neighbour below or of the one above.
    #[nonblocking]
    fn put_rows(&self, below: bool, pass: u32, rows: &[f64]) -> Result<(), Ahead>;
}

#[derive(Debug, Default)]
struct Put {
    above: NumberedSlots<Vec<f64>>,
    below: NumberedSlots<Vec<f64>>,
}

struct ReceivedRows(Arc<Put>);

#[egret::remote]
impl Borders for ReceivedRows {
    fn connect(&self) {}

    fn put_rows(&self, below: bool, pass: u32, rows: &[f64]) -> Result<(), Ahead> {
        let slots = if below { &self.0.below } else { &self.0.above };
        slots.put(pass, rows)
    }
}

/// What one process has of the grid, and who is beside it.
#[derive(Debug)]
pub(crate) struct GridPart {
    size: usize,
    own: Range<usize>,
    /// Iterations in a pass at most: a neighbour has as many rows as it must send.
    depth: u32,
    above: Option<GridNeighbour>,
    below: Option<GridNeighbour>,
    put: Arc<Put>,
    _borders: Exported,
}

/// A neighbour.
#[derive(Debug)]
struct GridNeighbour {
    rank: u32,
    borders: BordersStub,
    sent: u32,
    /// What was sent last.
    pending: Option<Pending<(), Ahead>>,
}

impl GridPart {
    /// The rows of this process, and its neighbours.
    pub(crate) fn new(team: &AppTeam, size: usize, depth: u32) -> Result<Self, AppError> {
        let (rank, processes) = (team.rank(), team.size());
        let own = rows(size, rank, processes);
        let least = size / processes as usize;
        if least < 2 {
            return Err(AppError::Usage(format!(
                "{size} rows are too few for {processes} processes: each needs two"
            )));
        }
        let depth = depth.min(u32::try_from(least / 2).unwrap_or(u32::MAX));
        let put = Arc::<Put>::default();
        let borders = team.node().export(ReceivedRows(Arc::clone(&put)))?;
        borders.bind(&format!("borders.{rank}"))?;
        let side = |rank: u32| {
            let borders: BordersStub = team.find("borders", rank)?;
            borders.connect().map_err(|why| failed(rank, why))?;
            Ok::<_, AppError>(GridNeighbour { rank, borders, sent: 0, pending: None })
        };
        let above = rank.checked_sub(1).map(side).transpose()?;
        let below = (rank + 1 < processes).then(|| side(rank + 1)).transpose()?;
        Ok(Self { size, own, depth, above, below, put, _borders: borders })
    }

    /// The rows of this process.
    pub(crate) fn own(&self) -> Range<usize> {
        self.own.clone()
    }

    /// Them and their borders, at the beginning.
    pub(crate) fn grid(&self) -> Grid {
        let reach = 2 * self.depth as usize;
        let rows = self.own.start.saturating_sub(reach)..(self.own.end + reach).min(self.size + 2);
        Grid::new(self.size, rows)
    }

    /// Computes them; tells `step` the iterations of each pass.
    pub(crate) fn solve(
        &mut self,
        team: &mut AppTeam,
        grid: &mut Grid,
        plan: &SorPlan,
        mut step: impl FnMut(u32),
    ) -> Result<(SorOutcome, TrafficTotals), AppError> {
        let plan = SorPlan { depth: self.depth.min(plan.depth), ..plan.clone() };
        let omega = grid::omega(self.size);
        let mut solving = Solving { part: self, grid, talk: TrafficTotals::default(), omega };
        let mut ended = SorOutcome { iterations: 0, change: f64::INFINITY };
        let mut pass = plan.pass(0, 0);
        for number in 0.. {
            let Some(now) = pass else { break };
            let done = ended.iterations + now.depth;
            let next = plan.pass(number + 1, done);
            let change = solving.pass(team, number, &now, next.as_ref())?;
            ended.iterations = done;
            step(now.depth);
            if now.measured {
                ended.change = solving.agree(team, change)?;
                if plan.is_over(ended.change) {
                    break;
                }
                solving.send_both(&now, next.as_ref())?;
            }
            pass = next;
        }
        let Solving { part, mut talk, .. } = solving;
        talk.time += part.finish()?;
        Ok((ended.verdict(&plan)?, talk))
    }

    /// Waits until the neighbours have taken what was sent last.
    fn finish(&mut self) -> Result<Duration, AppError> {
        let began = rt::now();
        for side in self.above.iter_mut().chain(&mut self.below) {
            side.finish()?;
        }
        Ok(rt::now() - began)
    }
}

/// The rows that a process has.
pub(crate) fn rows(size: usize, rank: u32, processes: u32) -> Range<usize> {
    let first = |rank: u32| 1 + size * rank as usize / processes as usize;
    first(rank)..first(rank + 1)
}

/// A computation under way.
struct Solving<'a> {
    part: &'a mut GridPart,
    grid: &'a mut Grid,
    talk: TrafficTotals,
    omega: f64,
}

impl Solving<'_> {
    /// One pass, and the largest change. What the neighbours need for the next pass is on
    /// its way then, unless it is to be decided first whether there is one.
    fn pass(
        &mut self,
        team: &AppTeam,
        number: u32,
        pass: &SorPass,
        next: Option<&SorPass>,
    ) -> Result<f64, AppError> {
        let mut sweep = Sweep::new(self.part.own.clone(), pass, self.omega);
        // At the beginning everybody knows all rows.
        let known = number == 0;
        if !known {
            self.receive(team, !pass.down, pass)?;
        }
        let rows = next.map_or(0, SorPass::reach);
        let near =
            if planted(Fault::EarlyBorder) { sweep.near(rows) / 2 } else { sweep.near(rows) };
        let early = !pass.measured && near <= sweep.far();
        if early {
            sweep.advance(self.grid, near);
            self.send(!pass.down, rows)?;
        }
        sweep.advance(self.grid, sweep.far());
        if !known {
            self.receive(team, pass.down, pass)?;
        }
        if planted(Fault::NoNumber) {
            *self.grid.point(self.part.own.start, 1) = f64::NAN;
        }
        sweep.advance(self.grid, usize::MAX);
        if !pass.measured {
            if !early {
                self.send(!pass.down, rows)?;
            }
            self.send(pass.down, rows)?;
        }
        Ok(sweep.change())
    }

    fn send_both(&mut self, pass: &SorPass, next: Option<&SorPass>) -> Result<(), AppError> {
        let rows = next.map_or(0, SorPass::reach);
        self.send(pass.down, rows)?;
        self.send(!pass.down, rows)
    }

    /// The largest change of all processes.
    fn agree(&mut self, team: &mut AppTeam, change: f64) -> Result<f64, AppError> {
        let began = rt::now();
        let most = team.max(change)?;
        let told = if team.rank() == 0 { team.size() - 1 } else { 1 };
        (0..told).for_each(|_| self.talk.count(&[change]));
        self.talk.time += rt::now() - began;
        Ok(if planted(Fault::SmallChange) { most / 2.0 } else { most })
    }

    /// Sends the outermost rows to a neighbour, if there is one.
    fn send(&mut self, below: bool, rows: usize) -> Result<(), AppError> {
        let own = self.part.own.clone();
        let part = &mut *self.part;
        let side = if below { &mut part.below } else { &mut part.above };
        let Some(side) = side.as_mut().filter(|_| rows > 0) else { return Ok(()) };
        let began = rt::now();
        let rows = if below { own.end - rows..own.end } else { own.start..own.start + rows };
        let mut values = self.grid.span(rows).to_vec();
        if planted(Fault::WrongBorder) {
            let middle = values.len() / 3;
            values[middle] = f64::from_bits(values[middle].to_bits() ^ 1);
        }
        self.talk.count(&values);
        // The neighbour's other side.
        side.send(!below, values)?;
        self.talk.time += rt::now() - began;
        Ok(())
    }

    /// Puts a border where it belongs, if there is a neighbour.
    fn receive(&mut self, team: &AppTeam, below: bool, pass: &SorPass) -> Result<(), AppError> {
        let (own, count) = (self.part.own.clone(), pass.reach());
        let side = if below { &self.part.below } else { &self.part.above };
        let Some(side) = side else { return Ok(()) };
        let began = rt::now();
        let slots = if below { &self.part.put.below } else { &self.part.put.above };
        team.wait_ready(side.rank, slots, team.node().deadline())?;
        let rows = if below { own.end..own.end + count } else { own.start - count..own.start };
        let border = self.grid.span_mut(rows);
        let fits = slots.take(|values| {
            let fits = values.len() == border.len();
            if fits && !planted(Fault::OldBorder) {
                border.copy_from_slice(values);
            }
            fits
        });
        self.talk.time += rt::now() - began;
        if fits != Some(true) {
            let why = "it has sent another number of rows".to_owned();
            return Err(AppError::Peer { rank: side.rank, why });
        }
        Ok(())
    }
}

impl GridNeighbour {
    fn send(&mut self, below: bool, rows: Vec<f64>) -> Result<(), AppError> {
        self.finish()?;
        if planted(Fault::Twice) {
            let twice = self.borders.begin().put_rows(below, self.sent, rows.clone());
            twice.wait().map_err(|why| failed(self.rank, why))?;
        }
        self.pending = Some(self.borders.begin().put_rows(below, self.sent, rows));
        self.sent = self.sent.wrapping_add(1);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), AppError> {
        match self.pending.take() {
            Some(pending) => pending.wait().map_err(|why| failed(self.rank, why)),
            None => Ok(()),
        }
    }
}
