//! The `egret` command.
#![forbid(unsafe_code)]

mod bench;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

/// Safe, zero-copy cluster communication for Rust.
#[derive(Debug, Parser)]
#[command(name = "egret", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::Args),
    /// The second process of a benchmark.
    #[command(hide = true)]
    BenchPeer(bench::PeerArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::BenchPeer(args) => bench::serve(&args),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    if let Some(usage) = error.downcast_ref::<bench::Usage>() {
        Cli::command().error(ErrorKind::ValueValidation, usage).exit();
    }
    // Whoever reads, as in `egret bench … | head`, has seen enough.
    let broken_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<io::Error>().is_some_and(broken_pipe) {
        return ExitCode::SUCCESS;
    }
    let _ = writeln!(io::stderr(), "egret: {error:#}");
    ExitCode::FAILURE
}
