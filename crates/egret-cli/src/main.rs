//! The `egret` command.
#![forbid(unsafe_code)]

mod bench;

use std::io;

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
    let done = match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::BenchPeer(args) => bench::serve(&args),
    };
    // Whoever reads, as in `egret bench … | head`, has seen enough.
    done.or_else(|error| match error.downcast_ref::<io::Error>() {
        Some(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    })
}
