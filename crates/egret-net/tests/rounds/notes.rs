//! What a process has done before it was killed: the process notes it as it goes, in a file in
//! memory that its test keeps.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use egret_net::vi::Lane;
use rustix::fs::{MemfdFlags, memfd_create};

/// The file, in either process.
pub(crate) struct Notes(File);

/// What is counted of each lane of each connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Note {
    /// Messages that were sent.
    Sent,
    /// Messages that the sink has seen.
    Drained,
}

impl Notes {
    pub(crate) fn new() -> Self {
        Self(File::from(memfd_create("notes", MemfdFlags::CLOEXEC).unwrap()))
    }

    /// The same file, as what the process writes to.
    pub(crate) fn stdout(&self) -> Stdio {
        self.0.try_clone().unwrap().into()
    }

    /// Those of this process, which was started so.
    pub(crate) fn inherited() -> Self {
        Self(File::from(std::io::stdout().as_fd().try_clone_to_owned().unwrap()))
    }

    pub(crate) fn write(&self, connection: usize, lane: Lane, note: Note, count: u64) {
        self.0.write_all_at(&count.to_ne_bytes(), offset(connection, lane, note)).unwrap();
    }

    /// What was noted last; nothing if nothing was.
    pub(crate) fn read(&self, connection: usize, lane: Lane, note: Note) -> u64 {
        let mut count = [0; 8];
        // A file that ends before has no such note.
        let noted = self.0.read_exact_at(&mut count, offset(connection, lane, note));
        noted.map_or(0, |()| u64::from_ne_bytes(count))
    }
}

const fn offset(connection: usize, lane: Lane, note: Note) -> u64 {
    BEHIND + (connection as u64 * 4 + lane as u64 * 2 + note as u64) * 8
}

/// The harness of the process writes in front of this.
const BEHIND: u64 = 1 << 16;
