//! Processes of an application as nodes of one process, each with a thread of its own.

use std::time::Duration;

use clap::Parser;
use egret::node::Node;
use egret::node::registry::{Registry, RegistryOptions};
use egret::rt::{self, Deadline};

use crate::fault::{Fault, plant};
use crate::team::AppTeam;
use crate::{AppError, AppReport, AppRun, pmm, sor};

/// What each of so many nodes comes to; a fault is planted on the second one.
pub(crate) fn together<T: Send + 'static>(
    size: u32,
    fault: Option<Fault>,
    body: impl Fn(&mut AppTeam) -> Result<T, AppError> + Clone + Send + 'static,
) -> Vec<Result<T, AppError>> {
    let options = RegistryOptions::new("test", size).secret("hush".into());
    let registry = Registry::open(options).expect("a registry");
    let threads: Vec<_> = (0..size)
        .map(|rank| {
            let (config, body) = (registry.config(), body.clone());
            let one = move || {
                let config = config.rank(rank).deadline(Deadline::In(PATIENCE));
                let mut team = AppTeam::of(Node::join(config)?, None)?;
                plant(fault.filter(|_| rank == 1));
                let came = body(&mut team);
                if came.is_ok() {
                    team.leave();
                }
                came
            };
            rt::spawn(&format!("rank {rank}"), one).expect("a thread")
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
}

#[derive(Debug, Parser)]
enum Cli {
    Sor(sor::SorArgs),
    Pmm(pmm::PmmArgs),
}

/// What process 0 reports of a command line, or the first error.
fn report(size: u32, fault: Option<Fault>, line: &str) -> Result<AppReport, AppError> {
    let cli = Cli::try_parse_from(format!("apps {line}").split(' ')).expect("a command line");
    let cli = std::sync::Arc::new(cli);
    let mut all = together(size, fault, move |team| match &*cli {
        Cli::Sor(args) => sor::report(args, team),
        Cli::Pmm(args) => pmm::report(args, team),
    });
    // Who misses another tells less than that other.
    let is_cause =
        |one: &Result<_, _>| matches!(one, Err(why) if !matches!(why, AppError::Gone { .. }));
    let first = all.iter().position(is_cause);
    match first.or_else(|| all.iter().position(Result::is_err)) {
        Some(at) => all.swap_remove(at),
        None => all.swap_remove(0),
    }
}

fn run(size: u32, line: &str) -> AppRun {
    let report = report(size, None, line).unwrap_or_else(|why| panic!("{line}: {why}"));
    assert_eq!((report.processes, report.runs.len()), (size, 1));
    assert!(report.runs[0].checked);
    report.runs[0].clone()
}

#[test]
fn a_grid_is_computed_by_any_number_of_processes() {
    for (size, line) in [
        (1, "sor --size 50 --iterations 20"),
        (2, "sor --size 61 --iterations 21 --depth 3"),
        (3, "sor --size 40 --iterations 9 --depth 5"),
        (4, "sor --size 8 --iterations 7"),
        (5, "sor --size 33 --iterations 16 --depth 2 --rounds 3"),
    ] {
        let run = run(size, line);
        assert!(run.seconds > 0.0 && run.sequential_seconds > 0.0, "{run:?}");
        assert!((0.0..=1.0).contains(&run.communication_share), "{run:?}");
        assert!(run.efficiency.is_none());
    }
}

#[test]
fn what_is_sent_is_counted() {
    // Two inner borders, both ways, after each pass but the last; ten passes. A border is
    // four rows of 2 * 24 values.
    let run = run(3, "sor --size 40 --iterations 20 --depth 2");
    assert_eq!((run.iterations, run.messages), (Some(20), 4 * 9));
    assert_eq!(run.bytes, 4 * 9 * 4 * 2 * 24 * 8);
}

#[test]
fn a_grid_settles_at_the_same_iteration_as_alone() {
    let run = run(3, "sor --size 48 --converge=1e-6 --every 10 --depth 4 --rounds 2");
    let iterations = run.iterations.unwrap();
    assert!(iterations.is_multiple_of(10) && (50..1000).contains(&iterations), "{run:?}");
}

#[test]
fn a_grid_that_does_not_settle_is_an_error() {
    let line = "sor --size 48 --converge=1e-6 --every 10 --iterations 25";
    let why = report(2, None, line).unwrap_err();
    assert!(matches!(why, AppError::NotConverged { iterations: 25, .. }), "{why}");
}

#[test]
fn what_is_no_number_is_the_largest_of_all() {
    let values = [1.0, f64::NAN, 2.0];
    let all = together(3, None, move |team| team.max(values[team.rank() as usize]));
    assert!(all.iter().all(|most| matches!(most, Ok(most) if most.is_nan())), "{all:?}");
    let all = together(3, None, move |team| team.max(f64::from(7 - team.rank())));
    assert!(all.iter().all(|most| matches!(most, Ok(7.0))), "{all:?}");
}

#[test]
fn a_grid_with_no_number_in_it_has_not_settled_for_anybody() {
    let line = "sor --size 48 --converge=1e-3 --every 1";
    let why = report(3, Some(Fault::NoNumber), line).unwrap_err();
    assert!(matches!(why, AppError::NotConverged { change, .. } if change.is_nan()), "{why}");
}

#[test]
fn a_product_is_computed_on_every_way_around() {
    for variant in ["vi-copy", "vi-posted", "rmi"] {
        for (size, columns) in [(1, 17_u32), (2, 64), (3, 50), (5, 23)] {
            let line = format!("pmm --size {columns} --variant {variant} --rounds 3");
            let run = run(size, &line);
            let blocks = u64::from(size) * u64::from(size - 1);
            assert_eq!((run.variant, run.messages), (variant, blocks));
            // Each process sends every block but one.
            assert_eq!(run.bytes, u64::from(size - 1) * u64::from(columns * columns) * 8);
        }
    }
}

#[test]
fn several_sizes_and_ways_are_several_runs() {
    let report = report(2, None, "pmm --size 64,65 --rounds 1 --efficiency").unwrap();
    let runs: Vec<_> = report.runs.iter().map(|run| (run.size, run.variant)).collect();
    let ways = ["vi-copy", "vi-posted", "rmi"];
    assert_eq!(runs, [64, 65].map(|size| ways.map(|way| (size, way))).concat());
    for run in &report.runs {
        let efficiency = run.efficiency.as_ref().unwrap();
        assert_eq!((efficiency.copies_seconds.len(), efficiency.parallel_seconds.len()), (1, 1));
        let ratio = efficiency.copies_seconds[0] / (2.0 * efficiency.parallel_seconds[0]);
        assert!((efficiency.ratio - ratio).abs() < 1e-9);
    }
}

#[test]
fn more_processes_than_there_is_work_are_refused() {
    let why = report(3, None, "sor --size 5").unwrap_err();
    assert_eq!(why.to_string(), "5 rows are too few for 3 processes: each needs two");
    let why = report(3, None, "pmm --size 64,2").unwrap_err();
    assert_eq!(why.to_string(), "2 columns are too few for 3 processes");
    let why = report(1, None, "sor --converge=-1").unwrap_err();
    assert_eq!(why.to_string(), "--converge needs a change above 0");
}

/// Every planted fault is found: by the comparison, or by whom it was sent to.
#[test]
fn what_is_wrong_is_found() {
    let sor = "sor --size 30 --iterations 24 --depth 2";
    let settle = "sor --size 60 --converge=1e-1 --every 1";
    for (fault, line) in [
        (Fault::WrongBorder, sor),
        (Fault::EarlyBorder, sor),
        (Fault::OldBorder, sor),
        (Fault::Twice, sor),
        (Fault::SmallChange, settle),
        (Fault::WrongBlock, "pmm --size 30 --rounds 1 --variant rmi"),
        (Fault::OtherBlock, "pmm --size 30 --rounds 1 --variant vi-posted"),
    ] {
        let found = report(3, Some(fault), line);
        assert!(
            matches!(
                found,
                Err(AppError::Wrong(_) | AppError::Peer { .. } | AppError::Gone { .. })
            ),
            "{fault:?}: {found:?}"
        );
        assert!(report(3, None, line).is_ok(), "{line} without a fault");
    }
}

/// Who ends is missed by the others, who end too.
#[test]
fn a_process_that_goes_ends_the_others() {
    for line in ["sor --size 60 --iterations 100000", "pmm --size 60 --rounds 1000"] {
        let cli = Cli::try_parse_from(format!("apps {line}").split(' ')).unwrap();
        let cli = std::sync::Arc::new(cli);
        let all = together(3, None, move |team| {
            if team.rank() == 2 {
                return Err(AppError::Usage("it goes".to_owned()));
            }
            match &*cli {
                Cli::Sor(args) => sor::report(args, team).map(drop),
                Cli::Pmm(args) => pmm::report(args, team).map(drop),
            }
        });
        for (rank, came) in all.iter().enumerate().take(2) {
            assert!(
                matches!(
                    came,
                    Err(AppError::Gone { .. }
                        | AppError::Peer { .. }
                        | AppError::Objects(_)
                        | AppError::Node(_))
                ),
                "{line}: {rank}: {came:?}"
            );
        }
    }
}

/// A generous bound on what a process waits for.
const PATIENCE: Duration = Duration::from_secs(10);
