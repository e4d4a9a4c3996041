//! Where a benchmark runs.

use std::fs;
use std::io::{self, Write};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores for the two processes of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BenchCores {
    pub(crate) leader: usize,
    pub(crate) follower: usize,
}

impl BenchCores {
    /// Two of the cores this process may use, not two threads of one core if
    /// that can be helped; `None` if there is only one.
    pub(crate) fn choose() -> Result<Option<Self>> {
        let allowed = allowed()?;
        let Some((&leader, others)) = allowed.split_first() else { return Ok(None) };
        let siblings = siblings(leader);
        let apart = others.iter().find(|core| !siblings.contains(core)).or(others.first());
        Ok(apart.map(|&follower| Self { leader, follower }))
    }
}

/// Keeps the calling process on `cores`.
pub(crate) fn pin(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).with_context(|| format!("pinning to cores {cores:?}"))
}

/// Lets this process have as many descriptors as it may.
pub(crate) fn open_many() {
    let limits = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}

/// Says on stderr what makes the figures worth less.
pub(crate) fn warn(what: &str) {
    let _ = writeln!(io::stderr(), "egret bench: warning: {what}");
}

/// Says so if other processes want the cores just now.
pub(crate) fn warn_of_others() {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    if let Some(others) = running(&load).map(|all| all.saturating_sub(1)).filter(|n| *n > 0) {
        warn(&format!("{others} other threads want the cores; the figures mean little"));
    }
}

/// Reads the 2 in `0.20 0.18 0.12 2/80 11206`.
fn running(load: &str) -> Option<u32> {
    load.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

/// What this machine is, for the first line of a report.
pub(crate) fn facts() -> String {
    let cores = allowed().map_or(0, |cores| cores.len());
    let plural = if cores == 1 { "" } else { "s" };
    let system = rustix::system::uname();
    let kernel = system.sysname().to_string_lossy();
    let release = system.release().to_string_lossy();
    let build = if cfg!(debug_assertions) { ", unoptimized build" } else { "" };
    format!("{}, {cores} core{plural}, {kernel} {release}{build}", processor())
}

/// The cores this process may use.
///
/// # Errors
///
/// If the system does not tell.
pub fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("asking for the cores")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
}

/// `core` and the threads that share it.
fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    fs::read_to_string(path).map_or_else(|_| vec![core], |list| parse_cores(&list))
}

/// Reads `0,4` and `0-3`.
fn parse_cores(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// The processor's name.
#[must_use]
pub fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_read() {
        assert_eq!(running("0.20 0.18 0.12 12/80 11206\n"), Some(12));
        assert_eq!(running("nothing"), None);
    }

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(parse_cores("0,4\n"), [0, 4]);
        assert_eq!(parse_cores("2-4,7"), [2, 3, 4, 7]);
        assert_eq!(parse_cores(""), [0; 0]);
    }
}
