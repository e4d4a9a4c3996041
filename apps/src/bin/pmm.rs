//! `pmm` as a program of its own, for `egret run`.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use egret_apps::pmm;

#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    args: pmm::Args,
}

fn main() -> ExitCode {
    let Err(error) = pmm::run(&Cli::parse().args) else { return ExitCode::SUCCESS };
    let _ = writeln!(io::stderr(), "pmm: {error}");
    ExitCode::FAILURE
}
