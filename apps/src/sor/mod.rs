//! Red/black successive over-relaxation, over remote calls.
//!
//! A square grid inside a fixed edge is brought to where every point is the mean of
//! its four neighbours. Points are red and black as on a chessboard; an iteration
//! relaxes all red ones, then all black ones. The processes have blocks of rows, and
//! put the rows at their borders into the object of the neighbour. With
//! `--converge` they agree on the largest change every so many iterations.

mod grid;
mod part;
mod plan;
mod sequential;
mod sweep;
#[cfg(test)]
mod tests;

use std::time::Duration;

use egret::rt;

use crate::progress::AppProgress;
use crate::rounds::{self, AppRounds, Program, TrafficTotals};
use crate::team::AppTeam;
use crate::{AppError, AppReport};
use grid::Grid;
use part::GridPart;
use plan::{SettleRule, SorPlan};
use sequential::SorOutcome;

/// Red/black successive over-relaxation of a square grid.
#[derive(Debug, Clone, clap::Args)]
pub struct SorArgs {
    /// Rows and columns of the grid
    #[arg(long, value_name = "N", default_value_t = 1600, value_parser = clap::value_parser!(u32).range(1..=32768))]
    pub size: u32,
    /// Iterations, or with --converge their limit [default: 100, or 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: Option<u32>,
    /// Go on until no point changes by more than this in one iteration [default: 1e-3]
    #[arg(long, value_name = "CHANGE", num_args = 0..=1, require_equals = true,
          default_missing_value = "1e-3")]
    pub converge: Option<f64>,
    /// Iterations between two looks at the largest change
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub every: u32,
    /// Iterations in one pass over memory, and between two exchanges of borders
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub depth: u32,
    /// Compare with as many independent sequential copies, turn by turn
    #[arg(long)]
    pub efficiency: bool,
    /// Repetitions, from which medians are taken [default: 1, or 7 with --efficiency]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

impl SorArgs {
    fn plan(&self) -> Result<SorPlan, AppError> {
        if self.converge.is_some_and(|change| change.is_nan() || change <= 0.0) {
            return Err(AppError::Usage("--converge needs a change above 0".to_owned()));
        }
        let limit = if self.converge.is_some() { 100_000 } else { 100 };
        let until = self.converge.map(|change| SettleRule { change, every: self.every });
        Ok(SorPlan { iterations: self.iterations.unwrap_or(limit), depth: self.depth, until })
    }

    fn rounds(&self) -> AppRounds {
        let count = self.rounds.unwrap_or(if self.efficiency { 7 } else { 1 });
        AppRounds { count, copies: self.efficiency }
    }
}

/// One process of it; that of rank 0 prints the report.
///
/// # Errors
///
/// If the arguments do not fit together or to the number of processes, a process
/// died, or the result is wrong.
pub fn run(args: &SorArgs) -> Result<(), AppError> {
    args.plan()?;
    rounds::run_process(args.json, |team| report(args, team))
}

/// How it went, as process 0 knows it.
pub(crate) fn report(args: &SorArgs, team: &mut AppTeam) -> Result<AppReport, AppError> {
    let plan = args.plan()?;
    let part = GridPart::new(team, args.size as usize, args.depth)?;
    let progress = AppProgress::new(team.rank() == 0);
    let mut sor = Sor { plan, size: args.size as usize, part, progress, alone: None, own: None };
    let mut run = args.rounds().run(team, &mut sor)?;
    run.variant = "rmi";
    run.size = args.size;
    run.iterations = sor.own.map(|(_, ended)| ended.iterations);
    Ok(AppReport { app: "sor", processes: team.size(), runs: vec![run] })
}

struct Sor {
    plan: SorPlan,
    size: usize,
    part: GridPart,
    progress: AppProgress,
    /// What one process alone has computed.
    alone: Option<Outcome>,
    /// What this process has computed with the others.
    own: Option<Outcome>,
}

/// A number for each row, of all bits in it, and how it ended.
type Outcome = (Vec<u64>, SorOutcome);

impl Program for Sor {
    fn sequential(&mut self, team: &AppTeam) -> Result<Duration, AppError> {
        self.progress.begin("sequential", self.plan.iterations);
        let mut grid = Grid::new(self.size, 0..self.size + 2);
        let began = rt::now();
        let ended = sequential::solve(&mut grid, &self.plan, |done| {
            self.progress.step(done);
            team.all_well()
        })?;
        let time = rt::now() - began;
        self.alone = Some((grid.digests(1..self.size + 1), ended));
        Ok(time)
    }

    fn parallel(&mut self, team: &mut AppTeam) -> Result<(Duration, TrafficTotals), AppError> {
        self.progress.begin("parallel", self.plan.iterations);
        let mut grid = self.part.grid();
        let began = rt::now();
        let step = |done| self.progress.step(done);
        let (ended, talk) = self.part.solve(team, &mut grid, &self.plan, step)?;
        let time = rt::now() - began;
        self.own = Some((grid.digests(self.part.own()), ended));
        Ok((time, talk))
    }

    fn check(&mut self, team: &mut AppTeam) -> Result<(), AppError> {
        let (digests, ended) = self.own.as_ref().expect("it has computed");
        let mut values = vec![ended.iterations.into()];
        values.extend(digests);
        let alone = &self.alone;
        let verdict = team.meet(&values, |all| match alone {
            Some(alone) => vec![first_wrong(alone, &all)],
            None => vec![0],
        })?;
        match verdict.first() {
            Some(&RIGHT) => Ok(()),
            Some(0) => Err(AppError::Wrong("another number of iterations".to_owned())),
            Some(row) => Err(AppError::Wrong(format!("row {row} is not as computed alone"))),
            None => Err(AppError::Wrong(
                "the result was not compared with the sequential one".to_owned(),
            )),
        }
    }
}

/// The first row that was not computed as alone, of iterations and rows by rank; 0 if the
/// number of iterations was another.
fn first_wrong((alone, ended): &Outcome, all: &[Vec<u64>]) -> u64 {
    if all.iter().any(|values| values.first() != Some(&ended.iterations.into())) {
        return 0;
    }
    let rows: Vec<u64> = all.iter().flat_map(|values| values[1..].iter().copied()).collect();
    let wrong = alone.iter().zip(1..).find(|(digest, row)| rows.get(row - 1) != Some(digest));
    wrong.map_or(RIGHT, |(_, row)| row as u64)
}

/// No row is wrong.
const RIGHT: u64 = u64::MAX;
