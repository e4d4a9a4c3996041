//! What follows from what the machines have answered: what prevents a job, and what to change.

use std::collections::BTreeMap;

use serde::Serialize;

use super::fault::{Fault, planted};
use super::link::Unreached;
use super::message::{HostReport, ListenPorts, PairWay};
use super::{HostState, PairState};

/// Something to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct HostFinding {
    /// Whether no job runs on all machines before it is changed.
    pub(super) prevents: bool,
    /// The machines that it is about, as they were named: of a pair the one that is to be reached.
    pub(super) hosts: Vec<String>,
    /// What was found, with its numbers.
    pub(super) what: String,
    /// What to do.
    pub(super) change: String,
}

/// All there is to change, what prevents a job first.
pub(super) fn judge(hosts: &[HostState], pairs: &[PairState]) -> Vec<HostFinding> {
    let mut findings = Vec::new();
    let here = hosts.iter().find(|host| host.here).and_then(|host| host.report.as_ref());
    for host in hosts {
        let mut notes = HostNotes { host: &host.host, findings: &mut findings };
        match (&host.unreached, &host.report) {
            (Some(why), _) if !planted(Fault::UnreachedUntold) => notes.unreached(why),
            (None, Some(report)) => {
                if let Some(here) = here.filter(|_| !host.here) {
                    notes.compare(report, here);
                }
                notes.offers(report);
                if !planted(Fault::LimitsIgnored) {
                    notes.limits(report);
                }
            }
            _ => {}
        }
        if let Some(ports) = &host.listens {
            notes.listens(ports);
        }
        if let Some(clock) = host.clock.filter(|clock| clock.ahead_us.abs() > CLOCK_AHEAD_US) {
            let seconds = clock.ahead_us as f64 / 1e6;
            let what = format!("its clock is {seconds:+.1} s from the one here");
            let change = "synchronize it (chrony, ntpd): the lines of its logs are out of order; egret does not compare clocks";
            notes.warn(&what, change);
        }
    }
    unreached_pairs(hosts, pairs, &mut findings);
    // The order of the machines stays as it is.
    findings.sort_by_key(|finding| !finding.prevents);
    findings
}

/// What is noted about one machine.
struct HostNotes<'a> {
    host: &'a str,
    findings: &'a mut Vec<HostFinding>,
}

impl HostNotes<'_> {
    fn note(&mut self, prevents: bool, what: &str, change: impl Into<String>) {
        let hosts = vec![self.host.to_owned()];
        let what = format!("{}: {what}", self.host);
        self.findings.push(HostFinding { prevents, hosts, what, change: change.into() });
    }

    fn prevent(&mut self, what: &str, change: impl Into<String>) {
        self.note(true, what, change);
    }

    fn warn(&mut self, what: &str, change: impl Into<String>) {
        self.note(false, what, change);
    }

    fn unreached(&mut self, unreached: &Unreached) {
        let Unreached { why, said, code, command } = unreached;
        let mut what = why.clone();
        if let Some(code) = code {
            what += &format!(" (exit code {code})");
        }
        if !said.is_empty() {
            what += &format!(": {said}");
        }
        let change = match code {
            Some(255) => format!("`{command}` has to work without a question"),
            Some(126 | 127) => {
                "install egret there at the same path, or say with --egret PATH where it is"
                    .to_owned()
            }
            Some(2) => format!(
                "is egret {} or later there? else install it, or name another with --egret PATH",
                env!("CARGO_PKG_VERSION")
            ),
            _ => format!(
                "see that `{command}` works and writes nothing, and that egret is at the same path there, or \
                 say --egret PATH"
            ),
        };
        self.prevent(&what, change);
    }

    /// What is to be the same on all machines.
    fn compare(&mut self, there: &HostReport, here: &HostReport) {
        let same = "install the same egret, or name another with --egret PATH";
        let (jobs, wires) =
            ((there.job_protocol, here.job_protocol), (there.wire_protocol, here.wire_protocol));
        let is_other = jobs.0 != jobs.1 || wires.0 != wires.1;
        if is_other && !planted(Fault::ProtocolForgiven) {
            let what = format!(
                "egret {} there and {} here (job protocol {} and {}, wire protocol {} and {})",
                there.egret, here.egret, jobs.0, jobs.1, wires.0, wires.1
            );
            self.prevent(&what, same);
        } else if there.egret != here.egret {
            let what = format!(
                "egret {} there and {} here, of the same protocols",
                there.egret, here.egret
            );
            self.warn(&what, same);
        }
        if there.optimized != here.optimized {
            let which = |optimized| if optimized { "optimized" } else { "unoptimized" };
            let what = format!(
                "egret is {} there and {} here",
                which(there.optimized),
                which(here.optimized)
            );
            self.warn(&what, "install the same build: what is measured says nothing else");
        }
        if there.byte_order != here.byte_order {
            let what =
                format!("its byte order is {}, and {} here", there.byte_order, here.byte_order);
            self.prevent(
                &what,
                "leave the machine out: nodes of different byte order do not connect",
            );
        } else if there.architecture != here.architecture {
            let what =
                format!("it is {}, and this machine {}", there.architecture, here.architecture);
            self.warn(&what, "build the program for each, and put each at the same path");
        }
    }

    /// Fabrics, and what the kernel grants.
    fn offers(&mut self, report: &HostReport) {
        for fabric in report.fabrics.iter().filter(|fabric| !fabric.available) {
            let why = fabric.why.as_deref().unwrap_or("it does not say why");
            let what = format!("no {}: {why}", fabric.name);
            let change = format!("`egret info` there says what is missing for {}", fabric.name);
            self.note(fabric.name == "tcp", &what, change);
        }
        let needed = ["memfd-seals", "so-peercred"];
        for denied in report.denied.iter().filter(|denied| needed.contains(&denied.as_str())) {
            let what = format!("the kernel denies {denied}: its processes do not connect over shm");
            self.warn(&what, "`egret info` there says why; without it they use tcp");
        }
    }

    fn limits(&mut self, report: &HostReport) {
        if let Some(files) = report.files.filter(|files| *files < FILES_MIN) {
            let change = match report.files_max {
                Some(most) if most < FILES_MIN => format!(
                    "`nofile` in /etc/security/limits.conf or LimitNOFILE= of the service, which allow {most}: {FILES_MIN} \
                     or more"
                ),
                _ => format!(
                    "`ulimit -n {FILES_MIN}` before the program, or LimitNOFILE= of the service"
                ),
            };
            let what = format!(
                "{files} open files are allowed: each connection of a node takes one or more"
            );
            self.warn(&what, change);
        }
        if let Some(bytes) = report.lockable_bytes.filter(|bytes| *bytes < LOCKABLE_MIN) {
            let what = format!(
                "locked memory is limited to {} KiB: keys may be written to swap, and locked regions are refused",
                bytes >> 10
            );
            self.warn(
                &what,
                "`ulimit -l unlimited`, `memlock` in /etc/security/limits.conf, or LimitMEMLOCK= of the service",
            );
        }
    }

    fn listens(&mut self, ports: &ListenPorts) {
        if let Some(why) = &ports.tcp.why {
            let what = format!("a node there does not listen by tcp: {why}");
            self.prevent(&what, "EGRET_LISTEN says another address or interface");
        }
    }
}

/// One finding for all machines that miss another in the same way.
fn unreached_pairs(hosts: &[HostState], pairs: &[PairState], findings: &mut Vec<HostFinding>) {
    let mut missing = BTreeMap::<(usize, bool, &str), Vec<usize>>::new();
    for pair in pairs {
        let ways: [(&PairWay, bool); 2] = [(&pair.tcp, true), (&pair.udp, false)];
        for (way, is_tcp) in ways {
            if let Some(why) = way.failed() {
                missing.entry((pair.to, is_tcp, why)).or_default().push(pair.from);
            }
        }
    }
    for ((to, is_tcp, why), from) in missing {
        let ports = hosts[to].listens.as_ref();
        let port = ports.map(|ports| if is_tcp { &ports.tcp } else { &ports.udp });
        // That it does not listen is a line of its own.
        let Some(address) = port.and_then(|port| port.address) else { continue };
        let protocol = if is_tcp { "tcp" } else { "udp" };
        let names = from.iter().map(|from| hosts[*from].host.as_str());
        let name = &hosts[to].host;
        let what = format!("{} → {name}: {protocol} {why} ({address})", shortened(names));
        let mut change = if address.ip().is_loopback() {
            "EGRET_LISTEN says an address that the others reach, or `reachable`".to_owned()
        } else {
            let from =
                from.iter().map(|from| address_of(&hosts[*from])).collect::<Option<Vec<_>>>();
            let from = from.map_or_else(String::new, |from| {
                format!(" from {}", shortened(from.iter().map(String::as_str)))
            });
            let report = hosts[to].report.as_ref();
            let (first, last) = report.map_or((1, u16::MAX), |report| report.ports);
            format!(
                "a firewall? open the {protocol} ports {first} to {last} of {name}{from}, or say another address by EGRET_LISTEN"
            )
        };
        if !is_tcp {
            change += "; only `--fabric udp` needs it";
        }
        let prevents = is_tcp && !planted(Fault::PairForgiven);
        findings.push(HostFinding { prevents, hosts: vec![name.clone()], what, change });
    }
}

/// The address at which a machine listens, and from which it most likely calls.
fn address_of(host: &HostState) -> Option<String> {
    Some(host.listens.as_ref()?.tcp.address?.ip().to_string())
}

/// Some names, and how many more there are.
fn shortened<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    match names.len().checked_sub(NAMES_MAX) {
        Some(more @ 1..) => format!("{} and {more} more", names[..NAMES_MAX].join(", ")),
        _ => names.join(", "),
    }
}

/// A clock that is further ahead or behind is worth a line.
const CLOCK_AHEAD_US: i64 = 1_000_000;
/// Open files that a process should be allowed: some hundreds of peers.
const FILES_MIN: u64 = 1024;
/// Bytes that a process should be allowed to lock: the keys of some hundreds of connections.
const LOCKABLE_MIN: u64 = 1 << 20;
/// Names in one line.
const NAMES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::super::HERE;
    use super::super::clock::ClockOffset;
    use super::super::fault::caught;
    use super::super::message::{HostFabric, ListenPort};
    use super::*;

    fn report() -> HostReport {
        let fabric = |name: &str| HostFabric { name: name.to_owned(), available: true, why: None };
        HostReport {
            egret: "0.9.0".to_owned(),
            optimized: true,
            job_protocol: 2,
            wire_protocol: 5,
            architecture: "x86_64".to_owned(),
            byte_order: "little".to_owned(),
            cores: 4,
            fabrics: ["shm", "tcp", "udp"].map(fabric).to_vec(),
            files: Some(1024),
            files_max: Some(4096),
            ports: (32768, 60999),
            ..HostReport::default()
        }
    }

    /// This machine, and `a`, `b` and so on: each listens at 10.0.0.N.
    fn hosts(count: usize) -> Vec<HostState> {
        let names = [HERE, "a", "b", "c", "d", "e", "f"];
        let host = |(name, number): (&&str, u8)| {
            let port = |port| {
                let address = Some(([10, 0, 0, number], port).into());
                ListenPort { address, why: None }
            };
            let listens = Some(ListenPorts { tcp: port(40000), udp: port(50000) });
            let is_here = *name == HERE;
            HostState { report: Some(report()), listens, ..HostState::new(name, is_here, !is_here) }
        };
        names.iter().zip(0..).map(host).take(count).collect()
    }

    fn pair(from: usize, to: usize, tcp: Result<(), &str>, udp: Result<(), &str>) -> PairState {
        let way = |way: Result<(), &str>| PairWay::from(way.map_err(str::to_owned));
        PairState { from, to, tcp: way(tcp), udp: way(udp) }
    }

    /// The only finding about three machines of which the second is changed like this.
    fn only(change: impl FnOnce(&mut HostState)) -> HostFinding {
        let mut hosts = hosts(3);
        change(&mut hosts[2]);
        let findings = judge(&hosts, &[]);
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(finding.hosts, ["b"]);
        assert!(finding.what.starts_with("b: "), "{finding:?}");
        finding.clone()
    }

    fn only_of_report(change: impl FnOnce(&mut HostReport)) -> HostFinding {
        only(|host| change(host.report.as_mut().unwrap()))
    }

    #[test]
    fn nothing_is_to_change_where_all_is_well() {
        let pairs = [pair(1, 2, Ok(()), Ok(())), pair(2, 1, Ok(()), Ok(()))];
        assert_eq!(judge(&hosts(3), &pairs), []);
    }

    fn a_pair_without_tcp_prevents_a_job() {
        let refused = Err("refused");
        let pairs = [pair(1, 2, refused, Ok(())), pair(2, 1, Ok(()), refused)];
        let findings = judge(&hosts(3), &pairs);
        let [tcp, udp] = &findings[..] else { panic!("{findings:?}") };
        assert!(tcp.prevents && !udp.prevents, "{findings:?}");
        assert_eq!(tcp.what, "a → b: tcp refused (10.0.0.2:40000)");
        let ports = "open the tcp ports 32768 to 60999 of b from 10.0.0.1";
        assert!(tcp.change.contains(ports), "{tcp:?}");
        assert_eq!(udp.what, "b → a: udp refused (10.0.0.1:50000)");
        assert_eq!((&*tcp.hosts[0], &*udp.hosts[0]), ("b", "a"));
    }

    fn another_protocol_prevents_a_job() {
        let job = only_of_report(|report| {
            (report.egret, report.job_protocol) = ("0.8.1".to_owned(), 1);
        });
        assert!(job.prevents, "{job:?}");
        let numbers =
            "egret 0.8.1 there and 0.9.0 here (job protocol 1 and 2, wire protocol 5 and 5)";
        assert!(job.what.contains(numbers) && job.change.contains("--egret PATH"), "{job:?}");
        assert!(only_of_report(|report| report.wire_protocol = 4).prevents);
    }

    fn a_machine_that_is_not_reached_prevents_a_job() {
        for (code, change) in [
            (Some(255), "`ssh b true` has to work without a question"),
            (Some(127), "--egret PATH"),
            (Some(2), "or later there?"),
            (None, "works and writes nothing"),
        ] {
            let finding = only(|host| {
                host.unreached = Some(Unreached {
                    why: "ssh ended".to_owned(),
                    said: "Permission denied".to_owned(),
                    code,
                    command: "ssh b true".to_owned(),
                });
                (host.report, host.listens) = (None, None);
            });
            assert!(finding.prevents && finding.change.contains(change), "{finding:?}");
            assert!(finding.what.ends_with(": Permission denied"), "{finding:?}");
        }
    }

    fn low_limits_are_named_with_their_numbers() {
        let finding = only_of_report(|report| report.files = Some(256));
        assert!(!finding.prevents && finding.what.contains("256 open files"), "{finding:?}");
        assert!(finding.change.contains("`ulimit -n 1024`"), "{finding:?}");
        let finding = only_of_report(|report| {
            (report.files, report.files_max) = (Some(256), Some(512));
        });
        assert!(finding.change.contains("which allow 512"), "{finding:?}");
        let finding = only_of_report(|report| report.lockable_bytes = Some(64 << 10));
        assert!(!finding.prevents && finding.what.contains("limited to 64 KiB"), "{finding:?}");
        let without =
            |report: &mut HostReport| (report.files, report.lockable_bytes) = (None, None);
        let mut hosts = hosts(2);
        without(hosts[1].report.as_mut().unwrap());
        assert_eq!(judge(&hosts, &[]), []);
    }

    #[test]
    fn what_prevents_a_job_is_found() {
        a_pair_without_tcp_prevents_a_job();
        another_protocol_prevents_a_job();
        a_machine_that_is_not_reached_prevents_a_job();
        low_limits_are_named_with_their_numbers();
    }

    #[test]
    fn planted_faults_are_caught() {
        assert!(caught(Fault::PairForgiven, a_pair_without_tcp_prevents_a_job));
        assert!(caught(Fault::ProtocolForgiven, another_protocol_prevents_a_job));
        assert!(caught(Fault::UnreachedUntold, a_machine_that_is_not_reached_prevents_a_job));
        assert!(caught(Fault::LimitsIgnored, low_limits_are_named_with_their_numbers));
    }

    #[test]
    fn machines_are_compared_with_this_one() {
        let finding = only_of_report(|report| report.egret = "0.9.1".to_owned());
        assert!(!finding.prevents && finding.what.contains("of the same protocols"), "{finding:?}");
        let finding = only_of_report(|report| report.optimized = false);
        assert!(!finding.prevents && finding.what.contains("unoptimized there"), "{finding:?}");
        let finding = only_of_report(|report| report.architecture = "aarch64".to_owned());
        assert!(!finding.prevents && finding.change.contains("build the program"), "{finding:?}");
        assert!(only_of_report(|report| report.byte_order = "big".to_owned()).prevents);
        let clock = |ahead_us| ClockOffset { ahead_us, uncertain_us: 10 };
        let finding = only(|host| host.clock = Some(clock(-2_500_000)));
        assert!(!finding.prevents && finding.what.contains("-2.5 s"), "{finding:?}");
        let mut near = hosts(2);
        near[1].clock = Some(clock(999_999));
        assert_eq!(judge(&near, &[]), []);
    }

    #[test]
    fn fabrics_and_places_that_miss_are_found() {
        for (number, prevents) in [(0, false), (1, true), (2, false)] {
            let finding = only_of_report(|report| {
                let fabric = &mut report.fabrics[number];
                (fabric.available, fabric.why) = (false, Some("denied".to_owned()));
            });
            assert!(finding.prevents == prevents && finding.what.contains("denied"), "{finding:?}");
        }
        let finding = only_of_report(|report| {
            report.denied = vec!["memfd-seals".to_owned(), "pidfd".to_owned()];
        });
        assert!(!finding.prevents && finding.what.contains("memfd-seals"), "{finding:?}");
        let finding = only(|host| {
            let why = Some("no such address".to_owned());
            host.listens.as_mut().unwrap().tcp = ListenPort { address: None, why };
        });
        assert!(finding.prevents && finding.change.contains("EGRET_LISTEN"), "{finding:?}");
    }

    #[test]
    fn a_machine_that_listens_on_loopback_is_found_if_others_miss_it() {
        let mut hosts = hosts(3);
        let address = Some(([127, 0, 0, 1], 40000).into());
        hosts[2].listens.as_mut().unwrap().tcp = ListenPort { address, why: None };
        let findings = judge(&hosts, &[pair(1, 2, Err("refused"), Ok(()))]);
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert!(finding.prevents && finding.change.contains("EGRET_LISTEN"), "{finding:?}");
        assert!(!finding.change.contains("firewall"), "{finding:?}");
        // As of node daemons of one machine.
        assert_eq!(judge(&hosts, &[pair(1, 2, Ok(()), Ok(()))]), []);
    }

    #[test]
    fn a_machine_that_many_miss_is_one_line() {
        let missed = |from| pair(from, 1, Err("no answer within 2 s"), Ok(()));
        let findings = judge(&hosts(7), &[2, 3, 4, 5, 6].map(missed));
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert!(finding.what.starts_with("b, c, d, e and 1 more → a: "), "{finding:?}");
        let from = "from 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5 and 1 more,";
        assert!(finding.change.contains(from), "{finding:?}");
    }
}
