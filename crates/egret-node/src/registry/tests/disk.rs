//! A disk in memory, of a registry that is killed at any moment.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use egret_net::rt;
use egret_net::sync::Mutex;

use super::super::journal::{Disk, DiskFile};
use super::super::memory_disk::MemoryDisk;

/// The disk of one registry after the other, which may be full, and tear what is written.
#[derive(Clone, Default)]
pub(super) struct TrialDisk {
    memory: MemoryDisk,
    state: Arc<Mutex<DiskState>>,
}

#[derive(Clone, Copy, Default)]
struct DiskState {
    /// Whether nothing more can be written.
    is_full: bool,
    /// Whether the registry dies in the middle of what it writes next, and whether that has happened.
    tears: bool,
    is_torn: bool,
}

/// The disk as one registry has it.
struct FaultyDisk {
    memory: Box<dyn Disk>,
    state: Arc<Mutex<DiskState>>,
}

impl TrialDisk {
    /// The disk for another registry; the one before writes nothing any more.
    pub(super) fn open(&self) -> Box<dyn Disk> {
        *self.state.lock() = DiskState::default();
        Box::new(FaultyDisk { memory: self.memory.open(), state: Arc::clone(&self.state) })
    }

    /// No registry writes anything from now on.
    pub(super) fn take(&self) {
        self.memory.take();
    }

    pub(super) fn set_full(&self, is_full: bool) {
        self.state.lock().is_full = is_full;
    }

    /// What is written next is torn.
    pub(super) fn tear(&self) {
        self.state.lock().tears = true;
    }

    /// Whether the registry is to die now: what it wrote last is torn.
    pub(super) fn is_torn(&self) -> bool {
        self.state.lock().is_torn
    }
}

impl FaultyDisk {
    /// Writes a part of what was to be written, and sometimes a file of the right length whose rest is empty.
    fn append_torn(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let part = usize::try_from(rt::random() % bytes.len().max(1) as u64).unwrap();
        let mut torn = bytes[..part].to_vec();
        if rt::random().is_multiple_of(2) {
            torn.resize(bytes.len(), 0);
        }
        self.memory.append(at, &torn)
    }
}

impl Disk for FaultyDisk {
    fn read(&mut self, file: DiskFile) -> io::Result<Vec<u8>> {
        self.memory.read(file)
    }

    fn append(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let DiskState { is_full, tears, is_torn } = *self.state.lock();
        if is_torn {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if is_full || tears {
            self.append_torn(at, bytes)?;
            self.state.lock().is_torn = tears;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.memory.append(at, bytes)
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let DiskState { is_full, is_torn, .. } = *self.state.lock();
        if is_full || is_torn {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.memory.replace(bytes)
    }

    fn path(&self, file: DiskFile) -> PathBuf {
        self.memory.path(file)
    }
}
