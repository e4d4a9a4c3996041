//! Programs that are run several times, in their two forms turn by turn, and compared.

use std::io;
use std::time::Duration;

use crate::AppError;
use crate::report::{AppReport, AppRun, Efficiency, median};
use crate::team::AppTeam;

/// Runs one process of an application; that of rank 0 prints the report.
pub(crate) fn run_process(
    json: bool,
    report: impl FnOnce(&mut AppTeam) -> Result<AppReport, AppError>,
) -> Result<(), AppError> {
    let mut team = AppTeam::join()?;
    let (report, first) = (report(&mut team)?, team.rank() == 0);
    team.leave();
    if first {
        report.write(json, &mut io::stdout().lock())?;
    }
    Ok(())
}

/// A program in its two forms.
pub(crate) trait Program {
    /// All of it by one process, as long as the others live; how long that took. The
    /// result is kept for [`check`](Self::check).
    fn sequential(&mut self, team: &AppTeam) -> Result<Duration, AppError>;

    /// The part of this process, with the others.
    fn parallel(&mut self, team: &mut AppTeam) -> Result<(Duration, TrafficTotals), AppError>;

    /// Compares what the processes have computed with what process 0 has computed alone.
    fn check(&mut self, team: &mut AppTeam) -> Result<(), AppError>;
}

/// What a process has sent, and how long that and waiting for others took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct TrafficTotals {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
}

impl TrafficTotals {
    /// Counts what is sent.
    pub(crate) fn count(&mut self, values: &[f64]) {
        self.messages += 1;
        self.bytes += size_of_val(values) as u64;
    }
}

/// How often a program is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppRounds {
    pub(crate) count: u32,
    /// Whether as many copies as there are processes run too.
    pub(crate) copies: bool,
}

impl AppRounds {
    /// Runs a program; what process 0 says of it counts.
    pub(crate) fn run(
        self,
        team: &mut AppTeam,
        program: &mut dyn Program,
    ) -> Result<AppRun, AppError> {
        let mut times = Times::default();
        for round in 0..self.count {
            // Copies are sequential runs too, but not undisturbed ones.
            if round == 0 || !self.copies {
                times.alone.push(alone(team, program)?);
            }
            if self.copies {
                times.copies.push(copies(team, program)?);
            }
            times.parallel(team, program)?;
            program.check(team)?;
        }
        Ok(times.run(self.copies, team.size()))
    }
}

#[derive(Debug, Default)]
struct Times {
    alone: Vec<f64>,
    copies: Vec<f64>,
    parallel: Vec<f64>,
    shares: Vec<f64>,
    messages: u64,
    bytes: u64,
}

impl Times {
    fn parallel(&mut self, team: &mut AppTeam, program: &mut dyn Program) -> Result<(), AppError> {
        team.barrier()?;
        let (time, talk) = program.parallel(team)?;
        let values = [nanos(time), nanos(talk.time), talk.messages, talk.bytes];
        let all = team.collect(&values)?;
        let column = |at: usize| all.iter().filter_map(move |values| values.get(at).copied());
        let whole = column(0).max().unwrap_or(0);
        let talked: f64 = column(1).map(seconds).sum();
        self.parallel.push(seconds(whole));
        self.shares.push(talked / (seconds(whole) * f64::from(team.size())));
        (self.messages, self.bytes) = (column(2).sum(), column(3).sum());
        Ok(())
    }

    fn run(self, with_copies: bool, processes: u32) -> AppRun {
        let (seconds, alone) = (median(&self.parallel), median(&self.alone));
        let ratio = |(copy, parallel): (&f64, &f64)| copy / (f64::from(processes) * parallel);
        let ratios: Vec<f64> = self.copies.iter().zip(&self.parallel).map(ratio).collect();
        let efficiency = with_copies.then(|| Efficiency {
            ratio: median(&ratios),
            copies_seconds: self.copies,
            parallel_seconds: self.parallel,
        });
        AppRun {
            seconds,
            sequential_seconds: alone,
            speed_up: alone / seconds,
            communication_share: median(&self.shares),
            messages: self.messages,
            bytes: self.bytes,
            checked: true,
            efficiency,
            ..AppRun::default()
        }
    }
}

/// Process 0 computes, the others wait.
fn alone(team: &mut AppTeam, program: &mut dyn Program) -> Result<f64, AppError> {
    team.barrier()?;
    let time = if team.rank() == 0 { program.sequential(team)? } else { Duration::ZERO };
    team.barrier()?;
    Ok(time.as_secs_f64())
}

/// Everybody computes all of it. The time of a copy: as many as there are processes are
/// done in it, whichever was faster.
fn copies(team: &mut AppTeam, program: &mut dyn Program) -> Result<f64, AppError> {
    team.barrier()?;
    let time = program.sequential(team)?;
    let all = team.collect(&[nanos(time)])?;
    let rate: f64 = all.iter().flatten().map(|time| 1.0 / seconds(*time)).sum();
    Ok(f64::from(team.size()) / rate)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}
