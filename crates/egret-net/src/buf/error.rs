//! Why an operation on memory was refused.

use std::io;
use std::time::Duration;

use thiserror::Error;

use super::plain::Kind;

/// Why a region was not mapped, pinned or registered, a pool not built, a buffer not taken, given a
/// type or exposed: the limit that was met, and what raises it.
///
/// ```
/// use egret_net::buf::{MemoryError, Pool, Region};
///
/// assert!(matches!(Region::builder(0).map(), Err(MemoryError::EmptyRegion)));
/// assert!(matches!(Pool::builder().build(), Err(MemoryError::NoClass)));
///
/// let pool = Pool::new(64, 1)?;
/// let _only = pool.take(1)?;
/// assert!(matches!(pool.take(1), Err(MemoryError::Exhausted { class: 64, count: 1 })));
/// # Ok::<(), MemoryError>(())
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// A region of no bytes.
    #[error("a region needs at least one byte")]
    EmptyRegion,
    /// More than the address space or the memory of this machine.
    #[error(
        "cannot map {bytes} bytes: more than the address space or the memory there is; ask for \
         less, or raise `ulimit -v` or vm.overcommit_memory if they are what limits it"
    )]
    RegionTooLarge {
        /// Bytes asked for.
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
        /// Bytes to be locked.
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
        /// Its error.
        source: io::Error,
    },
    /// A pool without classes.
    #[error("a pool needs at least one class of buffers: `.class(bytes_each, count)`")]
    NoClass,
    /// A class without buffers, or with buffers without bytes.
    #[error("a class of {count} buffers of {bytes} bytes: both must be at least 1")]
    EmptyClass {
        /// The size of the class.
        bytes: usize,
        /// How many buffers it was to have.
        count: usize,
    },
    /// Two classes of the same size: the second would never be used.
    #[error("two classes of {bytes} bytes: put their buffers into one")]
    SameClass {
        /// The size of both.
        bytes: usize,
    },
    /// More buffers than a class can number.
    #[error("{count} buffers of {bytes} bytes are more than the {most} a class can have")]
    TooManyBuffers {
        /// The size of the class.
        bytes: usize,
        /// How many buffers it was to have.
        count: usize,
        /// How many it can have.
        most: usize,
    },
    /// All buffers of the class that fits are out. An outcome, not a failure.
    #[error(
        "all {count} buffers of {class} bytes are out: return some, or build the pool with more"
    )]
    Exhausted {
        /// The size of the class.
        class: usize,
        /// How many buffers the class has.
        count: usize,
    },
    /// No class of the pool has buffers that large.
    #[error("asked for {asked} bytes, and the pool's largest buffers have {largest}")]
    NoLargeClass {
        /// Bytes asked for.
        asked: usize,
        /// The size of the largest class.
        largest: usize,
    },
    /// All buffers of the class that fits stayed out until the deadline.
    #[error(
        "waited {waited:?} for one of {count} buffers of {class} bytes and none came back: return \
         some, or build the pool with more"
    )]
    TimedOut {
        /// The size of the class.
        class: usize,
        /// How many buffers the class has.
        count: usize,
        /// How long the call waited.
        waited: Duration,
    },
    /// The buffer received a message of other elements.
    #[error("elements of {sent} were sent, {asked} were asked for")]
    OtherType {
        /// The type that was sent.
        sent: Box<Kind>,
        /// The type that was asked for.
        asked: Box<Kind>,
    },
    /// The buffer starts between two places where an element can be.
    #[error(
        "the buffer starts at byte {offset} of its region, and the type wants a multiple of \
         {align}: split at a multiple of the alignment"
    )]
    Misaligned {
        /// Where the buffer starts.
        offset: usize,
        /// The alignment of the type.
        align: usize,
    },
    /// The buffer ends inside an element.
    #[error("{bytes} bytes are no whole number of elements of {element} bytes: resize it first")]
    Partial {
        /// The length of the buffer.
        bytes: usize,
        /// The length of an element.
        element: usize,
    },
    /// More memory than the nic registers.
    #[error(
        "cannot register {bytes} bytes: {registered} are registered, and the fabric allows {max}; \
         drop a registration, or register a smaller region"
    )]
    RegistrationLimit {
        /// Bytes of the region.
        bytes: u64,
        /// Bytes registered already.
        registered: u64,
        /// `limits().registrable_max`.
        max: u64,
    },
    /// A remote key must permit reading or writing.
    #[error("the access to expose permits neither reading nor writing: permit one of them")]
    NoAccess,
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
        let huge = MemoryError::HugePages { needed: 8, free: 3 }.to_string();
        assert!(huge.contains("8 huge pages") && huge.contains("3 are free"), "{huge}");
        assert!(huge.contains("vm.nr_hugepages"), "{huge}");
        let lock = MemoryError::LockLimit { bytes: 1 << 20, limit: Some(65536) }.to_string();
        assert!(lock.contains("1048576 bytes") && lock.contains("65536 bytes"), "{lock}");
        assert!(lock.contains("ulimit -l") && lock.contains("LimitMEMLOCK="), "{lock}");
        let unlimited = MemoryError::LockLimit { bytes: 1, limit: None }.to_string();
        assert!(unlimited.contains("memory itself ran out"), "{unlimited}");
    }
}
