//! Why memory could not be had.

use std::io;

use thiserror::Error;

/// Why a region could not be mapped or pinned: the limit that was met, and the
/// setting that raises it.
///
/// ```
/// use egret_net::buf::{Region, RegionError};
///
/// assert!(matches!(Region::builder(0).map(), Err(RegionError::Empty)));
/// let error = Region::builder(usize::MAX / 4).map().unwrap_err();
/// assert!(error.to_string().contains("address space"));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegionError {
    /// A region of no bytes.
    #[error("a region needs at least one byte")]
    Empty,
    /// More than the address space or the memory of this machine.
    #[error(
        "cannot map {bytes} bytes: more than the address space or the memory there is; ask for \
         less, or raise `ulimit -v` or vm.overcommit_memory if they are what limits it"
    )]
    TooLarge {
        /// What was asked for.
        bytes: usize,
    },
    /// The machine has too few huge pages in reserve.
    #[error(
        "needs {needed} huge pages of 2 MiB and {free} are free: raise the reserve with `sysctl \
         vm.nr_hugepages` by the difference at least, or do without huge pages"
    )]
    HugePages {
        /// Pages the region needs.
        needed: usize,
        /// Pages the machine has free (`HugePages_Free` in `/proc/meminfo`).
        free: usize,
    },
    /// The process may not lock that much memory.
    #[error(
        "cannot lock {bytes} bytes: the limit for all locked memory of this process is {}; raise \
         it with `ulimit -l` (in KiB) or the service's `LimitMEMLOCK=`, or do without locking",
        show_limit(*.limit)
    )]
    LockLimit {
        /// What was to be locked.
        bytes: usize,
        /// The soft limit `RLIMIT_MEMLOCK` in bytes; `None` if there is none,
        /// and memory itself ran out.
        limit: Option<u64>,
    },
    /// The operating system refused for a reason of its own.
    #[error("{call} failed: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// What it answered.
        source: io::Error,
    },
}

/// Why a peer's memory was not mapped to be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum AdoptError {
    /// The peer could make it shorter under us.
    #[error("the size of the peer's memory file is not final: it must be sealed before it is sent")]
    Unsealed,
    /// Not whole pages, or more than it may have us map.
    #[error(
        "the peer's memory file has {bytes} bytes; whole pages, and at most {max}, are allowed"
    )]
    Size { bytes: u64, max: u64 },
    /// The operating system refused.
    #[error("{call} of the peer's memory file failed: {source}")]
    System { call: &'static str, source: io::Error },
}

fn show_limit(limit: Option<u64>) -> String {
    match limit {
        Some(bytes) => format!("{bytes} bytes"),
        None => "unlimited, so memory itself ran out".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_limit_and_the_setting() {
        let huge = RegionError::HugePages { needed: 8, free: 3 }.to_string();
        assert!(huge.contains("8 huge pages") && huge.contains("3 are free"), "{huge}");
        assert!(huge.contains("vm.nr_hugepages"), "{huge}");
        let lock = RegionError::LockLimit { bytes: 1 << 20, limit: Some(65536) }.to_string();
        assert!(lock.contains("1048576 bytes") && lock.contains("65536 bytes"), "{lock}");
        assert!(lock.contains("ulimit -l") && lock.contains("LimitMEMLOCK="), "{lock}");
        let unlimited = RegionError::LockLimit { bytes: 1, limit: None }.to_string();
        assert!(unlimited.contains("memory itself ran out"), "{unlimited}");
    }
}
