//! Buffers that change hands come home once, whatever happens to whom.

mod loans;
mod model;
mod orders;
pub(super) mod peers;
mod planted;
mod processes;
mod reaper;
mod returns;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::foreign_of;
use crate::buf::{Buf, Pool};
use crate::fabric::shm::cooperating::lent::LentBuffers;
use crate::fabric::shm::cooperating::received::ReceivedBuffers;
use crate::fabric::shm::cooperating::returns::{LENT_MAX, bytes};
use crate::fabric::shm::memory::OwnMemory;
use crate::rt::{self, Deadline};

const SMALL: usize = 64;
const LARGE: usize = 256;
/// Slots of each size.
const EACH: usize = 4;
const REGION: u16 = 3;

/// A home and its visitor in one process. What stands for the visitor's life is
/// a socket, readable when it is over.
struct Rig {
    pool: Pool,
    loans: LentBuffers,
    visiting: ReceivedBuffers,
    life: UnixStream,
    returns: OwnMemory,
}

impl Rig {
    fn new() -> Self {
        Self::of(pool())
    }

    fn of(pool: Pool) -> Self {
        let returns = OwnMemory::new(bytes(LENT_MAX)).unwrap();
        let (life, watched) = UnixStream::pair().unwrap();
        let watched = OwnedFd::from(watched);
        let loans = LentBuffers::new(watched, foreign_of(&returns), 0).unwrap();
        let mut visiting = ReceivedBuffers::new(returns.clone(), 0, || ());
        announce(&pool, &mut visiting);
        Self { pool, loans, visiting, life, returns }
    }

    /// A buffer of the home that is now the visitor's.
    fn hand(&mut self, len: usize) -> Buf {
        let ticket = self.loans.lend(REGION, self.pool.take(len).unwrap()).unwrap();
        self.visiting.arrived(ticket).unwrap()
    }

    fn die(&mut self) {
        self.life.write_all(&[0]).unwrap();
    }
}

fn pool() -> Pool {
    Pool::builder().class(SMALL, EACH).class(LARGE, EACH).cooperating().build().unwrap()
}

fn announce(pool: &Pool, visiting: &mut ReceivedBuffers) {
    let buf = pool.take(1).unwrap();
    let (fd, plan) = LentBuffers::announcement(&buf).unwrap();
    let fd = fd.try_clone_to_owned().unwrap();
    visiting.announced(REGION, &fd, &plan, 1 << 20).unwrap();
}

/// All buffers are home, and each once.
fn assert_all_home(pool: &Pool) {
    for bytes in [SMALL, LARGE] {
        let all: Vec<Buf> = (0..EACH).map(|_| pool.take(bytes).unwrap()).collect();
        let places: BTreeSet<usize> = all.iter().map(Buf::offset_in_region).collect();
        assert_eq!(places.len(), EACH, "a slot came home twice");
        assert!(pool.take(bytes).is_err(), "more came home than there are");
    }
}

/// Waits for what another thread or process does.
pub(super) fn until(mut is_so: impl FnMut() -> bool, what: &str) {
    let end = Deadline::In(Duration::from_secs(10)).until();
    while !is_so() {
        assert!(Some(rt::now()) < end, "in vain: {what}");
        rt::sleep(Duration::from_micros(200));
    }
}

/// The file behind a cooperating pool, by the kernel's number.
pub(super) fn inode(pool: &Pool) -> u64 {
    rustix::fs::fstat(pool.region().cooperating_fd().unwrap()).unwrap().st_ino
}

/// Whether this process maps the file or has it open.
pub(super) fn has_file(inode: u64) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let number = inode.to_string();
    // Other files, and those of other tests, may have its number somewhere, too.
    let is_it = |line: &str| {
        line.contains("egret-region") && line.split_whitespace().nth(4) == Some(&number)
    };
    let is_region = |fd: &fs::DirEntry| {
        fs::read_link(fd.path()).is_ok_and(|name| name.to_string_lossy().contains("egret-region"))
    };
    let mut open = fs::read_dir("/proc/self/fd").unwrap().flatten().filter(is_region);
    maps.lines().any(is_it)
        || open.any(|fd| fs::metadata(fd.path()).is_ok_and(|file| file.ino() == inode))
}
