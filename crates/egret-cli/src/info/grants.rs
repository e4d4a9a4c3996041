//! What the kernel grants of what shared memory uses: each is tried.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use egret::fabric::shm::ShmFabric;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::thread::{MembarrierCommand, membarrier};
use serde::Serialize;

use super::attempt::InfoPeer;

/// Something of the kernel's, and whether it was had.
#[derive(Debug, Serialize)]
pub(crate) struct Grant {
    pub(crate) name: &'static str,
    pub(crate) granted: bool,
    /// What was in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

impl Grant {
    pub(crate) fn of(name: &'static str, tried: Result<()>) -> Self {
        let why = tried.err().map(|error| format!("{error:#}"));
        Self { name, granted: why.is_none(), why }
    }
}

/// Tries all of them.
pub(crate) fn all() -> Vec<Grant> {
    let mut second = InfoPeer::start().map_err(|error| format!("{error:#}"));
    let mut with = |tried: fn(&mut InfoPeer) -> Result<()>| match &mut second {
        Ok(second) => tried(second),
        Err(why) => bail!("no second process to try it with: {why}"),
    };
    vec![
        Grant::of(MEMFD_SEALS, memfd_seals()),
        Grant::of(PEERCRED, with(InfoPeer::peercred)),
        Grant::of(PEERPIDFD, with(InfoPeer::peerpidfd)),
        Grant::of(MEMBARRIER, private_expedited()),
        Grant::of(MEMBARRIER_GLOBAL, global_expedited()),
        Grant::of(PROCESS_VM_READV, with(InfoPeer::process_vm_readv).map_err(with_yama)),
        // Last: it takes the second process's life.
        Grant::of(PIDFD, with(InfoPeer::pidfd)),
    ]
}

/// A file in memory that, once sealed, takes no more writers and keeps its size.
fn memfd_seals() -> Result<()> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("egret-info", flags).context("memfd_create")?;
    rustix::fs::ftruncate(&file, 4096).context("ftruncate")?;
    let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals).context("sealing")?;
    ensure!(rustix::fs::fcntl_get_seals(&file)? == seals, "the seals are not those asked for");
    ensure!(rustix::io::pwrite(&file, b"x", 0).is_err(), "a sealed file was written");
    ensure!(rustix::fs::ftruncate(&file, 0).is_err(), "a sealed file was cut off");
    Ok(())
}

fn private_expedited() -> Result<()> {
    membarrier(MembarrierCommand::RegisterPrivateExpedited).context("registering")?;
    membarrier(MembarrierCommand::PrivateExpedited).context("membarrier")
}

/// The kernel says why it denies the fence; the fabric says what it has made of that.
fn global_expedited() -> Result<()> {
    membarrier(MembarrierCommand::RegisterGlobalExpedited).context("registering")?;
    membarrier(MembarrierCommand::GlobalExpedited).context("membarrier")?;
    ensure!(ShmFabric::sleepers_fence(), "it was denied before, and shm does without");
    Ok(())
}

/// Adds the setting that most often is the reason.
fn with_yama(error: anyhow::Error) -> anyhow::Error {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "" | "0" => error,
        scope => error.context(format!("kernel.yama.ptrace_scope is {scope}")),
    }
}

pub(crate) const MEMFD_SEALS: &str = "memfd-seals";
pub(crate) const PEERCRED: &str = "so-peercred";
pub(crate) const PEERPIDFD: &str = "so-peerpidfd";
pub(crate) const PIDFD: &str = "pidfd";
pub(crate) const MEMBARRIER: &str = "membarrier";
/// Over processes, and not over the threads of one alone.
pub(crate) const MEMBARRIER_GLOBAL: &str = "membarrier-global";
pub(crate) const PROCESS_VM_READV: &str = "process-vm-readv";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_printed_with_their_cause() {
        let cause = anyhow::Error::new(rustix::io::Errno::PERM).context("sealing");
        let grant = Grant::of("seals", Err(cause));
        assert!(!grant.granted);
        assert_eq!(grant.why.unwrap(), "sealing: Operation not permitted (os error 1)");
        assert!(Grant::of("seals", Ok(())).granted);
    }
}
