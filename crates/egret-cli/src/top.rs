//! `egret top`: what the nodes of a job or a pool do and wait for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use egret::node::{NodeId, NodeReport, TrafficCount, wait_circle};
use egret::rt;
use egret::wire::Reader;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::monitor::{MemberReport, MonitorKind, MonitorName, shown, waits_of};
use crate::system::tell;

/// Show what the nodes of a job or a pool do and wait for.
///
/// Asks the registry of the pool, which is in `egret run` or in `egret registry`, on this machine and of this user. Shows
/// for each node its process, what it has sent to other nodes and received from them, its requests without an answer, its
/// messages that wait to be sent, how long a request takes until its answer comes, and where it is; and what its threads
/// wait for: the kind, the method or name, the node, the line of the program, and for how long. If nodes wait for each
/// other in a circle the last line says so. Again every two seconds, until Ctrl-C or the end of the job.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct TopArgs {
    /// The job, by a process number of its `egret run` (that of the command or of its launcher), or the name of a pool;
    /// needed only if there are several
    #[arg(value_name = "JOB|POOL")]
    job: Option<String>,
    /// Show it once
    #[arg(long)]
    once: bool,
    /// Print JSON, one line each time
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &TopArgs) -> Result<()> {
    let monitor = find(args.job.as_deref())?;
    let mut before = None;
    loop {
        let members = match ask(&monitor) {
            // It was there, and is not any more.
            Err(why) if before.is_some() && is_gone(&why) => {
                tell(&format!("the {} has ended", title(&monitor)));
                return Ok(());
            }
            members => members?,
        };
        let picture = Picture { monitor: &monitor, members: &members };
        let text = if args.json { picture.json() } else { picture.text(before.as_ref()) };
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
        before = Some(picture.totals());
        rt::sleep(AGAIN);
    }
}

/// The monitor that is meant: that of a process, of a pool, or the only one.
fn find(wanted: Option<&str>) -> Result<MonitorName> {
    let all = MonitorName::all()?;
    let serving: Vec<_> = all.iter().filter(|it| it.kind != MonitorKind::Guest).collect();
    let of_pool = |pool: &str| -> Vec<_> {
        serving.iter().copied().filter(|monitor| monitor.pool == pool).collect()
    };
    let found = match wanted {
        Some(wanted) => {
            let process = wanted.parse::<i32>().ok();
            let is_it = |it: &&MonitorName| Some(it.process) == process;
            // The process that a person has started is the parent of the one with the registry.
            let is_child = |it: &&MonitorName| {
                process.is_some()
                    && it.kind != MonitorKind::Registry
                    && parent(it.process) == process
            };
            match all.iter().find(is_it).or_else(|| all.iter().find(is_child)) {
                Some(guest) if guest.kind == MonitorKind::Guest => match of_pool(&guest.pool) {
                    none if none.is_empty() => bail!(elsewhere(guest)),
                    found => found,
                },
                Some(monitor) => vec![monitor],
                None => of_pool(&shown(wanted)),
            }
        }
        None => serving.clone(),
    };
    match (&found[..], wanted) {
        ([monitor], _) => Ok((*monitor).clone()),
        ([], Some(wanted)) => {
            let pool = shown(wanted);
            match all.iter().find(|it| it.pool == pool) {
                Some(guest) => bail!(elsewhere(guest)),
                None => bail!(
                    "no job {wanted} and no registry of a pool {wanted} {HERE}{}",
                    list(&serving)
                ),
            }
        }
        ([], None) => match all.first() {
            Some(guest) => bail!(elsewhere(guest)),
            None => bail!("no job and no registry {HERE}"),
        },
        (several, _) => {
            bail!("several run here: {}; name one by its number: egret top NUMBER", names(several))
        }
    }
}

/// The parent of a process, if that still runs.
fn parent(process: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// What is to be done about a job whose registry is not here.
fn elsewhere(guest: &MonitorName) -> String {
    let MonitorName { process, pool, .. } = guest;
    format!(
        "job {process} is in the pool {pool}, whose registry is no process of this user on this machine: say \
         `egret top {pool}` where its egret registry runs"
    )
}

fn list(all: &[&MonitorName]) -> String {
    if all.is_empty() { String::new() } else { format!("; here run: {}", names(all)) }
}

fn names(all: &[&MonitorName]) -> String {
    let name = |monitor: &&MonitorName| format!("{} (pool {})", monitor.process, monitor.pool);
    all.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn title(monitor: &MonitorName) -> String {
    let MonitorName { process, pool, .. } = monitor;
    match monitor.kind {
        MonitorKind::Registry => format!("pool {pool} (registry {process})"),
        MonitorKind::Job | MonitorKind::Guest => format!("job {process}"),
    }
}

/// Asks a monitor.
fn ask(monitor: &MonitorName) -> Result<Vec<MemberReport>> {
    let title = title(monitor);
    let mut stream = UnixStream::connect_addr(&monitor.address()?)
        .with_context(|| format!("the {title} does not run any more"))?;
    let whose = socket_peercred(&stream)?.uid;
    if whose != geteuid() && !whose.is_root() {
        bail!("the name of the {title} is taken by a process of user {}", whose.as_raw());
    }
    stream.set_read_timeout(Some(ANSWERED))?;
    let mut bytes = Vec::new();
    let read = (&mut stream).take(REPORTS_MAX).read_to_end(&mut bytes);
    read.with_context(|| format!("the {title} has not answered within {ANSWERED:?}"))?;
    if bytes.is_empty() {
        // It has ended before it could answer.
        return Err(io::Error::from(ErrorKind::ConnectionReset).into());
    }
    let reports = Reader::new(&bytes).read_last();
    reports.with_context(|| format!("the {title} runs with another version of egret"))
}

/// Whether that is what a process causes which has ended.
fn is_gone(why: &anyhow::Error) -> bool {
    let gone = [ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset, ErrorKind::NotFound];
    why.downcast_ref::<io::Error>().is_some_and(|why| gone.contains(&why.kind()))
}

/// What a monitor has answered.
struct Picture<'a> {
    monitor: &'a MonitorName,
    members: &'a [MemberReport],
}

/// When each node has reported, in milliseconds of its own clock, and what it had sent and received then.
type NodeTotals = BTreeMap<NodeId, (u64, TrafficCount)>;

impl Picture<'_> {
    fn reports(&self) -> Vec<NodeReport> {
        self.members.iter().filter_map(|(_, report)| report.clone()).collect()
    }

    fn totals(&self) -> NodeTotals {
        let totals = self.members.iter().filter_map(|(node, report)| {
            let report = report.as_ref()?;
            Some((*node, (report.made_ms, report.total)))
        });
        totals.collect()
    }

    fn text(&self, before: Option<&NodeTotals>) -> String {
        let (reports, count) = (self.reports(), self.members.len());
        let plural = if count == 1 { "" } else { "s" };
        let mut text = format!("{}: {count} node{plural}", title(self.monitor));
        if reports.len() < count {
            _ = write!(text, ", {} without an answer", count - reports.len());
        }
        text += "\n";
        text += &row(&COLUMNS.map(str::to_owned), "location");
        for (node, report) in self.members {
            let before = before.and_then(|before| before.get(node));
            text += "\n";
            match report {
                None => _ = write!(text, "{:>8} does not answer", node.to_string()),
                Some(report) => text += &node_row(report, before),
            }
        }
        let waits = waits_of(&reports);
        if waits.is_empty() { text + "\nno thread waits" } else { text + "\nwaits:\n" + &waits }
    }

    fn json(&self) -> String {
        let circle: Vec<_> = wait_circle(&self.reports()).iter().map(ToString::to_string).collect();
        let node = |(node, report): &MemberReport| match report {
            Some(report) => node_json(report),
            None => json!({ "node": node.to_string(), "answers": false }),
        };
        let nodes: Vec<_> = self.members.iter().map(node).collect();
        let MonitorName { process, pool, .. } = self.monitor;
        json!({ "job": process, "pool": pool, "nodes": nodes, "circle": circle }).to_string()
    }
}

fn node_row(report: &NodeReport, before: Option<&(u64, TrafficCount)>) -> String {
    let NodeReport { node, process, made_ms, total, location, .. } = report;
    let rate = |now: u64, then: fn(&TrafficCount) -> u64| match before {
        Some((then_ms, count)) if then_ms < made_ms => {
            bytes(now.saturating_sub(then(count)).saturating_mul(1000) / (made_ms - then_ms))
        }
        _ => "-".to_owned(),
    };
    let slowest =
        report.peers.iter().filter_map(|peer| peer.round_trip.filter(|_| peer.node.is_some()));
    let cells = [
        node.to_string(),
        process.to_string(),
        total.sent.to_string(),
        total.received.to_string(),
        bytes(total.sent_bytes),
        bytes(total.received_bytes),
        rate(total.sent_bytes, |count| count.sent_bytes),
        rate(total.received_bytes, |count| count.received_bytes),
        total.calls.to_string(),
        total.queued.to_string(),
        slowest.max().map_or_else(|| "-".to_owned(), |trip| format!("{trip:.1?}")),
    ];
    row(&cells, &location.to_string())
}

fn row(cells: &[String; COLUMNS.len()], last: &str) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(WIDTHS) {
        _ = write!(line, "{cell:>width$} ");
    }
    line + " " + last
}

/// Bytes in at most six characters.
fn bytes(count: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let step = (0..units.len() - 1)
        .find(|step| count < 10_000 * 1000_u64.pow(u32::try_from(*step).unwrap_or(0)));
    let step = step.unwrap_or(units.len() - 1);
    format!("{}{}", count / 1000_u64.pow(u32::try_from(step).unwrap_or(0)), units[step])
}

fn node_json(report: &NodeReport) -> Value {
    let peers = report.peers.iter().map(|peer| {
        let mut value = count_json(&peer.count);
        value["node"] = json!(peer.node.map(|node| node.to_string()));
        value["fabric"] = json!(peer.fabric);
        value["round_trip_ns"] = json!(peer.round_trip.map(nanos));
        value
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
        "made_ms": report.made_ms,
        "total": count_json(&report.total),
        "peers": peers.collect::<Vec<_>>(),
        "waits": waits.collect::<Vec<_>>(),
        "awaited": report.awaited.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "omitted_peers": report.omitted_peers,
        "omitted_waits": report.omitted_waits,
    })
}

fn count_json(count: &TrafficCount) -> Value {
    json!({
        "sent": count.sent,
        "received": count.received,
        "sent_bytes": count.sent_bytes,
        "received_bytes": count.received_bytes,
        "calls": count.calls,
        "queued": count.queued,
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The columns of a node, but for the last one.
const COLUMNS: [&str; 11] = [
    "node", "process", "sent", "received", "out", "in", "out/s", "in/s", "calls", "queued", "trip",
];
const WIDTHS: [usize; COLUMNS.len()] = [8, 8, 10, 10, 7, 7, 7, 7, 6, 6, 8];
/// Ends the sentence that something is not found.
const HERE: &str = "runs as this user on this machine, in this network namespace";
/// Time between two pictures.
const AGAIN: Duration = Duration::from_secs(2);
/// Bytes of the reports of all members.
const REPORTS_MAX: u64 = 256 << 20;
/// How long a monitor may take.
const ANSWERED: Duration = Duration::from_secs(10);

const HELP: &str = "\
Columns:
  node, process  the rank and incarnation of the node, the number of its process
  sent, received
                 messages to other nodes and from them
  out, in        bytes of these messages
  out/s, in/s    bytes in a second since the picture before; not in the first one
  calls          requests without an answer
  queued         messages that wait to be sent
  trip           from a request to its answer, on the slowest link: an average of few of them
  location       where the node is: core@host@rack@site

Exit codes:
  0         shown; without --once, the job has ended
  1         there is no such job or pool here, or several; it does not answer
  2         the command line was not understood";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_short() {
        for (count, text) in [
            (0, "0B"),
            (9_999, "9999B"),
            (10_000, "10kB"),
            (9_999_999, "9999kB"),
            (12_345_678_901, "12GB"),
            (u64::MAX, "18EB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_reports_of_a_node() {
        let pool = egret::local::pool(1).unwrap();
        let mut report = pool[0].report();
        report.total.sent_bytes = 5_000_000;
        let mut then = report.total;
        then.sent_bytes = 1_000_000;
        report.made_ms = 6_000;
        let row = node_row(&report, Some(&(4_000, then)));
        assert!(row.contains(" 5000kB ") && row.contains(" 2000kB "), "{row}");
        assert!(!node_row(&report, None).contains("2000kB"));
        // The same picture twice.
        assert!(!node_row(&report, Some(&(6_000, then))).contains("kB  2000kB"));
    }
}
