//! The `egret` command.
#![forbid(unsafe_code)]

use clap::Parser;

/// Safe, zero-copy cluster communication for Rust.
#[derive(Debug, Parser)]
#[command(name = "egret", version, arg_required_else_help = true)]
struct Cli {}

fn main() -> anyhow::Result<()> {
    let Cli {} = Cli::parse();
    Ok(())
}
