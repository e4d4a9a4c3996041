//! The registry's records on disk: a snapshot, and a log of the records behind it.
//!
//! The log is a row of frames: length (4 bytes), checksum (4 bytes), and a body with the number of its first record and
//! the records. One frame has all records that were there to be written, and is on disk when [`Disk::append`] returns;
//! the next one is written then. So a crash tears the last frame alone, whose records nobody was promised. The
//! checksum is of a random number in the snapshot and the body: no member can write a frame into what it binds.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crc32fast::Hasher;
use egret_net::rt;
use egret_stream::{Reader, Wire};

use super::fault::{Fault, planted};
use super::record::{KeptState, StateChange, StateRecord};
use super::state::PoolTerms;
use crate::pool::JoinError;
use crate::pool::wire::{LogEntry, bytes_of};

/// Where a journal is kept.
pub(super) trait Disk: Send {
    /// The bytes of a file; none if it is not there.
    fn read(&mut self, file: DiskFile) -> io::Result<Vec<u8>>;
    /// Writes bytes to the log at this offset, where the log ends then. When it returns they are on disk.
    fn append(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Puts another snapshot in the place of the one before, as a whole. When it returns the snapshot is on disk.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Where a file is, for errors.
    fn path(&self, file: DiskFile) -> PathBuf;
}

/// The files of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DiskFile {
    Log,
    Snapshot,
}

/// The records of a registry on disk.
pub(super) struct Journal {
    disk: Box<dyn Disk>,
    terms: PoolTerms,
    /// The random number that all checksums begin with.
    salt: u64,
    /// Where the next frame is written.
    end: u64,
    /// Bytes of the snapshot.
    snapshot: u64,
    /// Bytes of the log that a snapshot is due for.
    log_max: u64,
    /// The same after a snapshot that could not be written.
    put_off: u64,
    /// The records that are to be written, and the number of the first one.
    waiting: Vec<StateRecord>,
    first: u64,
}

/// What one frame has.
#[derive(Debug, Wire)]
struct RecordFrame {
    first: u64,
    records: Vec<StateRecord>,
}

impl Journal {
    /// Opens a journal, and reads what lasts of the registry; a new one begins with an empty pool.
    pub(super) fn open(
        mut disk: Box<dyn Disk>,
        terms: &PoolTerms,
    ) -> Result<(Self, KeptState), JoinError> {
        let snapshot = read(&mut *disk, DiskFile::Snapshot)?;
        let log = read(&mut *disk, DiskFile::Log)?;
        if snapshot.is_empty() && !log.is_empty() {
            let why = "there is a log, and no snapshot before it: the registry needs both";
            return Err(wrong(&*disk, DiskFile::Snapshot, why));
        }
        let (mut state, mut salt) = (KeptState::new(terms), rt::random());
        if !snapshot.is_empty() {
            let read = image_of(&snapshot).and_then(|(known, image)| {
                salt = known;
                KeptState::from_bytes(image, terms)
            });
            state = read.map_err(|why| wrong(&*disk, DiskFile::Snapshot, &why))?;
        }
        let end =
            replay(&log, salt, &mut state).map_err(|why| wrong(&*disk, DiskFile::Log, &why))?;
        let torn = log.len() - end;
        if torn > 0 {
            let log = disk.path(DiskFile::Log);
            tracing::warn!(
                log = %log.display(), offset = end, bytes = torn,
                "cut off the end of the log, which was not written whole"
            );
        }
        let end = if planted(Fault::TornKept) { log.len() } else { end };
        let (first, waiting) = (state.records(), Vec::new());
        let (end, terms, log_max) = (end as u64, terms.clone(), LOG_MAX);
        let snapshot_len = snapshot.len() as u64;
        let mut journal = Self {
            disk,
            terms,
            salt,
            end,
            snapshot: snapshot_len,
            log_max,
            put_off: 0,
            waiting,
            first,
        };
        if snapshot.is_empty() {
            journal.replace(&state).map_err(|why| {
                wrong(&*journal.disk, DiskFile::Snapshot, &format!("it cannot be written: {why}"))
            })?;
        }
        Ok((journal, state))
    }

    /// Adds records that are to be written.
    pub(super) fn add(&mut self, records: Vec<StateRecord>) {
        self.waiting.extend(records);
    }

    /// Whether all records are written.
    pub(super) fn is_written(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes the records that wait; returns the number behind the last record on disk. What fails is written again by
    /// the next call.
    pub(super) fn write(&mut self) -> io::Result<u64> {
        if !self.waiting.is_empty() {
            let body =
                RecordFrame { first: self.first, records: std::mem::take(&mut self.waiting) };
            let frame = frame_of(self.salt, &body);
            let written = frame.and_then(|frame| {
                self.disk.append(self.end, &frame)?;
                Ok(frame.len() as u64)
            });
            match written {
                Ok(bytes) => {
                    self.first += body.records.len() as u64;
                    self.end += bytes;
                }
                Err(why) => {
                    self.waiting = body.records;
                    return Err(why);
                }
            }
        }
        Ok(self.first)
    }

    /// Writes a snapshot when the log has so many bytes.
    #[cfg(test)]
    pub(super) const fn snapshot_beyond(&mut self, bytes: u64) {
        self.log_max = bytes;
    }

    /// Whether a snapshot is due: the log is long, and longer than the last snapshot.
    pub(super) fn is_snapshot_due(&self) -> bool {
        self.end > self.log_max.max(2 * self.snapshot).max(self.put_off)
    }

    /// Writes a snapshot, or the records that wait if it cannot be written: it needs files of its own, and the log is open
    /// already. The next is due when the log is twice as long.
    pub(super) fn replace_or_write(&mut self, state: &KeptState) -> io::Result<u64> {
        self.replace(state).or_else(|why| {
            let written = self.write()?;
            tracing::warn!(%why, bytes = self.end, "the registry cannot write a snapshot of its state: its log grows");
            self.put_off = 2 * self.end;
            Ok(written)
        })
    }

    /// Writes a snapshot of the state after all records, and cuts the log; returns the number behind the last record.
    pub(super) fn replace(&mut self, state: &KeptState) -> io::Result<u64> {
        let image = state.to_bytes(&self.terms);
        let crc = checksum(self.salt, &image).to_le_bytes();
        let bytes = [&MAGIC[..], &self.salt.to_le_bytes(), &crc, &image].concat();
        self.disk.replace(&bytes)?;
        self.snapshot = bytes.len() as u64;
        (self.first, self.waiting) = (state.records(), Vec::new());
        // A log that stays has records that are in the snapshot already, and that nobody applies twice.
        self.disk.append(0, &[])?;
        (self.end, self.put_off) = (0, 0);
        Ok(self.first)
    }
}

fn read(disk: &mut dyn Disk, file: DiskFile) -> Result<Vec<u8>, JoinError> {
    disk.read(file).map_err(|why| wrong(disk, file, &format!("it cannot be read: {why}")))
}

fn wrong(disk: &dyn Disk, file: DiskFile, why: &str) -> JoinError {
    JoinError::File { path: disk.path(file), why: why.to_owned() }
}

/// The random number and the image in a snapshot.
fn image_of(snapshot: &[u8]) -> Result<(u64, &[u8]), String> {
    let parts = || {
        let rest = snapshot.strip_prefix(MAGIC)?;
        let (salt, rest) = rest.split_first_chunk()?;
        let (crc, image) = rest.split_first_chunk()?;
        Some((u64::from_le_bytes(*salt), u32::from_le_bytes(*crc), image))
    };
    let (salt, crc, image) =
        parts().ok_or("it does not begin as the snapshot of a registry of this version")?;
    if crc != checksum(salt, image) {
        return Err(format!("it is damaged: its {} bytes have another checksum", snapshot.len()));
    }
    Ok((salt, image))
}

fn checksum(salt: u64, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

fn frame_of(salt: u64, body: &RecordFrame) -> io::Result<Vec<u8>> {
    let bytes = bytes_of(body);
    let len = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    Ok([&len.to_le_bytes()[..], &checksum(salt, &bytes).to_le_bytes(), &bytes].concat())
}

/// The body of the frame at the beginning of these bytes, if it is whole.
fn body_of(salt: u64, bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (crc, rest) = rest.split_first_chunk()?;
    let body = rest.get(..usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
    let is_whole = u32::from_le_bytes(*crc) == checksum(salt, body);
    (!body.is_empty() && (is_whole || planted(Fault::ChecksumUnread))).then_some(body)
}

fn is_read(record: &StateRecord) -> bool {
    !matches!(record.change, StateChange::Entry(LogEntry::Entered { .. }))
        || !planted(Fault::ViewsUnread)
}

/// Applies the frames of a log; returns where the last whole one ends.
fn replay(log: &[u8], salt: u64, state: &mut KeptState) -> Result<usize, String> {
    let mut at = 0;
    while let Some(body) = body_of(salt, &log[at..]) {
        let damaged = |why: &str| format!("the frame at byte {at} is damaged: {why}");
        let RecordFrame { first, records } = Reader::new(body)
            .read_last()
            .map_err(|why| damaged(&format!("it has no records: {why}")))?;
        let known = state.records();
        if first > known {
            return Err(damaged(&format!("its records begin at {first}, and {known} comes next")));
        }
        let skip = usize::try_from(known - first).unwrap_or(usize::MAX);
        for record in records.iter().skip(skip).filter(|record| is_read(record)) {
            if !state.allows(record) {
                return Err(damaged(&format!("record {} cannot have happened", state.records())));
            }
            state.apply(record, |_| {});
        }
        at += HEAD + body.len();
    }
    // A frame is written when the one before is on disk: no whole frame follows one that was torn.
    match whole_frame(salt, &log[at..]).map(|next| at + next) {
        Some(next) => Err(format!(
            "the frame at byte {at} is damaged, and a whole one follows at byte {next}: what the registry has promised \
             is not all there"
        )),
        None => Ok(at),
    }
}

/// Where the first whole frame is behind the beginning of these bytes, if there is one. The checksum of any part of the bytes
/// follows from those of all their beginnings, so bytes that look like many long frames take no longer than others.
fn whole_frame(salt: u64, bytes: &[u8]) -> Option<usize> {
    let mut hasher = Hasher::new();
    let beginnings: Vec<u32> = std::iter::once(0)
        .chain(bytes.iter().map(|byte| {
            hasher.update(&[*byte]);
            hasher.clone().finalize()
        }))
        .collect();
    let salted = checksum(salt, &[]);
    (1..bytes.len()).find(|at| {
        let Some((len, rest)) = bytes[*at..].split_first_chunk() else { return false };
        let Some((crc, rest)) = rest.split_first_chunk() else { return false };
        let len = u32::from_le_bytes(*len) as usize;
        if !(1..=rest.len()).contains(&len) {
            return false;
        }
        // A checksum is linear: that of salt and body, and that of all bytes before the body and the body, differ by what the
        // two beginnings differ by, moved on by the length of the body.
        let body = at + HEAD;
        let mut claimed = Hasher::new_with_initial(beginnings[body] ^ salted);
        claimed.combine(&Hasher::new_with_initial_len(beginnings[body + len], len as u64));
        claimed.finalize() == u32::from_le_bytes(*crc)
    })
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("end", &self.end).finish_non_exhaustive()
    }
}

/// What a snapshot begins with.
const MAGIC: &[u8; 8] = b"egretst2";
/// Bytes of the head of a frame.
const HEAD: usize = 8;
/// Bytes of a log that a snapshot is due for.
const LOG_MAX: u64 = 4 << 20;
