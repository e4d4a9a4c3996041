//! What a registry reads of a log that is damaged, torn, or full of what looks like a log.

use std::io;
use std::path::PathBuf;

use egret_net::fabric::sim::Sim;

use super::super::journal::{Disk, DiskFile, Journal};
use super::super::memory_disk::MemoryDisk;
use super::super::record::{KeptState, StateChange, StateRecord};
use super::super::state::PoolTerms;
use super::super::{Registry, RegistryOptions};
use crate::pool::NodeId;
use crate::pool::wire::LogEntry;

fn terms() -> PoolTerms {
    RegistryOptions::open("journal").state("memory".as_ref()).terms().unwrap()
}

fn record(bytes: &[u8]) -> StateRecord {
    let from = NodeId { rank: 0, incarnation: 1 };
    let entry = LogEntry::Signal { from, to: Vec::new(), bytes: bytes.to_vec() };
    StateRecord { change: StateChange::Entry(entry), question: None }
}

/// Writes each of the records in a frame of its own; the frames.
fn written(disk: &MemoryDisk, records: &[StateRecord]) -> Vec<Vec<u8>> {
    let (mut journal, _) = Journal::open(disk.open(), &terms()).unwrap();
    let (mut frames, mut before) = (Vec::new(), 0);
    for record in records {
        journal.add(vec![record.clone()]);
        journal.write().unwrap();
        let log = disk.log();
        frames.push(log[before..].to_vec());
        before = log.len();
    }
    frames
}

/// How many records a registry reads of this log, or why it reads none.
fn read(disk: &MemoryDisk, log: &[u8]) -> Result<u64, String> {
    disk.open().append(0, log).unwrap();
    let opened = Journal::open(disk.open(), &terms());
    opened.map(|(_, state): (_, KeptState)| state.records()).map_err(|why| why.to_string())
}

/// What each look at would take for the head of a frame of 256 KiB.
fn heads() -> Vec<u8> {
    [&[0, 0, 4, 0].repeat(96 << 10)[..], b"end"].concat()
}

#[test]
fn damage_before_a_whole_frame_is_found_whatever_the_bytes_look_like() {
    let disk = MemoryDisk::default();
    let frames = written(&disk, &[record(b"first"), record(&heads()), record(b"last")]);
    let mut log = frames.concat();
    assert_eq!(read(&disk, &log), Ok(3));
    let middle = frames[0].len();
    for at in [middle, middle + 4, middle + 9, middle + 5000, middle + frames[1].len() - 1] {
        log[at] ^= 1;
        let why = read(&disk, &log).unwrap_err();
        assert!(why.contains("damaged"), "{why}");
        log[at] ^= 1;
    }
    assert_eq!(read(&disk, &log), Ok(3));
}

#[test]
fn a_torn_end_is_cut_off_whatever_its_bytes_look_like() {
    let disk = MemoryDisk::default();
    let frames = written(&disk, &[record(b"first"), record(&heads())]);
    let log = frames.concat();
    for end in [frames[0].len() + 1, frames[0].len() + 7, log.len() / 2, log.len() - 1] {
        assert_eq!(read(&disk, &log[..end]), Ok(1), "{end}");
        let mut zeroed = log.clone();
        zeroed[end..].fill(0);
        // A frame may end with zeros.
        assert_eq!(read(&disk, &zeroed), Ok(if zeroed == log { 2 } else { 1 }), "{end}");
    }
}

/// A disk on which no snapshot can be made, as when descriptors are used up.
struct LogDisk(Box<dyn Disk>);

impl Disk for LogDisk {
    fn read(&mut self, file: DiskFile) -> io::Result<Vec<u8>> {
        self.0.read(file)
    }

    fn append(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.append(at, bytes)
    }

    fn replace(&mut self, _: &[u8]) -> io::Result<()> {
        Err(io::Error::other("too many open files"))
    }

    fn path(&self, file: DiskFile) -> PathBuf {
        self.0.path(file)
    }
}

#[test]
fn a_log_is_written_on_where_no_snapshot_can_be() {
    let disk = MemoryDisk::default();
    // A log longer than the snapshot.
    written(&disk, &[record(&heads())]);
    let (mut journal, mut state) = Journal::open(Box::new(LogDisk(disk.open())), &terms()).unwrap();
    journal.snapshot_beyond(1);
    assert!(journal.is_snapshot_due());
    let second = record(b"second");
    state.apply(&second, |_| {});
    journal.add(vec![second]);
    assert_eq!(journal.replace_or_write(&state).unwrap(), 2);
    assert!(!journal.is_snapshot_due(), "the next is put off");
    let log = disk.log();
    assert_eq!(read(&disk, &log), Ok(2));
}

#[test]
fn each_peer_of_a_registry_has_messages_for_its_mappings() {
    let sim = Sim::new(1);
    let registry = Registry::over(sim.nic("registry"), RegistryOptions::open("pool")).unwrap();
    let links = &registry.server.links;
    assert!(links.messages() / links.peers_max() >= 1024, "{}", links.messages());
}
