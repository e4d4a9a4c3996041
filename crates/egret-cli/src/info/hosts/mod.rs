//! `egret info --hosts`: whether a job would run on these machines, and what to change.
//!
//! ```text
//!  egret info ─┬─ run here ──────── egret info-host ─┐
//!              ├─ ssh b ┄┄┄┄┄┄┄┄┄┄┄ egret info-host ─┼─ tcp and udp between all pairs
//!              └─ ssh c ┄┄┄┄┄┄┄┄┄┄┄ egret info-host ─┘
//! ```
//!
//! Each machine is reached as `egret run --host` reaches it, and answers [orders](message) through its standard input and
//! output ([`serve`]). All machines work at each step at the same time, and each step has a deadline ([`link`]). What they
//! have answered is [judged](judge) without a process, and [printed](text).

mod clock;
mod fault;
mod judge;
mod link;
mod message;
mod pairs;
mod ports;
mod serve;
mod steps;
mod text;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use self::clock::ClockOffset;
use self::judge::{HostFinding, judge};
use self::link::Unreached;
use self::message::{HostReport, ListenPorts, PairWay};
use self::steps::HostsCheck;
use crate::run::{
    HostSlots, JobUsage, Transport, egret_there, of_file, of_slurm, parse_host, places,
};

pub(crate) use serve::{InfoHostArgs, serve};

/// Which machines to check, and how they are reached.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Several machines")]
pub(crate) struct HostsArgs {
    /// Check these machines, and this one, instead: whether a job of `egret run --host LIST` would run, and what to change;
    /// without LIST the machines of the allocation of Slurm that this is run in
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        num_args = 0..=1,
        value_parser = parse_host,
        group = "machines",
        conflicts_with = "env"
    )]
    hosts: Option<Vec<HostSlots>>,
    /// The same with the machines of a file, a line for each: `a slots=2`
    #[arg(long, value_name = "FILE", group = "machines", conflicts_with = "env")]
    hostfile: Option<PathBuf>,
    /// What starts a command on another machine, as for `egret run`
    #[arg(long, value_name = "COMMAND", requires = "machines")]
    remote: Option<String>,
    /// Where `egret` is on the other machines [default: where it is here]
    #[arg(long, value_name = "PATH", requires = "machines")]
    egret: Option<PathBuf>,
}

impl HostsArgs {
    /// Whether machines are to be checked.
    pub(super) fn is_asked(&self) -> bool {
        self.hosts.is_some() || self.hostfile.is_some()
    }

    /// The machines, in the order of their ranks; `None` is this one.
    fn machines(&self) -> Result<Vec<Option<String>>> {
        let hosts = match (&self.hostfile, &self.hosts) {
            (Some(file), _) => of_file(file)?,
            (None, Some(hosts)) if !hosts.is_empty() => hosts.clone(),
            _ => of_slurm(|name| std::env::var(name).ok())?.ok_or_else(|| {
                let why = "--hosts names no machine, and this is no allocation of Slurm with other machines";
                JobUsage(why.to_owned())
            })?,
        };
        let processes = hosts.iter().map(|host| host.slots).fold(0, u32::saturating_add);
        let places = places(&hosts, processes).map_err(JobUsage)?;
        Ok(places.into_iter().map(|place| place.host).collect())
    }
}

/// What was found. The names are a contract: fields are added, never renamed.
#[derive(Debug, Serialize)]
struct HostsInfo {
    /// This machine first.
    hosts: Vec<HostState>,
    /// Which of them reach which others.
    pairs: Vec<PairState>,
    findings: Vec<HostFinding>,
    /// Whether nothing was found that prevents a job.
    runs: bool,
}

/// A machine.
#[derive(Debug, Serialize)]
struct HostState {
    /// As it was named.
    host: String,
    /// Whether it is this machine.
    here: bool,
    /// Whether processes of the job would run on it; else it is this machine, which has the registry alone.
    in_job: bool,
    /// Why it was not reached, or does not answer any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreached: Option<Unreached>,
    /// What it says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<HostReport>,
    /// Its clock, compared to that of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<ClockOffset>,
    /// Where nodes on it would listen.
    #[serde(skip_serializing_if = "Option::is_none")]
    listens: Option<ListenPorts>,
}

impl HostState {
    fn new(host: &str, here: bool, in_job: bool) -> Self {
        let host = host.to_owned();
        Self { host, here, in_job, unreached: None, report: None, clock: None, listens: None }
    }
}

/// Whether one machine reaches another.
#[derive(Debug, Serialize)]
struct PairState {
    /// The place of the caller in `hosts`.
    from: usize,
    to: usize,
    tcp: PairWay,
    udp: PairWay,
}

/// Checks the machines, and says what was found.
pub(super) fn check(args: &HostsArgs, is_json: bool) -> Result<ExitCode> {
    let machines = args.machines()?;
    let transport = Transport::asked(args.remote.as_deref());
    let egret = egret_there(args.egret.as_deref())?;
    let mut check = HostsCheck::start(&machines, &transport, &egret);
    check.report();
    check.compare_clocks();
    let pairs = check.pairs();
    let hosts = check.end();
    let findings = judge(&hosts, &pairs);
    let runs = !findings.iter().any(|finding| finding.prevents);
    let info = HostsInfo { hosts, pairs, findings, runs };
    let text = if is_json { serde_json::to_string(&info)? } else { text::text(&info) };
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(if runs { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The name of this machine in what is printed.
const HERE: &str = "this machine";
