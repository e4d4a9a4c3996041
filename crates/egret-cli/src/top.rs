//! `egret top`: what the nodes of a job or a pool do and wait for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use egret::node::{NodeId, NodeReport, TrafficCount, wait_circle};
use egret::rt;
use egret::wire::Reader;
use serde_json::{Value, json};

use crate::monitor::{self, FinderCommand, MemberReport, MonitorName, MonitorRequest, waits_of};
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
    let monitor = monitor::find(args.job.as_deref(), FinderCommand::Top)?;
    let mut before = None;
    loop {
        let members = match reports_of(&monitor) {
            // It was there, and is not any more.
            Err(why) if before.is_some() && is_gone(&why) => {
                tell(&format!("the {} has ended", monitor.title()));
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

/// Asks a monitor for the reports of all members.
fn reports_of(monitor: &MonitorName) -> Result<Vec<MemberReport>> {
    let bytes = monitor::ask(monitor, &MonitorRequest::Reports, ANSWERED)?;
    let reports = Reader::new(&bytes).read_last();
    reports.with_context(|| format!("the {} runs with another version of egret", monitor.title()))
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
        let mut text = format!("{}: {count} node{plural}", self.monitor.title());
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
        "job_rank": report.job.as_ref().map(|job| job.rank),
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
/// Time between two pictures.
const AGAIN: Duration = Duration::from_secs(2);
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
