//! On which machines the processes of a job run.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail};
use egret::node::settings::expand_node_list;
use serde::{Deserialize, Serialize};

/// A machine, and how many processes it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostSlots {
    pub(crate) host: String,
    pub(crate) slots: u32,
}

impl fmt::Display for HostSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, slots } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{slots}"),
            false => write!(f, "{host}:{slots}"),
        }
    }
}

/// Some processes of a job, and the machine that they run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobPlace {
    /// `None` is this machine.
    pub(crate) host: Option<String>,
    pub(crate) ranks: Range<u32>,
}

/// Reads `a`, `a:2`, `user@a:2` or `[fe80::1]:2`.
pub(crate) fn parse(text: &str) -> Result<HostSlots, String> {
    let text = text.trim();
    let (host, slots) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((host, slots)) if !slots.contains(':') => (host, Some(slots)),
            _ => (text, None),
        },
    };
    // What begins with a dash would be an option of ssh.
    let is_host = !host.is_empty() && !host.starts_with('-') && !host.contains(char::is_whitespace);
    if !is_host {
        return Err(format!("{text:?} names no machine; one is `a`, `a:2` or `user@a:2`"));
    }
    let slots = slots.map_or(Ok(1), |slots| slots_of(host, slots))?;
    Ok(HostSlots { host: host.to_owned(), slots })
}

fn slots_of(host: &str, text: &str) -> Result<u32, String> {
    let slots = text.parse().ok().filter(|slots| (1..=SLOTS_MAX).contains(slots));
    slots.ok_or_else(|| {
        format!("{host} cannot take {text:?} processes: a number from 1 to {SLOTS_MAX} is wanted")
    })
}

/// Reads a file with a line for each machine: `a`, `a:2`, `a slots=2`; what follows `#` is a comment.
pub(crate) fn of_file(path: &Path) -> Result<Vec<HostSlots>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("reading the machines of {}", path.display()))?;
    let lines = text
        .lines()
        .zip(1..)
        .map(|(line, number)| (line.split('#').next().unwrap_or_default().trim(), number));
    let hosts = lines.filter(|(line, _)| !line.is_empty()).map(|(line, number)| {
        of_line(line).map_err(|why| anyhow::anyhow!("{}, line {number}: {why}", path.display()))
    });
    let hosts = hosts.collect::<Result<Vec<_>>>()?;
    if hosts.is_empty() {
        bail!("{} names no machine", path.display());
    }
    Ok(hosts)
}

fn of_line(line: &str) -> Result<HostSlots, String> {
    let mut words = line.split_whitespace();
    let host = parse(words.next().unwrap_or_default())?;
    match (words.next().map(|word| word.strip_prefix("slots=").unwrap_or(word)), words.next()) {
        (None, _) => Ok(host),
        (Some(slots), None) => {
            let slots = slots_of(&host.host, slots)?;
            Ok(HostSlots { slots, ..host })
        }
        (_, Some(word)) => Err(format!("{word:?} is not understood; a line is `a` or `a slots=2`")),
    }
}

/// The machines of the allocation of Slurm that this process is in, with the tasks that each has; `None` outside of one, if
/// it is this machine alone, and in a step of it, which `srun` has started as often as it was to.
pub(crate) fn of_slurm(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Vec<HostSlots>>> {
    let Some(list) = variable("SLURM_JOB_NODELIST") else { return Ok(None) };
    let step = variable("SLURM_STEP_ID").and_then(|step| step.parse::<u32>().ok());
    if step.is_some_and(|step| step < SLURM_STEPS) {
        return Ok(None);
    }
    let hosts = expand_node_list(&list)
        .with_context(|| format!("SLURM_JOB_NODELIST={list} is not understood"))?;
    if hosts.len() == 1 && is_here(&hosts[0]) {
        return Ok(None);
    }
    let tasks = variable("SLURM_TASKS_PER_NODE").or_else(|| variable("SLURM_JOB_CPUS_PER_NODE"));
    let tasks = tasks.context(
        "SLURM_TASKS_PER_NODE is not set, so it is not known how many processes each machine of the allocation takes: say \
         --host a:2,b:2",
    )?;
    let slots = counts(&tasks, hosts.len()).with_context(|| {
        let count = hosts.len();
        format!("SLURM_TASKS_PER_NODE={tasks} is not understood: as 2(x3),1 for the {count} machines is expected")
    })?;
    Ok(Some(hosts.into_iter().zip(slots).map(|(host, slots)| HostSlots { host, slots }).collect()))
}

/// The numbers of `2(x3),1`, of which there are so many.
fn counts(text: &str, hosts: usize) -> Option<Vec<u32>> {
    let mut counts = Vec::new();
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        let count = count.parse::<u32>().ok().filter(|count| (1..=SLOTS_MAX).contains(count))?;
        counts.extend(std::iter::repeat_n(count, usize::min(times, HOSTS_MAX)));
    }
    (counts.len() == hosts).then_some(counts)
}

/// Gives `processes` ranks to the machines, in their order; all to this machine if none is named.
pub(crate) fn places(hosts: &[HostSlots], processes: u32) -> Result<Vec<JobPlace>, String> {
    if hosts.is_empty() {
        return Ok(vec![JobPlace { host: None, ranks: 0..processes }]);
    }
    let all: u64 = hosts.iter().map(|host| u64::from(host.slots)).sum();
    if u64::from(processes) > all {
        return Err(format!(
            "the machines take {all} processes, and {processes} are to run: `a:2` says that a takes 2"
        ));
    }
    let (mut seen, mut next, mut placed) = (BTreeSet::new(), 0, Vec::new());
    for HostSlots { host, slots } in hosts {
        let host = (!is_here(host)).then(|| host.clone());
        if !seen.insert(host.clone()) {
            let name = host.as_deref().unwrap_or("this machine");
            return Err(format!(
                "{name} is named twice: name it once, with all processes that it takes"
            ));
        }
        let ranks = next..processes.min(next + slots);
        next = ranks.end;
        if !ranks.is_empty() {
            placed.push(JobPlace { host, ranks });
        }
    }
    Ok(placed)
}

/// Whether the name is one of this machine, which needs no ssh: Slurm may have one of its own.
fn is_here(host: &str) -> bool {
    let system = rustix::system::uname();
    let in_slurm = std::env::var(SLURM_HERE).ok();
    host == "localhost"
        || in_slurm.is_some_and(|name| name == host)
        || system.nodename().to_str().is_ok_and(|name| name == host)
}

/// The name that Slurm has for this machine.
const SLURM_HERE: &str = "SLURMD_NODENAME";

/// Numbers of steps from here on are those of Slurm itself: the shell of `salloc`, and the script of `sbatch`.
const SLURM_STEPS: u32 = 0xffff_fff0;
/// Machines of one job.
const HOSTS_MAX: usize = 10_000;
/// Processes that one machine takes.
const SLOTS_MAX: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn host(host: &str, slots: u32) -> HostSlots {
        HostSlots { host: host.to_owned(), slots }
    }

    #[test]
    fn machines_are_read() {
        for (text, name, slots) in [
            ("a", "a", 1),
            ("a:2", "a", 2),
            ("me@a.b-c:16", "me@a.b-c", 16),
            ("10.0.0.7:3", "10.0.0.7", 3),
            ("[fe80::1]:2", "fe80::1", 2),
            ("fe80::1", "fe80::1", 1),
        ] {
            let read = parse(text).unwrap();
            assert_eq!(read, host(name, slots), "{text}");
            assert_eq!(parse(&read.to_string()).unwrap(), read, "{text}");
        }
        for text in ["", ":2", "a:", "a:0", "a:x", "a:5000", "-oProxyCommand=x", "a b", "[]:2"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_line_of_a_file_names_a_machine() {
        assert_eq!(of_line("a slots=2").unwrap(), host("a", 2));
        assert_eq!(of_line("a 3").unwrap(), host("a", 3));
        assert_eq!(of_line("fe80::1 slots=2").unwrap(), host("fe80::1", 2));
        assert_eq!(of_line("2001:db8:0:1::5 slots=2").unwrap(), host("2001:db8:0:1::5", 2));
        assert!(of_line("a slots=2 max=3").is_err() && of_line("a two").is_err());
    }

    #[test]
    fn machines_of_slurm_are_read() {
        assert_eq!(counts("2(x3),1", 4).unwrap(), [2, 2, 2, 1]);
        assert!(counts("2", 2).is_none() && counts("", 0).is_none() && counts("2(x", 2).is_none());

        let of = |all: &[(&str, &str)]| {
            let all: std::collections::BTreeMap<_, _> = all.iter().copied().collect();
            of_slurm(|name| all.get(name).map(|value| (*value).to_owned()))
        };
        let (list, tasks) = (("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_TASKS_PER_NODE", "2(x2)"));
        assert_eq!(of(&[list, tasks]).unwrap().unwrap(), [host("n1", 2), host("n2", 2)]);
        assert_eq!(of(&[list, tasks, ("SLURM_STEP_ID", "0")]).unwrap(), None);
        let shell = ("SLURM_STEP_ID", "4294967290");
        assert_eq!(of(&[list, tasks, shell]).unwrap().map(|hosts| hosts.len()), Some(2));
        let one = [("SLURM_JOB_NODELIST", "n1"), ("SLURM_TASKS_PER_NODE", "3")];
        assert_eq!(of(&one).unwrap().unwrap(), [host("n1", 3)]);
        assert_eq!(of(&[("SLURM_JOB_NODELIST", "localhost")]).unwrap(), None);
        assert_eq!(of(&[]).unwrap(), None);
        assert!(of(&[list]).is_err());
    }

    #[test]
    fn ranks_fill_the_machines_in_their_order() {
        let place = |host: Option<&str>, ranks| JobPlace { host: host.map(str::to_owned), ranks };
        assert_eq!(places(&[], 3).unwrap(), [place(None, 0..3)]);
        let hosts = [host("b", 2), host("localhost", 1), host("c", 4)];
        assert_eq!(
            places(&hosts, 5).unwrap(),
            [place(Some("b"), 0..2), place(None, 2..3), place(Some("c"), 3..5)]
        );
        assert_eq!(places(&hosts, 1).unwrap(), [place(Some("b"), 0..1)]);
        assert!(places(&hosts, 8).unwrap_err().contains("take 7 processes"));
        assert!(places(&[host("b", 1), host("b", 1)], 1).unwrap_err().contains("named twice"));
    }
}
