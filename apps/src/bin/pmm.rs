//! `pmm` as a program of its own, for `egret run`.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use egret_apps::pmm;

#[derive(Debug, Parser)]
#[command(version)]
struct PmmCli {
    #[command(flatten)]
    args: pmm::PmmArgs,
}

fn main() -> ExitCode {
    let Err(error) = pmm::run(&PmmCli::parse().args) else { return ExitCode::SUCCESS };
    let _ = writeln!(io::stderr(), "pmm: {error}");
    ExitCode::FAILURE
}
