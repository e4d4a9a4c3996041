//! The `egret` command.
#![forbid(unsafe_code)]

mod app;
mod info;
mod log_lines;
mod monitor;
mod registry;
mod run;
mod secret;
mod system;
mod top;

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
    App(app::AppArgs),
    Bench(egret_bench::BenchArgs),
    Info(info::InfoArgs),
    Registry(registry::RegistryArgs),
    Run(run::RunArgs),
    Secret(secret::SecretArgs),
    Top(top::TopArgs),
    /// The second process of a benchmark.
    #[command(hide = true)]
    BenchPeer(egret_bench::BenchPeerArgs),
    /// One process of the jobs of `egret bench start`.
    #[command(hide = true)]
    BenchNode(egret_bench::BenchNodeArgs),
    /// The second process of `egret info`.
    #[command(hide = true)]
    InfoPeer(info::InfoPeerArgs),
    /// What `egret info --hosts` starts on each machine.
    #[command(hide = true)]
    InfoHost(info::InfoHostArgs),
    /// The process of `egret run` that starts the others.
    #[command(hide = true)]
    RunLauncher(run::LauncherArgs),
    /// The first moments of a process that `egret run` starts.
    #[command(hide = true)]
    RunChild(run::ChildArgs),
    /// What `egret run` starts on another machine.
    #[command(hide = true)]
    RunOutpost(run::OutpostGuardArgs),
    /// The process of `egret run-outpost` that starts the others.
    #[command(hide = true)]
    RunOutpostLauncher(run::OutpostArgs),
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let done = |()| ExitCode::SUCCESS;
    let ended = match cli.command {
        Command::App(args) => app::run(args),
        Command::Bench(args) => egret_bench::run(&args).map(done),
        Command::Info(args) => info::run(&args),
        Command::Registry(args) => registry::run(&args).map(done),
        Command::Run(args) => run::run(args),
        Command::Secret(args) => secret::run(&args).map(done),
        Command::Top(args) => top::run(&args).map(done),
        Command::BenchPeer(args) => egret_bench::serve(&args).map(done),
        Command::BenchNode(args) => egret_bench::be_node(&args).map(done),
        Command::InfoPeer(args) => info::serve(&args).map(done),
        Command::InfoHost(args) => info::serve_host(&args).map(done),
        Command::RunLauncher(args) => run::serve(args),
        Command::RunChild(args) => run::become_program(&args),
        Command::RunOutpost(args) => run::guard_outpost(&args),
        Command::RunOutpostLauncher(args) => run::serve_outpost(args),
    };
    let error = match ended {
        Ok(code) => return code,
        Err(error) => error,
    };
    if let Some(usage) = error.downcast_ref::<egret_bench::Usage>() {
        asked(&matches).error(ErrorKind::ValueValidation, usage).exit();
    }
    if let Some(usage) = error.downcast_ref::<run::JobUsage>() {
        asked(&matches).error(ErrorKind::ValueValidation, usage).exit();
    }
    // The reader, as in `egret bench … | head`, has seen enough.
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
