//! A disk in memory, for registries of simulated worlds.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use egret_net::sync::Mutex;

use super::journal::{Disk, DiskFile};

/// The disk of one registry after the other, each on the same simulated machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryDisk(Arc<Mutex<MemoryFiles>>);

#[derive(Debug, Default)]
struct MemoryFiles {
    log: Vec<u8>,
    snapshot: Vec<u8>,
    /// The number of the registry that may write: those before are dead.
    owner: u64,
}

/// The disk as one registry has it.
struct OwnedDisk {
    disk: MemoryDisk,
    owner: u64,
}

impl MemoryDisk {
    /// The disk for another registry.
    pub(super) fn open(&self) -> Box<dyn Disk> {
        self.take();
        Box::new(OwnedDisk { disk: self.clone(), owner: self.0.lock().owner })
    }

    /// The log, for a look at it.
    #[cfg(test)]
    pub(super) fn log(&self) -> Vec<u8> {
        self.0.lock().log.clone()
    }

    /// The registry is dead: it writes nothing from now on.
    pub(crate) fn take(&self) {
        self.0.lock().owner += 1;
    }
}

impl OwnedDisk {
    fn write(&self, write: impl FnOnce(&mut MemoryFiles)) -> io::Result<()> {
        let mut files = self.disk.0.lock();
        if files.owner != self.owner {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        write(&mut files);
        Ok(())
    }
}

impl Disk for OwnedDisk {
    fn read(&mut self, file: DiskFile) -> io::Result<Vec<u8>> {
        let files = self.disk.0.lock();
        Ok(match file {
            DiskFile::Log => files.log.clone(),
            DiskFile::Snapshot => files.snapshot.clone(),
        })
    }

    fn append(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(|files| {
            files.log.truncate(usize::try_from(at).unwrap_or(usize::MAX));
            files.log.extend(bytes);
        })
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(|files| bytes.clone_into(&mut files.snapshot))
    }

    fn path(&self, file: DiskFile) -> PathBuf {
        format!("{file:?} in memory").into()
    }
}
