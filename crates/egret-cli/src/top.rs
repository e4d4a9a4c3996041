//! `egret top`: what the nodes of a job do and wait for.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use egret::node::{NodeReport, TrafficCount, wait_circle};
use egret::rt;
use egret::wire::Reader;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::run::monitor::{MemberReport, socket_name, waits_of};

/// Show what the nodes of a job do and wait for.
///
/// Shows for each node of a running `egret run` its process, where it is, the messages that it has sent to and received
/// from other nodes, its calls without an answer, its messages that wait to be sent, and what its threads wait for: the
/// kind, the method or name, the node, the line of the program, and for how long. If nodes wait for each other in a
/// circle the last line says so. Again every two seconds, until Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// The job, by the process number of its launcher; `egret top` without it lists them if there are several
    job: Option<i32>,
    /// Show it once
    #[arg(long)]
    once: bool,
    /// Print JSON, one line each time
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &TopArgs) -> Result<()> {
    let job = match args.job {
        Some(job) => job,
        None => only_job()?,
    };
    loop {
        let reports = ask(job)?;
        let text = if args.json { json_of(job, &reports) } else { text_of(job, &reports) };
        let mut out = io::stdout().lock();
        if !args.once && !args.json && out.is_terminal() {
            // Clears the screen, and begins at its top.
            write!(out, "\x1b[2J\x1b[H")?;
        }
        writeln!(out, "{text}")?;
        out.flush()?;
        drop(out);
        if args.once {
            return Ok(());
        }
        rt::sleep(AGAIN);
    }
}

/// The jobs of this user on this machine.
fn jobs() -> Result<Vec<i32>> {
    let sockets = std::fs::read_to_string("/proc/net/unix").context("listing the jobs")?;
    let prefix = format!("@{}", socket_name(geteuid().as_raw(), 0).trim_end_matches('0'));
    let names = sockets.lines().filter_map(|line| line.split_whitespace().next_back());
    let numbers = names.filter_map(|name| name.strip_prefix(&prefix)?.parse().ok());
    let mut jobs: Vec<_> = numbers.collect();
    jobs.sort_unstable();
    jobs.dedup();
    Ok(jobs)
}

fn only_job() -> Result<i32> {
    match jobs()?[..] {
        [] => bail!("no job of this user runs on this machine in this network namespace"),
        [job] => Ok(job),
        ref several => {
            let several = several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            bail!("several jobs run here: {several}; name one: egret top JOB")
        }
    }
}

/// Asks the monitor of a job.
fn ask(job: i32) -> Result<Vec<MemberReport>> {
    let name = socket_name(geteuid().as_raw(), job);
    let address = SocketAddr::from_abstract_name(name)?;
    let mut monitor = UnixStream::connect_addr(&address).with_context(|| {
        format!("job {job} does not run here; egret top without a number finds the one that does")
    })?;
    let whose = socket_peercred(&monitor)?.uid;
    if whose != geteuid() && !whose.is_root() {
        bail!("the name of job {job} is taken by a process of user {}", whose.as_raw());
    }
    monitor.set_read_timeout(Some(ANSWERED))?;
    let mut bytes = Vec::new();
    let read = (&mut monitor).take(REPORTS_MAX).read_to_end(&mut bytes);
    read.with_context(|| format!("job {job} has not answered within {ANSWERED:?}"))?;
    let reports = Reader::new(&bytes).read_last();
    reports.with_context(|| format!("job {job} runs with another version of egret"))
}

fn text_of(job: i32, members: &[MemberReport]) -> String {
    let reports: Vec<_> = members.iter().filter_map(|(_, report)| report.clone()).collect();
    let silent = members.len() - reports.len();
    let plural = if members.len() == 1 { "" } else { "s" };
    let mut text = format!("job {job}: {} node{plural}", members.len());
    if silent > 0 {
        _ = write!(text, ", {silent} without an answer");
    }
    _ = write!(
        text,
        "\n{:>8} {:>8} {:>12} {:>12} {:>8} {:>8}  location",
        "node", "process", "sent", "received", "calls", "queued"
    );
    for (node, report) in members {
        let node = node.to_string();
        match report {
            None => _ = write!(text, "\n{node:>8} does not answer"),
            Some(report) => {
                let TrafficCount { sent, received, calls, queued, .. } = report.total;
                let NodeReport { process, location, .. } = report;
                _ = write!(
                    text,
                    "\n{node:>8} {process:>8} {sent:>12} {received:>12} {calls:>8} {queued:>8}  {location}"
                );
            }
        }
    }
    let waits = waits_of(&reports);
    if waits.is_empty() { text + "\nno thread waits" } else { text + "\nwaits:\n" + &waits }
}

fn json_of(job: i32, members: &[MemberReport]) -> String {
    let reports: Vec<_> = members.iter().filter_map(|(_, report)| report.clone()).collect();
    let circle: Vec<_> = wait_circle(&reports).iter().map(ToString::to_string).collect();
    let nodes: Vec<_> = members
        .iter()
        .map(|(node, report)| match report {
            Some(report) => node_json(report),
            None => json!({ "node": node.to_string(), "answers": false }),
        })
        .collect();
    json!({ "job": job, "nodes": nodes, "circle": circle }).to_string()
}

fn node_json(report: &NodeReport) -> Value {
    let peers = report.peers.iter().map(|peer| {
        json!({
            "node": peer.node.map(|node| node.to_string()),
            "fabric": peer.fabric,
            "sent": peer.count.sent,
            "received": peer.count.received,
            "calls": peer.count.calls,
            "queued": peer.count.queued,
        })
    });
    let waits = report.waits.iter().map(|wait| {
        json!({
            "thread": wait.thread,
            "kind": wait.kind,
            "object": wait.object,
            "node": wait.node.map(|node| node.to_string()),
            "at": wait.at,
            "waited_ms": wait.waited_ms,
        })
    });
    json!({
        "node": report.node.to_string(),
        "answers": true,
        "process": report.process,
        "location": report.location.to_string(),
        "members": report.members,
        "peers": peers.collect::<Vec<_>>(),
        "waits": waits.collect::<Vec<_>>(),
        "omitted": report.omitted_peers + report.omitted_waits,
    })
}

/// Time between two pictures.
const AGAIN: Duration = Duration::from_secs(2);
/// Bytes of the reports of all members.
const REPORTS_MAX: u64 = 256 << 20;
/// How long a monitor may take.
const ANSWERED: Duration = Duration::from_secs(10);
