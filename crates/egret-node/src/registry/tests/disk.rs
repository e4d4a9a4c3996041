//! A disk in memory, of a registry that is killed at any moment.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use egret_net::rt;
use egret_net::sync::Mutex;

use super::super::journal::{Disk, DiskFile};

/// The disk of one registry after the other.
#[derive(Clone, Default)]
pub(super) struct TrialDisk(Arc<Mutex<DiskState>>);

#[derive(Default)]
struct DiskState {
    log: Vec<u8>,
    snapshot: Vec<u8>,
    /// The registry that may write: those before are dead.
    owner: u64,
    /// Whether nothing more can be written.
    is_full: bool,
    /// Whether the registry dies in the middle of what it writes next, and whether that has happened.
    tears: bool,
    is_torn: bool,
}

/// The disk as one registry has it.
struct OwnedDisk {
    disk: TrialDisk,
    owner: u64,
}

impl TrialDisk {
    /// The disk for another registry; the one before writes nothing any more.
    pub(super) fn open(&self) -> Box<dyn Disk> {
        self.take();
        let mut state = self.0.lock();
        (state.is_full, state.tears, state.is_torn) = (false, false, false);
        Box::new(OwnedDisk { disk: self.clone(), owner: state.owner })
    }

    /// No registry writes anything from now on.
    pub(super) fn take(&self) {
        self.0.lock().owner += 1;
    }

    pub(super) fn set_full(&self, is_full: bool) {
        self.0.lock().is_full = is_full;
    }

    /// What is written next is torn.
    pub(super) fn tear(&self) {
        self.0.lock().tears = true;
    }

    /// Whether the registry is to die now: what it wrote last is torn.
    pub(super) fn is_torn(&self) -> bool {
        self.0.lock().is_torn
    }
}

impl DiskState {
    /// Writes a part of what was to be written, and sometimes a file of the right length whose rest is empty.
    fn write_torn(&mut self, at: usize, bytes: &[u8]) {
        let part = usize::try_from(rt::random() % bytes.len().max(1) as u64).unwrap();
        self.log.truncate(at);
        self.log.extend(&bytes[..part]);
        if rt::random().is_multiple_of(2) {
            self.log.resize(at + bytes.len(), 0);
        }
    }
}

impl Disk for OwnedDisk {
    fn read(&mut self, file: DiskFile) -> io::Result<Vec<u8>> {
        let state = self.disk.0.lock();
        Ok(match file {
            DiskFile::Log => state.log.clone(),
            DiskFile::Snapshot => state.snapshot.clone(),
        })
    }

    fn append(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        let mut state = self.disk.0.lock();
        if state.owner != self.owner || state.is_torn {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if state.is_full || state.tears {
            state.is_torn = state.tears;
            state.write_torn(at, bytes);
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.log.truncate(at);
        state.log.extend(bytes);
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        if state.owner != self.owner || state.is_full || state.is_torn {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.snapshot = bytes.to_vec();
        Ok(())
    }

    fn path(&self, file: DiskFile) -> PathBuf {
        format!("{file:?} in memory").into()
    }
}
