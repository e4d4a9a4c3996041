//! The `egret` command.
#![forbid(unsafe_code)]

mod bench;

use clap::{Parser, Subcommand};

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

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::BenchPeer(args) => bench::serve(&args),
    }
}
