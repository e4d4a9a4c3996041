//! The `egret` command.
#![forbid(unsafe_code)]

mod bench;
mod info;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

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
    Info(info::Args),
    /// The second process of a benchmark.
    #[command(hide = true)]
    BenchPeer(bench::PeerArgs),
    /// The second process of `egret info`.
    #[command(hide = true)]
    InfoPeer(info::PeerArgs),
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let done = match cli.command {
        Command::Bench(args) => bench::run(&args),
        Command::Info(args) => info::run(&args),
        Command::BenchPeer(args) => bench::serve(&args),
        Command::InfoPeer(args) => info::serve(&args),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    if let Some(usage) = error.downcast_ref::<bench::Usage>() {
        asked(&matches).error(ErrorKind::ValueValidation, usage).exit();
    }
    // Whoever reads, as in `egret bench … | head`, has seen enough.
    let broken_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<io::Error>().is_some_and(broken_pipe) {
        return ExitCode::SUCCESS;
    }
    let _ = writeln!(io::stderr(), "egret: {error:#}");
    ExitCode::FAILURE
}

/// The command that was asked for, which knows its usage.
fn asked(matches: &ArgMatches) -> clap::Command {
    let mut command = Cli::command();
    command.build();
    let mut matches = matches;
    while let Some((name, below)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name).cloned() else { break };
        (command, matches) = (found, below);
    }
    command
}
