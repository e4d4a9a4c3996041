//! Cores for processes.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores this process may use: first one thread of each, then the others, so that
/// processes share a core as late as can be.
pub(crate) fn in_turn() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("asking for the cores")?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core));
    Ok(spread(allowed.map(|core| (core, whole(core)))))
}

/// Keeps this process, and what it becomes, on `core`.
pub(crate) fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("pinning to core {core}"))
}

fn spread(threads: impl Iterator<Item = (usize, String)>) -> Vec<usize> {
    let (mut seen, mut first, mut rest) = (BTreeSet::new(), Vec::new(), Vec::new());
    for (thread, core) in threads {
        if seen.insert(core) { &mut first } else { &mut rest }.push(thread);
    }
    first.append(&mut rest);
    first
}

/// What the threads of one core have in common.
fn whole(core: usize) -> String {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    fs::read_to_string(path).unwrap_or_else(|_| core.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_core_come_late() {
        let threads = [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3"), (4, "4")];
        assert_eq!(spread(threads.map(|(t, c)| (t, c.to_owned())).into_iter()), [0, 1, 4, 2, 3]);
    }
}
