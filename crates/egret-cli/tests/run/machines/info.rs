//! `egret info --hosts` about machines that ssh reaches.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use rustix::process::Signal;
use serde_json::Value;

use super::lab::{HOSTS, Machines};
use super::slurm::SlurmCluster;
use crate::job::{code, kill, text};

/// This machine and the two others, each with processes of the job.
fn all() -> String {
    format!("localhost,{},{}", HOSTS[1], HOSTS[2])
}

/// What is known about the machines.
fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

/// What there is to change, and whether it prevents a job.
fn findings(info: &Value) -> Vec<(bool, String)> {
    let findings = info["findings"].as_array().expect("findings").iter();
    let text = |finding: &Value| format!("{}; {}", finding["what"], finding["change"]);
    findings.map(|finding| (finding["prevents"] == true, text(finding))).collect()
}

/// What a pair has of tcp or udp.
fn way<'a>(info: &'a Value, from: usize, to: usize, protocol: &str) -> &'a Value {
    let pairs = info["pairs"].as_array().expect("pairs").iter();
    let mut pairs = pairs.filter(|pair| pair["from"] == from && pair["to"] == to);
    &pairs.next().unwrap_or_else(|| panic!("no pair {from}, {to} in {info}"))[protocol]
}

/// A check that finds nothing is right: a job runs.
#[test]
fn machines_where_all_is_well_run_a_job() {
    let Some(machines) = Machines::make() else { return };
    let output = machines.info(&all(), &["--json"]).end();
    let info = object(&output);
    assert!(code(&output) == 0 && info["runs"] == true, "{info}");
    for (number, host) in HOSTS.iter().enumerate() {
        let found = &info["hosts"][number];
        assert_eq!(found["here"], number == 0, "{info}");
        assert_eq!(found["report"]["egret"], env!("CARGO_PKG_VERSION"), "{info}");
        let address = found["listens"]["tcp"]["address"].as_str().unwrap();
        assert!(address.starts_with(&format!("{host}:")), "{info}");
        assert_eq!(found["clock"]["ahead_us"].is_i64(), number > 0, "{info}");
        for other in (0..HOSTS.len()).filter(|other| *other != number) {
            assert_eq!(way(&info, number, other, "tcp")["reached"], true, "{info}");
            assert_eq!(way(&info, number, other, "udp")["reached"], true, "{info}");
        }
    }
    let said = machines.info(&all(), &[]).end();
    let said = text(&said.stdout);
    assert!(said.ends_with("A job runs on these 3 machines.\n"), "{said}");
    let output = machines.job(&all(), &["true"]).end();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    machines.nothing_left();
}

#[test]
fn a_machine_that_is_not_reached_is_a_line() {
    let Some(machines) = Machines::make() else { return };
    machines.set_cable(2, false);
    let output = machines.info(&all(), &["--json"]).end();
    let info = object(&output);
    let [(true, line)] = &findings(&info)[..] else { panic!("{info}") };
    assert!(line.contains(HOSTS[2]) && line.contains("connect to host"), "{line}");
    assert_eq!(way(&info, 0, 1, "tcp")["reached"], true, "{info}");
    assert_eq!((code(&output), &info["runs"]), (1, &Value::Bool(false)));
    machines.set_cable(2, true);
    for (egret, said) in [
        ("/bin/true", "ssh ended before"),
        ("/bin/cat", "info-host: No such file"),
        ("/bin/echo", "it began with"),
        ("/no/egret", "--egret PATH"),
    ] {
        let output = machines.info(HOSTS[1], &["--json", "--egret", egret]).end();
        let info = object(&output);
        let [(true, line)] = &findings(&info)[..] else { panic!("{info}") };
        assert!(code(&output) == 1 && line.contains(said), "{egret}: {line}");
    }
    let output = machines.info(&format!("{0},{0}", HOSTS[1]), &[]).end();
    let said = text(&output.stderr);
    assert!(code(&output) == 2 && said.contains("is named twice"), "{said}");
    machines.nothing_left();
}

/// New connections from one machine to another are dropped, and those from a third refused.
#[test]
fn a_firewall_between_two_machines_is_found() {
    let Some(machines) = Machines::make() else { return };
    let rules = format!(
        "add table inet wall; add chain inet wall input {{ type filter hook input priority 0; }}; \
         add rule inet wall input ip saddr {} tcp dport != 22 ct state new drop; \
         add rule inet wall input ip saddr {} tcp dport != 22 ct state new reject with tcp reset; \
         add rule inet wall input ip saddr {} meta l4proto udp ct state new drop",
        HOSTS[1], HOSTS[0], HOSTS[1]
    );
    let output = machines.command_on(2, "nft").arg(&rules).output();
    if !output.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no firewall here (Debian: nftables): {output:?}");
        return;
    }
    let output = machines.info(&all(), &["--json"]).end();
    let info = object(&output);
    assert_eq!((code(&output), &info["runs"]), (1, &Value::Bool(false)), "{info}");
    let dropped = "no answer within 2 s";
    for (from, to, protocol, why) in [
        (1, 2, "tcp", Some(dropped)),
        (1, 2, "udp", Some(dropped)),
        (0, 2, "tcp", Some("refused")),
        (0, 2, "udp", None),
        (2, 0, "tcp", None),
        (2, 1, "tcp", None),
        (0, 1, "tcp", None),
        (1, 0, "udp", None),
    ] {
        let way = way(&info, from, to, protocol);
        assert_eq!(way["why"].as_str(), why, "{from} to {to} by {protocol}: {info}");
        assert_eq!(way["reached"], why.is_none(), "{from} to {to} by {protocol}: {info}");
    }
    let findings = findings(&info);
    let line = |has: &str| {
        let found = findings.iter().find(|(_, line)| line.contains(has));
        found.unwrap_or_else(|| panic!("no {has} in {findings:?}"))
    };
    let (prevents, said) = line(&format!("{} → {}: tcp {dropped}", HOSTS[1], HOSTS[2]));
    assert!(*prevents && said.contains(&format!("from {}", HOSTS[1])), "{said}");
    assert!(line(&format!("this machine → {}: tcp refused", HOSTS[2])).0);
    assert!(!line(&format!("{} → {}: udp {dropped}", HOSTS[1], HOSTS[2])).0);
    machines.nothing_left();
}

/// `ssh` with other limits on the other machine, as a script that a user has.
#[test]
fn low_limits_of_a_machine_are_found() {
    let Some(machines) = Machines::make() else { return };
    let script = format!(
        "#!/bin/sh\nhost=$1; shift\nexec ssh -F {} \"$host\" \"ulimit -n 64; $*\"\n",
        machines.path("config")
    );
    let path = machines.path("low");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let hosts = format!("localhost,{}", HOSTS[1]);
    let output = machines.info_by(&path, &hosts, &["--json"]).end();
    let info = object(&output);
    let [(false, line)] = &findings(&info)[..] else { panic!("{info}") };
    assert!(line.contains(&format!("{}: 64 open files", HOSTS[1])), "{line}");
    assert_eq!((code(&output), &info["runs"]), (0, &Value::Bool(true)), "{info}");
    machines.nothing_left();
}

/// Something that never answers is not waited for longer than a step lasts, and what is killed leaves nothing.
#[test]
fn nothing_stays_on_any_machine_after_a_check() {
    let Some(machines) = Machines::make() else { return };
    let sleeps = machines.path("sleeps");
    fs::write(&sleeps, "#!/bin/sh\nexec sleep 300\n").unwrap();
    fs::set_permissions(&sleeps, fs::Permissions::from_mode(0o755)).unwrap();
    let output = machines.info(HOSTS[1], &["--json", "--egret", &sleeps]).end();
    let info = object(&output);
    let [(true, line)] = &findings(&info)[..] else { panic!("{info}") };
    assert!(code(&output) == 1 && line.contains("did not answer within"), "{line}");
    // A program that never reads goes on at its machine, as with ssh by hand.
    machines.processes(1).iter().for_each(|(pid, _)| kill(*pid, Signal::KILL));
    machines.nothing_left();
    for (machine, has) in [(0, "info --hosts"), (0, "ssh -F"), (1, "info-host"), (0, " info-host")]
    {
        // The third machine keeps the check from its end until one was killed.
        machines.set_cable(2, false);
        let job = machines.info(&all(), &["--json"]);
        kill(machines.process(machine, has), Signal::KILL);
        machines.set_cable(2, true);
        job.end();
        machines.nothing_left();
    }
}

#[test]
fn the_machines_of_an_allocation_are_checked() {
    let Some(cluster) = SlurmCluster::make("info") else { return };
    let output = cluster.job((4, 1), &["info", "--hosts", "--json"]).end();
    let info = object(&output);
    assert!(code(&output) == 0 && info["runs"] == true, "{info}");
    let hosts = info["hosts"].as_array().unwrap();
    let names: Vec<_> = hosts.iter().map(|host| host["host"].as_str().unwrap()).collect();
    assert_eq!(names, ["this machine", "n1", "n2", "n3", "n4"]);
    assert!(hosts[1..].iter().all(|host| host["in_job"] == true), "{info}");
    // No process of the job is where the allocation was asked for.
    assert_eq!(
        (&hosts[0]["in_job"], info["pairs"].as_array().unwrap().len()),
        (&Value::Bool(false), 16)
    );
}
