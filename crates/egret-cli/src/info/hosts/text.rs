//! What was found, for people.

use std::fmt::Write;

use super::clock::ClockOffset;
use super::message::HostReport;
use super::{HostState, HostsInfo, PairState};
use crate::info::report::size;

/// `info` in lines.
pub(super) fn text(info: &HostsInfo) -> String {
    let mut parts = vec![aligned(&machines(&info.hosts)), pairs(&info.hosts, &info.pairs)];
    if !info.findings.is_empty() {
        let mut lines = "To change:\n".to_owned();
        for finding in &info.findings {
            let mark = if finding.prevents { '!' } else { '*' };
            let _ = writeln!(lines, "{mark} {}\n    {}", finding.what, finding.change);
        }
        parts.push(lines);
    }
    let count = info.findings.iter().filter(|finding| finding.prevents).count();
    let machines = info.hosts.iter().filter(|host| host.in_job).count();
    parts.push(match (count, machines) {
        (0, 1) => "A job runs on this one machine.".to_owned(),
        (0, _) => format!("A job runs on these {machines} machines."),
        (1, _) => "A job does not run on all of them: the line with ! says why.".to_owned(),
        (_, _) => format!("A job does not run on all of them: the {count} lines with ! say why."),
    });
    let parts: Vec<_> = parts.iter().map(|part| part.trim_end()).collect();
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// A row for each machine, under a head.
fn machines(hosts: &[HostState]) -> Vec<Vec<String>> {
    let head = [
        "machine",
        "egret",
        "build",
        "processor",
        "cores",
        "files",
        "to lock",
        "fabrics",
        "address",
        "clock",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (host, number) in hosts.iter().zip(1..) {
        let mut row = vec![format!("{number} {}", host.host)];
        match (&host.unreached, &host.report) {
            (Some(_), _) => row.push("no answer".to_owned()),
            (None, Some(report)) => row.extend(cells(host, report)),
            (None, None) => {}
        }
        rows.push(row);
    }
    rows
}

/// What is known of a machine, after its name.
fn cells(host: &HostState, report: &HostReport) -> [String; 9] {
    let fabrics = report.fabrics.iter().filter(|fabric| fabric.available);
    let address = host.listens.as_ref().and_then(|ports| ports.tcp.address);
    [
        report.egret.clone(),
        if report.optimized { "optimized" } else { "unoptimized" }.to_owned(),
        report.architecture.clone(),
        report.cores.to_string(),
        report.files.map_or_else(|| "all".to_owned(), |files| files.to_string()),
        report.lockable_bytes.map_or_else(|| "all".to_owned(), size),
        fabrics.map(|fabric| fabric.name.as_str()).collect::<Vec<_>>().join(" "),
        address.map_or_else(|| "-".to_owned(), |address| address.ip().to_string()),
        host.clock.map_or_else(|| "-".to_owned(), clock),
    ]
}

fn clock(clock: ClockOffset) -> String {
    let ms = |us: f64| us / 1000.0;
    format!("{:+.1} ms ± {:.1}", ms(clock.ahead_us as f64), ms(clock.uncertain_us as f64))
}

/// Which machine reaches which; of many machines only whether all do.
fn pairs(hosts: &[HostState], pairs: &[PairState]) -> String {
    let failed = pairs.iter().filter(|pair| !pair.tcp.reached || !pair.udp.reached).count();
    if pairs.is_empty() {
        return String::new();
    }
    if hosts.len() > MATRIX_MAX {
        return match failed {
            0 => format!("All {} pairs reach each other by tcp and udp.", pairs.len()),
            _ => {
                format!("{failed} of {} pairs do not reach each other by tcp or udp.", pairs.len())
            }
        };
    }
    let mut rows = vec![vec!["from, to".to_owned()]];
    rows[0].extend((1..=hosts.len()).map(|number| number.to_string()));
    for (from, host) in hosts.iter().enumerate().filter(|(_, host)| host.in_job) {
        let mut row = vec![format!("{} {}", from + 1, host.host)];
        row.extend((0..hosts.len()).map(|to| {
            let pair = pairs.iter().find(|pair| (pair.from, pair.to) == (from, to));
            match pair.map(|pair| (pair.tcp.reached, pair.udp.reached)) {
                None => ".",
                Some((true, true)) => "tcp udp",
                Some((true, false)) => "tcp -",
                Some((false, true)) => "- udp",
                Some((false, false)) => "- -",
            }
            .to_owned()
        }));
        rows.push(row);
    }
    aligned(&rows)
}

/// Columns as wide as their widest cells.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}  "));
        let _ = writeln!(out, "{}", cells.collect::<String>().trim_end());
    }
    out
}

/// Machines of which all pairs are shown.
const MATRIX_MAX: usize = 12;
