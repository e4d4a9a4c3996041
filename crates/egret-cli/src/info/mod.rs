//! `egret info`: what this machine and this build offer.
//!
//! Nothing here is looked up that can be tried: each fabric's nic is opened, and
//! what the kernel grants is asked of it, with a second process where that takes
//! one.

mod attempt;
mod env;
mod fabrics;
mod grants;
mod machine;
mod places;
mod report;

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

pub(crate) use attempt::{InfoPeerArgs, serve};
use env::SettingInfo;
use fabrics::FabricReport;
use grants::Grant;
use machine::MachineReport;
use places::PlaceInfo;

/// What this machine and this build offer.
///
/// Opens every fabric and tries what the kernel grants, so that the answer holds
/// for this user, this container, this moment.
#[derive(Debug, clap::Args)]
pub(crate) struct InfoArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// List the settings of nodes instead: each with its value and who says so
    #[arg(long)]
    env: bool,
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

pub(crate) fn run(args: &InfoArgs) -> Result<()> {
    let text = if args.env { settings(args)? } else { machine(args)? };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(())
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
