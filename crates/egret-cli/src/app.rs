//! `egret app`: applications that come with egret, as jobs of this very program.

use std::num::NonZeroU32;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use egret_apps::{AppError, pmm, sor};

use crate::run::{self, Job, Options};
use crate::system::own_program;

/// Run one of the applications that come with egret.
///
/// Starts as many processes as -n says, as `egret run` does. Under `egret run` it is one
/// process of that job.
#[derive(Debug, clap::Args)]
pub(crate) struct AppArgs {
    #[command(subcommand)]
    app: App,
}

#[derive(Debug, Subcommand)]
enum App {
    /// Red/black successive over-relaxation of a square grid
    Sor(One<sor::SorArgs>),
    /// The product of two matrices, around a ring
    Pmm(One<pmm::PmmArgs>),
}

/// An application with what is said of its job.
#[derive(Debug, clap::Args)]
struct One<A: clap::Args> {
    /// How many processes to start [default: as many as there are cores]
    #[arg(short = 'n', value_name = "N", value_parser = run::processes)]
    processes: Option<NonZeroU32>,
    #[command(flatten)]
    app: A,
    #[command(flatten)]
    launch: Options,
}

pub(crate) fn run(args: AppArgs) -> Result<ExitCode> {
    match args.app {
        App::Sor(one) => one.run(sor::run),
        App::Pmm(one) => one.run(pmm::run),
    }
}

impl<A: clap::Args> One<A> {
    /// Is one process of the application, or starts all.
    fn run(self, process: fn(&A) -> Result<(), AppError>) -> Result<ExitCode> {
        if run::in_job() {
            return process(&self.app).map(|()| ExitCode::SUCCESS).map_err(Into::into);
        }
        let mut options = self.launch;
        options.read_hosts()?;
        let processes = match self.processes.or(options.slots()) {
            Some(processes) => processes,
            None => cores()?,
        };
        // The processes read the same line, and know by their environment what they are.
        let args = std::env::args_os().skip(1).collect();
        let program = own_program().into_os_string();
        run::launch(&Job { processes, options, program, args })
    }
}

fn cores() -> Result<NonZeroU32> {
    let count = u32::try_from(run::cores_in_turn()?.len()).unwrap_or(u32::MAX);
    Ok(NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN))
}
