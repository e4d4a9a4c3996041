//! Repeating, interleaving, and medians.

use std::time::Duration;

use anyhow::Result;
use egret::net::rt;
use hdrhistogram::Histogram;

use super::args::Common;
use super::progress::Progress;
use super::report::{Figure, Line};

/// One line of a report before it is measured.
pub(crate) struct Case {
    /// What is measured: the line's names and sizes, its figures still missing.
    pub(crate) line: Line,
    /// What the figures mean.
    pub(crate) unit: Unit,
    /// Egret's side of it, or the limit itself where that is all there is.
    pub(crate) subject: Box<dyn Probe>,
    /// What it is held against.
    pub(crate) against: Against,
    /// How many rounds a run has; as many as fill the time if it is not said.
    pub(crate) rounds: Option<u64>,
}

/// What a subject is held against.
pub(crate) enum Against {
    /// It is a limit itself.
    Nothing,
    /// The least it could cost, measured in turn with it.
    Limit(Box<dyn Probe>),
    /// What it may cost.
    Allowance(f64),
}

/// Something that can be done again and again while a clock runs.
pub(crate) trait Probe {
    /// Does it `rounds` times.
    fn run(&mut self, rounds: u64) -> Result<Sample>;
}

/// What a clock said about a run.
pub(crate) enum Sample {
    /// Nanoseconds of each operation.
    Times(Vec<f64>),
    /// The whole run.
    Total(Duration),
    /// Something that is no time, in its unit.
    Value(f64),
}

/// What is reported about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds an operation: less is better.
    Nanos,
    /// Millions of payload bytes a second: more is better.
    Megabytes,
    /// Messages a second: more is better.
    Messages,
    /// Nanoseconds of a whole run: less is better.
    Run,
    /// Bytes of memory: less is better.
    Bytes,
    /// Part of the time of one core: less is better.
    Cpu,
}

/// How often and how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Repetitions.
    pub(crate) reps: u32,
    /// The time for one run of one side.
    budget: Duration,
}

impl Plan {
    pub(crate) fn new(common: &Common) -> Self {
        let (reps, millis) = if common.quick { (2, 3) } else { (5, 100) };
        Self { reps: common.reps.unwrap_or(reps), budget: Duration::from_millis(millis) }
    }
}

impl Case {
    /// Warms up, then limit, subject, limit, subject, … and the medians.
    pub(crate) fn measure(mut self, plan: &Plan, progress: &Progress) -> Result<Line> {
        let warm = |probe: &mut dyn Probe| match self.rounds {
            None => warm_up(probe, plan),
            Some(rounds) => Ok(rounds),
        };
        let subject_rounds = warm(self.subject.as_mut())?;
        let limit_rounds = match &mut self.against {
            Against::Limit(limit) => warm(limit.as_mut())?,
            Against::Nothing | Against::Allowance(_) => 0,
        };
        let (mut subjects, mut limits) = (Vec::new(), Vec::new());
        for _ in 0..plan.reps {
            if let Against::Limit(limit) = &mut self.against {
                let sample = limit.run(limit_rounds)?;
                limits.push(self.unit.figure(&sample, limit_rounds, &self.line)?);
            }
            let sample = self.subject.run(subject_rounds)?;
            subjects.push(self.unit.figure(&sample, subject_rounds, &self.line)?);
            progress.step();
        }
        let mut line = self.line;
        line.set_subject(self.unit, median(&subjects));
        match self.against {
            Against::Nothing => {}
            Against::Limit(_) => line.set_limit(self.unit, median(&limits)),
            Against::Allowance(middle) => line.set_limit(self.unit, Figure { middle, p99: None }),
        }
        line.set_spread(spread(if limits.is_empty() { &subjects } else { &limits }));
        Ok(line)
    }
}

/// Runs `probe` until it is warm; how many rounds fill the budget.
fn warm_up(probe: &mut dyn Probe, plan: &Plan) -> Result<u64> {
    let mut rounds = FEWEST_ROUNDS;
    loop {
        let start = rt::now();
        probe.run(rounds)?;
        let took = (rt::now() - start).max(Duration::from_nanos(1));
        // Of a few rounds one that was interrupted is no measure for the others.
        let is_measure = rounds >= WARM_ROUNDS || took >= 2 * plan.budget * plan.reps;
        if took * 3 >= plan.budget && is_measure || rounds >= MOST_ROUNDS {
            let fill = rounds as f64 * plan.budget.as_secs_f64() / took.as_secs_f64();
            #[expect(clippy::cast_possible_truncation, reason = "a cast saturates")]
            return Ok((fill as u64).clamp(FEWEST_ROUNDS, MOST_ROUNDS));
        }
        rounds *= 4;
    }
}

impl Unit {
    /// What a run of `rounds` means in this unit.
    fn figure(self, sample: &Sample, rounds: u64, line: &Line) -> Result<Figure> {
        let rounds = rounds as f64;
        let nanos = match sample {
            Sample::Times(times) if self == Self::Nanos => return percentiles(times),
            Sample::Times(times) => times.iter().sum(),
            Sample::Total(total) => total.as_nanos() as f64,
            Sample::Value(middle) => return Ok(Figure { middle: *middle, p99: None }),
        };
        let middle = match self {
            Self::Nanos => nanos / rounds,
            Self::Megabytes => line.bytes as f64 * rounds * 1e3 / nanos,
            Self::Messages => rounds * 1e9 / nanos,
            Self::Run | Self::Bytes | Self::Cpu => nanos,
        };
        Ok(Figure { middle, p99: None })
    }
}

/// Median and 99th percentile of all but the first tenth, in which the other
/// process is still waking up.
fn percentiles(times: &[f64]) -> Result<Figure> {
    let mut histogram = Histogram::<u64>::new(3)?;
    for nanos in &times[times.len() / 10..] {
        #[expect(clippy::cast_possible_truncation, reason = "no run takes a year")]
        histogram.record((nanos * PICOS) as u64)?;
    }
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / PICOS;
    Ok(Figure { middle: at(0.5), p99: Some(at(0.99)) })
}

/// The median of each part of the figures.
fn median(figures: &[Figure]) -> Figure {
    let p99s: Option<Vec<f64>> = figures.iter().map(|figure| figure.p99).collect();
    let middles = figures.iter().map(|figure| figure.middle).collect();
    Figure { middle: middle(middles), p99: p99s.map(middle) }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

/// (max − min) / median.
fn spread(figures: &[Figure]) -> f64 {
    let values: Vec<f64> = figures.iter().map(|figure| figure.middle).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    let middle = middle(values);
    if middle == 0.0 { 0.0 } else { (most - least) / middle }
}

/// A histogram counts whole numbers, and some operations take a few nanoseconds.
const PICOS: f64 = 1e3;
const FEWEST_ROUNDS: u64 = 2;
const WARM_ROUNDS: u64 = 128;
const MOST_ROUNDS: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(middles: &[f64]) -> Vec<Figure> {
        middles.iter().map(|&middle| Figure { middle, p99: Some(2.0 * middle) }).collect()
    }

    #[test]
    fn medians_and_spread_are_over_the_repetitions() {
        let odd = figures(&[3.0, 1.0, 2.0]);
        assert_eq!(median(&odd), Figure { middle: 2.0, p99: Some(4.0) });
        assert_eq!(spread(&odd), 1.0);
        assert_eq!(median(&figures(&[1.0, 4.0, 2.0, 3.0])).middle, 2.5);
    }

    #[test]
    fn percentiles_leave_out_the_first_tenth_and_keep_fractions() {
        let mut times = vec![1e6; 10];
        times.extend([2.5; 90]);
        let figure = percentiles(&times).unwrap();
        assert!((figure.middle - 2.5).abs() < 0.01, "{figure:?}");
        assert!((figure.p99.unwrap() - 2.5).abs() < 0.01, "{figure:?}");
    }

    #[test]
    fn rates_count_bytes_or_messages() {
        let line = Line { bytes: 1000, ..Line::default() };
        let second = || Sample::Total(Duration::from_secs(1));
        assert_eq!(Unit::Megabytes.figure(&second(), 2000, &line).unwrap().middle, 2.0);
        assert_eq!(Unit::Messages.figure(&second(), 2000, &line).unwrap().middle, 2000.0);
        assert_eq!(Unit::Nanos.figure(&second(), 2000, &line).unwrap().middle, 500_000.0);
    }
}
