//! The machine and its system.

use std::fs;

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use serde::Serialize;

use egret_bench::machine::{allowed, processor};

/// What is known about the machine; a field is absent if it cannot be known.
#[derive(Debug, Serialize)]
pub(crate) struct MachineReport {
    pub(crate) processor: String,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    pub(crate) system: String,
    pub(crate) kernel: String,
    pub(crate) architecture: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_available_bytes: Option<u64>,
    /// That this process may lock, and with it register; absent if there is no
    /// such limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lockable_bytes: Option<u64>,
}

impl MachineReport {
    pub(crate) fn this() -> Self {
        let system = rustix::system::uname();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            processor: processor(),
            cores: allowed().map_or(0, |cores| cores.len()),
            system: system.sysname().to_string_lossy().into_owned(),
            kernel: system.release().to_string_lossy().into_owned(),
            architecture: std::env::consts::ARCH,
            memory_bytes: bytes_of(&memory, "MemTotal:"),
            memory_available_bytes: bytes_of(&memory, "MemAvailable:"),
            lockable_bytes: lockable(),
        }
    }
}

/// The limit that binds a process without the right to pass it.
fn lockable() -> Option<u64> {
    let free =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    getrlimit(Resource::Memlock).current.filter(|_| !free)
}

/// Reads `MemTotal:  1024 kB`.
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "MemTotal:       2048 kB\nMemFree:  1 kB\nHugePages_Total:   3\n";
        assert_eq!(bytes_of(text, "MemTotal:"), Some(2 << 20));
        assert_eq!(bytes_of(text, "HugePages_Total:"), None);
        assert_eq!(bytes_of(text, "MemAvailable:"), None);
    }
}
