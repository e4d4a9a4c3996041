//! Repeating, interleaving, and medians.

use std::time::Duration;

use anyhow::Result;
use egret::rt;
use hdrhistogram::Histogram;

use super::progress::BenchProgress;
use super::report::{Figure, Of, ReportLine, Unit};
use crate::args::Common;

/// One line of a report before it is measured.
pub(crate) struct Case {
    /// What is measured: the line's names and sizes, its figures still missing.
    pub(crate) line: ReportLine,
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
    /// The subject is a limit itself.
    Nothing,
    /// The least it could cost, measured in turn with it.
    Limit(Box<dyn Probe>),
    /// The same, and what else it is held against in the same run.
    Limits(Box<dyn Probe>, Vec<Further>),
    /// What it may cost.
    Allowance(f64),
}

/// What a subject is held against besides its limit.
pub(crate) struct Further {
    /// Where the ratio to it is reported.
    pub(crate) of: Of,
    /// What is measured in turn with subject and limit; none if it is the limit.
    pub(crate) probe: Option<Box<dyn Probe>>,
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
    /// The same, and the bandwidth of a stream meanwhile.
    Streamed(Vec<f64>, f64),
    /// The same, and how many more were lost and tried again.
    Survived(Vec<f64>, f64),
    /// The whole run.
    Total(Duration),
    /// The same where messages may be lost: those that arrived, and the bytes of each.
    Arrived { took: Duration, arrived: f64, bytes: usize },
    /// Something that is no time, in its unit.
    Value(f64),
}

/// How often and how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeasurePlan {
    /// Repetitions.
    pub(crate) reps: u32,
    /// The time for one run of one side.
    budget: Duration,
}

impl MeasurePlan {
    pub(crate) fn new(common: &Common) -> Self {
        let (reps, millis) = if common.quick { (3, 3) } else { (5, 100) };
        Self { reps: common.reps.unwrap_or(reps), budget: Duration::from_millis(millis) }
    }

    /// How many rounds fill the time of a run, if so many took so long.
    fn fill(&self, rounds: u64, took: Duration) -> u64 {
        let took = took.max(Duration::from_nanos(1));
        let fill = rounds as f64 * self.budget.as_secs_f64() / took.as_secs_f64();
        #[expect(clippy::cast_possible_truncation, reason = "a cast saturates")]
        return (fill as u64).clamp(FEWEST_ROUNDS, MOST_ROUNDS);
    }
}

impl Case {
    /// Warms up, then limit, subject, limit, subject, … and the medians.
    pub(crate) fn measure(
        self,
        plan: &MeasurePlan,
        progress: &BenchProgress,
    ) -> Result<ReportLine> {
        let Self { mut line, unit, subject, against, rounds } = self;
        let runs = |probe| ProbeRuns::new(probe, rounds, plan);
        let mut subject = runs(subject)?;
        let (limit, further, allowed) = match against {
            Against::Nothing => (None, Vec::new(), None),
            Against::Limit(limit) => (Some(limit), Vec::new(), None),
            Against::Limits(limit, further) => (Some(limit), further, None),
            Against::Allowance(allowed) => (None, Vec::new(), Some(allowed)),
        };
        let mut limit = limit.map(runs).transpose()?;
        let further = further.into_iter();
        let further = further.map(|Further { of, probe }| Ok((of, probe.map(runs).transpose()?)));
        let mut further = further.collect::<Result<Vec<(Of, Option<ProbeRuns>)>>>()?;
        for _ in 0..plan.reps {
            let others = further.iter_mut().filter_map(|(_, runs)| runs.as_mut());
            for runs in limit.iter_mut().chain(others).chain([&mut subject]) {
                runs.run(unit, &line)?;
            }
            progress.step();
        }
        line.set_subject(unit, median(&subject.figures));
        let allowed = allowed.map(|middle| Figure { middle, ..Figure::default() });
        let limit_figure = limit.as_ref().map(|limit| median(&limit.figures)).or(allowed);
        if let Some(figure) = limit_figure {
            line.set_limit(unit, figure.middle);
        }
        for (of, runs) in further {
            let figure = runs.map(|runs| median(&runs.figures)).or(limit_figure);
            line.set_of(of, unit, figure.unwrap_or_default().middle);
        }
        line.set_spread(spread(&limit.as_ref().unwrap_or(&subject).figures));
        Ok(line)
    }
}

/// A probe, and what its runs came to.
struct ProbeRuns {
    probe: Box<dyn Probe>,
    /// Of one run.
    rounds: u64,
    figures: Vec<Figure>,
}

impl ProbeRuns {
    /// With so many rounds a run, or as many as fill the time.
    fn new(mut probe: Box<dyn Probe>, rounds: Option<u64>, plan: &MeasurePlan) -> Result<Self> {
        let rounds = match rounds {
            None => warm_up(probe.as_mut(), plan)?,
            Some(rounds) => rounds,
        };
        Ok(Self { probe, rounds, figures: Vec::new() })
    }

    fn run(&mut self, unit: Unit, line: &ReportLine) -> Result<()> {
        let sample = self.probe.run(self.rounds)?;
        self.figures.push(unit.figure(&sample, self.rounds, line)?);
        Ok(())
    }
}

/// Runs `probe` until it is warm; how many rounds fill the budget.
///
/// A run that was interrupted says that few rounds do, and of few rounds the beginning and the end of
/// a run and one more interruption are most. So few are tried again: those of an operation that
/// turns out to be quick are more.
fn warm_up(probe: &mut dyn Probe, plan: &MeasurePlan) -> Result<u64> {
    let (mut rounds, mut spent) = (warm(probe, plan)?, Duration::ZERO);
    for _ in 0..CHECKS_MAX {
        if rounds >= WARM_ROUNDS || spent >= CHECKED_MAX {
            break;
        }
        let (took, sample) = timed(probe, rounds)?;
        spent += took;
        let of_rounds = sample.of_rounds(rounds).unwrap_or(took);
        rounds = rounds.max(plan.fill(rounds, of_rounds).min(WARM_ROUNDS));
    }
    Ok(rounds)
}

/// The same, by the first run that is long enough.
fn warm(probe: &mut dyn Probe, plan: &MeasurePlan) -> Result<u64> {
    let mut rounds = FEWEST_ROUNDS;
    loop {
        let (took, _) = timed(probe, rounds)?;
        let is_measure = rounds >= WARM_ROUNDS || took >= 2 * plan.budget * plan.reps;
        if took * 3 >= plan.budget && is_measure || rounds >= MOST_ROUNDS {
            return Ok(plan.fill(rounds, took));
        }
        rounds *= 4;
    }
}

/// How long a run takes from its beginning to its end, and what it says itself.
fn timed(probe: &mut dyn Probe, rounds: u64) -> Result<(Duration, Sample)> {
    let start = rt::now();
    let sample = probe.run(rounds)?;
    Ok((rt::now() - start, sample))
}

impl Sample {
    /// How long so many rounds take by themselves; without those that were interrupted, if each is
    /// known. `None`: it is no time.
    fn of_rounds(&self, rounds: u64) -> Option<Duration> {
        match self {
            Self::Times(times) | Self::Streamed(times, _) | Self::Survived(times, _) => {
                let nanos = middle(times.clone()) * rounds as f64;
                Some(Duration::from_secs_f64(nanos / 1e9))
            }
            Self::Total(took) | Self::Arrived { took, .. } => Some(*took),
            Self::Value(_) => None,
        }
    }
}

impl Unit {
    /// What a run of `rounds` means in this unit.
    fn figure(self, sample: &Sample, rounds: u64, line: &ReportLine) -> Result<Figure> {
        let rounds = rounds as f64;
        let (mut bytes, mut counted, mut lost) = (line.bytes as f64, rounds, None);
        let nanos = match sample {
            Sample::Times(times) if self == Self::Nanos => return percentiles(times),
            Sample::Streamed(times, mb_s) if self == Self::Nanos => {
                return Ok(Figure { mb_s: Some(*mb_s), ..percentiles(times)? });
            }
            Sample::Survived(times, again) if self == Self::Nanos => {
                let lost = Some(again / (rounds + again));
                return Ok(Figure { lost, ..percentiles(times)? });
            }
            Sample::Times(times) | Sample::Streamed(times, _) | Sample::Survived(times, _) => {
                times.iter().sum()
            }
            Sample::Arrived { took, arrived, bytes: of_each } => {
                (bytes, counted, lost) = (*of_each as f64, *arrived, Some(1.0 - arrived / rounds));
                took.as_nanos() as f64
            }
            Sample::Total(total) => total.as_nanos() as f64,
            Sample::Value(middle) => return Ok(Figure { middle: *middle, ..Figure::default() }),
        };
        let middle = match self {
            Self::Nanos => nanos / rounds,
            Self::Megabytes => bytes * counted * 1e3 / nanos,
            Self::Messages => counted * 1e9 / nanos,
            Self::Run | Self::Bytes | Self::Cpu => nanos,
        };
        Ok(Figure { middle, lost, ..Figure::default() })
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
    Ok(Figure { middle: at(0.5), p99: Some(at(0.99)), ..Figure::default() })
}

/// The median of each part of the figures.
fn median(figures: &[Figure]) -> Figure {
    let of_all = |part: fn(&Figure) -> Option<f64>| {
        let parts: Option<Vec<f64>> = figures.iter().map(part).collect();
        parts.map(middle)
    };
    let middles = figures.iter().map(|figure| figure.middle).collect();
    let (p99, mb_s) = (of_all(|figure| figure.p99), of_all(|figure| figure.mb_s));
    Figure { middle: middle(middles), p99, mb_s, lost: of_all(|figure| figure.lost) }
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
/// Of so many rounds the median is hardly one that was interrupted.
const WARM_ROUNDS: u64 = 128;
const MOST_ROUNDS: u64 = 1 << 24;
/// How often few rounds are tried again, and for how long.
const CHECKS_MAX: u32 = 8;
const CHECKED_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(middles: &[f64]) -> Vec<Figure> {
        let figure = |&middle| Figure { middle, p99: Some(2.0 * middle), ..Figure::default() };
        middles.iter().map(figure).collect()
    }

    #[test]
    fn medians_and_spread_are_over_the_repetitions() {
        let odd = figures(&[3.0, 1.0, 2.0]);
        assert_eq!(median(&odd), Figure { middle: 2.0, p99: Some(4.0), ..Figure::default() });
        assert_eq!(spread(&odd), 1.0);
        assert_eq!(median(&figures(&[1.0, 4.0, 2.0, 3.0])).middle, 2.5);
    }

    /// Says its number whenever it runs; one round takes that many nanoseconds.
    struct Named(u64, std::rc::Rc<std::cell::RefCell<Vec<u64>>>);

    impl Probe for Named {
        fn run(&mut self, rounds: u64) -> Result<Sample> {
            self.1.borrow_mut().push(self.0);
            Ok(Sample::Total(Duration::from_nanos(self.0 * rounds)))
        }
    }

    #[test]
    fn further_limits_are_measured_in_turn_with_the_first() {
        let log = std::rc::Rc::default();
        let named =
            |number| -> Box<dyn Probe> { Box::new(Named(number, std::rc::Rc::clone(&log))) };
        let further = vec![
            Further { of: Of::Slot, probe: Some(named(3)) },
            Further { of: Of::LineRing, probe: None },
        ];
        let against = Against::Limits(named(2), further);
        let (line, unit, rounds) = (ReportLine::default(), Unit::Nanos, Some(10));
        let case = Case { line, unit, subject: named(6), against, rounds };
        let plan = MeasurePlan { reps: 2, budget: Duration::from_millis(1) };
        let line = case.measure(&plan, &BenchProgress::new(2)).unwrap();
        assert_eq!(*log.borrow(), [2, 3, 6, 2, 3, 6]);
        assert_eq!(
            [line.ratio, line.of.slot, line.of.line_ring],
            [Some(3.0), Some(2.0), Some(3.0)]
        );
    }

    /// Its first runs are interrupted, and all take long to begin; a round takes no time.
    struct Interrupted {
        times: usize,
        rounds: Vec<u64>,
    }

    impl Probe for Interrupted {
        fn run(&mut self, rounds: u64) -> Result<Sample> {
            self.rounds.push(rounds);
            rt::sleep(Duration::from_millis(20));
            let is_interrupted = self.rounds.len() <= self.times;
            Ok(Sample::Times((0..rounds).map(|_| if is_interrupted { 2e7 } else { 1e3 }).collect()))
        }
    }

    #[test]
    fn a_run_that_was_interrupted_does_not_say_how_many_rounds_there_are() {
        let plan = MeasurePlan { reps: 2, budget: Duration::from_millis(3) };
        for (times, ran) in [(1, &[2, 2][..]), (3, &[2, 2, 2, 2])] {
            let mut probe = Interrupted { times, rounds: Vec::new() };
            assert_eq!(warm_up(&mut probe, &plan).unwrap(), WARM_ROUNDS);
            assert_eq!(probe.rounds, ran);
        }
        let mut slow = Interrupted { times: usize::MAX, rounds: Vec::new() };
        assert_eq!(warm_up(&mut slow, &plan).unwrap(), FEWEST_ROUNDS);
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
        let line = ReportLine { bytes: 1000, ..ReportLine::default() };
        let second = || Sample::Total(Duration::from_secs(1));
        assert_eq!(Unit::Megabytes.figure(&second(), 2000, &line).unwrap().middle, 2.0);
        assert_eq!(Unit::Messages.figure(&second(), 2000, &line).unwrap().middle, 2000.0);
        assert_eq!(Unit::Nanos.figure(&second(), 2000, &line).unwrap().middle, 500_000.0);
    }

    #[test]
    fn what_is_lost_is_no_part_of_a_rate() {
        let line = ReportLine { bytes: 1000, ..ReportLine::default() };
        let took = Duration::from_secs(1);
        let half = || Sample::Arrived { took, arrived: 1000.0, bytes: 500 };
        let figure = Unit::Megabytes.figure(&half(), 2000, &line).unwrap();
        assert_eq!((figure.middle, figure.lost), (0.5, Some(0.5)));
        assert_eq!(Unit::Messages.figure(&half(), 2000, &line).unwrap().middle, 1000.0);
        let again = Sample::Survived(vec![7.0; 30], 10.0);
        let figure = Unit::Nanos.figure(&again, 30, &line).unwrap();
        assert_eq!((figure.middle.round(), figure.lost), (7.0, Some(0.25)));
    }
}
