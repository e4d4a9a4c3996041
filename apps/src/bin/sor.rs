//! `sor` as a program of its own, for `egret run`.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use egret_apps::sor;

#[derive(Debug, Parser)]
#[command(version)]
struct SorCli {
    #[command(flatten)]
    args: sor::SorArgs,
}

fn main() -> ExitCode {
    let Err(error) = sor::run(&SorCli::parse().args) else { return ExitCode::SUCCESS };
    let _ = writeln!(io::stderr(), "sor: {error}");
    ExitCode::FAILURE
}
