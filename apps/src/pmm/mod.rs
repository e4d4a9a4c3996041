//! The product of two matrices, by block columns around a ring.
//!
//! Each process has some columns of both factors and of the product. The columns of the
//! left factor go around the ring of processes; each adds to its columns of the product
//! what comes of the block that it has just now, while that travels on.

mod matrix;
mod ring;
#[cfg(test)]
mod tests;

use std::time::Duration;

use egret::rt;

use crate::progress::AppProgress;
use crate::rounds::{self, AppRounds, Program, TrafficTotals};
use crate::team::AppTeam;
use crate::{AppError, AppReport};
use matrix::MatrixColumns;
use ring::{BlockRing, CalledRing, PostedRing, columns};

/// The product of two square matrices, by block columns around a ring.
#[derive(Debug, Clone, clap::Args)]
pub struct PmmArgs {
    /// Rows and columns of the matrices
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1024",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub size: Vec<u32>,
    /// How blocks travel
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_enum,
        default_value = "vi-copy,vi-posted,rmi"
    )]
    pub variant: Vec<RingVariant>,
    /// Compare with as many independent sequential copies, turn by turn
    #[arg(long)]
    pub efficiency: bool,
    /// Repetitions, from which medians are taken
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// How blocks travel around the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RingVariant {
    /// Over the virtual interface, from a copy and into one
    ViCopy,
    /// Over the virtual interface, into buffers that were posted ahead, without a copy
    ViPosted,
    /// By remote calls
    Rmi,
}

impl RingVariant {
    const fn name(self) -> &'static str {
        match self {
            Self::ViCopy => "vi-copy",
            Self::ViPosted => "vi-posted",
            Self::Rmi => "rmi",
        }
    }

    fn ring(self, team: &mut AppTeam, size: usize) -> Result<Box<dyn BlockRing>, AppError> {
        let own = MatrixColumns::left(size, columns(size, team.rank(), team.size()));
        Ok(match self {
            Self::ViCopy => Box::new(PostedRing::copying(team, own)?),
            Self::ViPosted => Box::new(PostedRing::new(team, &own)?),
            Self::Rmi => Box::new(CalledRing::new(team, &own)?),
        })
    }
}

/// One process of it; that of rank 0 prints the report.
///
/// # Errors
///
/// If the arguments do not fit together or to the number of processes, a process
/// died, or the result is wrong.
pub fn run(args: &PmmArgs) -> Result<(), AppError> {
    rounds::run_process(args.json, |team| report(args, team))
}

/// How it went, as process 0 knows it.
pub(crate) fn report(args: &PmmArgs, team: &mut AppTeam) -> Result<AppReport, AppError> {
    let progress = AppProgress::new(team.rank() == 0);
    if let Some(size) = args.size.iter().find(|size| **size < team.size()) {
        let processes = team.size();
        let why = format!("{size} columns are too few for {processes} processes");
        return Err(AppError::Usage(why));
    }
    let rounds = AppRounds { count: args.rounds, copies: args.efficiency };
    let mut runs = Vec::new();
    for &size in &args.size {
        for &variant in &args.variant {
            progress.begin(variant.name(), args.rounds);
            let ring = variant.ring(team, size as usize)?;
            let mut pmm = Pmm::new(team, size as usize, ring, &progress);
            let mut run = rounds.run(team, &mut pmm)?;
            run.variant = variant.name();
            run.size = size;
            runs.push(run);
        }
    }
    Ok(AppReport { app: "pmm", processes: team.size(), runs })
}

struct Pmm<'a> {
    size: usize,
    ring: Box<dyn BlockRing>,
    progress: &'a AppProgress,
    /// The columns of the right factor that this process has.
    right: MatrixColumns,
    /// The columns that this process has computed with the others.
    product: MatrixColumns,
    /// All of both factors and the product, of a process that has computed it alone.
    whole: Option<[MatrixColumns; 3]>,
}

impl<'a> Pmm<'a> {
    fn new(
        team: &AppTeam,
        size: usize,
        ring: Box<dyn BlockRing>,
        progress: &'a AppProgress,
    ) -> Self {
        let own = columns(size, team.rank(), team.size());
        let right = MatrixColumns::right(size, own.clone());
        let product = MatrixColumns::zero(size, own);
        Self { size, ring, progress, right, product, whole: None }
    }
}

impl Program for Pmm<'_> {
    fn sequential(&mut self, team: &AppTeam) -> Result<Duration, AppError> {
        team.all_well()?;
        let (size, all) = (self.size, 0..self.size);
        let [left, right, product] = self.whole.get_or_insert_with(|| {
            let (left, right) =
                (MatrixColumns::left(size, all.clone()), MatrixColumns::right(size, all.clone()));
            [left, right, MatrixColumns::zero(size, all)]
        });
        product.clear();
        let began = rt::now();
        product.add_block(left.values(), 0..size, right);
        Ok(rt::now() - began)
    }

    fn parallel(&mut self, team: &mut AppTeam) -> Result<(Duration, TrafficTotals), AppError> {
        self.product.clear();
        let (size, processes) = (self.size, team.size());
        let (product, right) = (&mut self.product, &self.right);
        let began = rt::now();
        let talk = self.ring.around(team, &mut |owner, block| {
            product.add_block(block, columns(size, owner, processes), right);
        })?;
        let time = rt::now() - began;
        self.progress.step(1);
        Ok((time, talk))
    }

    fn check(&mut self, team: &mut AppTeam) -> Result<(), AppError> {
        let bits: Vec<u64> = self.product.values().iter().map(|value| value.to_bits()).collect();
        let (size, whole) = (self.size, &self.whole);
        let verdict = team.meet(&bits, |all| match whole {
            Some([_, _, product]) => vec![wrong(product, size, &all)],
            None => vec![1],
        })?;
        match verdict.first() {
            Some(0) => Ok(()),
            Some(count) => {
                Err(AppError::Wrong(format!("{count} values differ from those computed alone")))
            }
            None => Err(AppError::Wrong(
                "the result was not compared with the sequential one".to_owned(),
            )),
        }
    }
}

/// How many values are not as computed alone, up to what rounding may do: sums of `size`
/// products below one, in another order.
fn wrong(alone: &MatrixColumns, size: usize, all: &[Vec<u64>]) -> u64 {
    let bound = 2.0 * (size as f64) * (size as f64) * f64::EPSILON;
    let found = all.iter().flatten().map(|bits| f64::from_bits(*bits));
    let same =
        alone.values().iter().zip(found).filter(|(alone, found)| (*alone - found).abs() <= bound);
    (alone.values().len() - same.count()) as u64
}
