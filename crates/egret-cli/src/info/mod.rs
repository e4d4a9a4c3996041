//! `egret info`: what this machine and this build offer.
//!
//! Nothing here is looked up that can be tried: each fabric's nic is opened, and
//! what the kernel grants is asked of it, with a second process where that takes
//! one.

mod attempt;
mod env;
mod fabrics;
mod grants;
mod hosts;
mod machine;
mod places;
mod report;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

pub(crate) use attempt::{InfoPeerArgs, serve};
use env::SettingInfo;
use fabrics::FabricReport;
use grants::Grant;
pub(crate) use hosts::{InfoHostArgs, serve as serve_host};
use machine::MachineReport;
use places::PlaceInfo;

/// What this machine and this build offer.
///
/// Opens every fabric and tries what the kernel grants, so that the answer holds
/// for this user, this container, this moment.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct InfoArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// List the settings of nodes instead: each with its value and who says so
    #[arg(long)]
    env: bool,
    #[command(flatten)]
    hosts: hosts::HostsArgs,
}

/// All there is to say. The names are a contract: fields are added, never renamed.
#[derive(Debug, Serialize)]
struct Info {
    egret: &'static str,
    /// Whether the build is optimized.
    optimized: bool,
    machine: MachineReport,
    fabrics: Vec<FabricReport>,
    /// Where nics of networks listen.
    places: Vec<PlaceInfo>,
    grants: Vec<Grant>,
    /// What nodes would encrypt, and who says so.
    encryption: SettingInfo,
    /// Whether nodes would have a secret, and who says so.
    secret: SettingInfo,
    /// What follows, in words.
    means: Vec<String>,
}

pub(crate) fn run(args: &InfoArgs) -> Result<ExitCode> {
    if args.hosts.is_asked() {
        return hosts::check(&args.hosts, args.json);
    }
    let text = if args.env { settings(args)? } else { machine(args)? };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(ExitCode::SUCCESS)
}

fn settings(args: &InfoArgs) -> Result<String> {
    let settings = env::all()?;
    Ok(match args.json {
        true => serde_json::to_string(&settings)?,
        false => env::text(&settings),
    })
}

fn machine(args: &InfoArgs) -> Result<String> {
    let (fabrics, grants) = (fabrics::all(), grants::all());
    let means = report::means(&fabrics, &grants);
    let [encryption, secret] = env::encryption_and_secret();
    let info = Info {
        egret: env!("CARGO_PKG_VERSION"),
        optimized: !cfg!(debug_assertions),
        machine: MachineReport::this(),
        fabrics,
        places: places::all(),
        grants,
        encryption,
        secret,
        means,
    };
    Ok(match args.json {
        true => serde_json::to_string(&info)?,
        false => report::text(&info),
    })
}

const HELP: &str = "\
Examples:
  egret info                         what this machine and this build offer
  egret info --env                   the settings that nodes would have
  egret info --hosts alpha,beta      whether a job would run there, what to change
  egret info --hosts localhost,beta  the same with processes here too
  egret info --hostfile machines --json
                                     one object for scripts
  egret info --hosts                 the machines of an allocation of Slurm

With --hosts this command reaches each machine as `egret run --host` does, and asks
it for its egret, its limits and its clock. Then all machines try to reach each other
by tcp and udp, where nodes would listen.

Exit codes with --hosts:
  0  a job would run on all of them; lines with * would make it better
  1  something prevents that, as lines with ! say, or the check itself failed
  2  the command line was not understood";
