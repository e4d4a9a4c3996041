//! The memory that a nic exposes, by the keys' secrets.

use std::any::Any;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Access, AccessError, RemoteKey, RemoteSlice};
use crate::buf::Buf;
use crate::rt;

/// The memory that one nic exposes. A fabric executes its peers' remote reads
/// and writes through this, with nothing but numbers taken from the wire.
/// The [`machine`](super::machine) of a fabric has one: see the example there.
#[derive(Default)]
pub struct Keys {
    table: Mutex<BTreeMap<u64, ExposedMemory>>,
}

/// Without the secrets.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.lock().len())
    }
}

#[derive(Debug)]
struct ExposedMemory {
    bytes: ExposedBytes,
    access: Access,
}

/// The bytes under a key, by who writes them.
#[derive(Debug)]
enum ExposedBytes {
    /// This process alone, under the table's lock.
    Ours(Buf),
    /// Others too, at any time: there is no slice of them.
    Open(Box<dyn OpenedMemory>),
}

/// Memory under a live key that a fabric has opened to peers: they write it by
/// themselves, so it is only copied to and from.
pub(crate) trait OpenedMemory: Any + Send + fmt::Debug {
    fn len(&self) -> usize;
    /// Copies bytes out, that may be changing. The range is inside.
    fn read(&self, at: usize, to: &mut [u8]);
    /// Copies bytes in, that others may be changing. The range is inside.
    fn write(&self, at: usize, from: &[u8]);
    /// Ends it: no write is under way when this returns, and none will follow.
    /// The bytes, or a copy of them.
    fn close(self: Box<Self>) -> Buf;
    /// The same for one who does not want them.
    fn discard(self: Box<Self>);
}

/// What was under a key.
#[derive(Debug)]
pub(super) struct RemovedMemory(ExposedBytes);

impl RemovedMemory {
    pub(super) fn into_buf(self) -> Buf {
        match self.0 {
            ExposedBytes::Ours(buf) => buf,
            ExposedBytes::Open(open) => open.close(),
        }
    }

    pub(super) fn discard(self) {
        match self.0 {
            ExposedBytes::Ours(buf) => drop(buf),
            ExposedBytes::Open(open) => open.discard(),
        }
    }
}

impl Keys {
    pub(super) fn insert(&self, buf: Buf, access: Access) -> RemoteKey {
        let len = buf.len() as u64;
        loop {
            let secret = rt::random();
            if let Entry::Vacant(place) = self.lock().entry(secret) {
                place.insert(ExposedMemory { bytes: ExposedBytes::Ours(buf), access });
                return RemoteKey::new(secret, len, access);
            }
        }
    }

    /// Ends a key. What was under it is to be closed when the table is not locked
    /// any more: that may take a while.
    pub(super) fn remove(&self, key: RemoteKey) -> Option<RemovedMemory> {
        self.lock().remove(&key.secret()).map(|memory| RemovedMemory(memory.bytes))
    }

    /// Has a fabric open the memory under a key that grants writes, if it is not
    /// open yet, and calls `then` with what is open. `open` gives back a buffer that
    /// stays as it is.
    pub(crate) fn open<O: OpenedMemory>(
        &self,
        secret: u64,
        open: impl FnOnce(Buf) -> Result<O, Buf>,
        then: impl FnOnce(&mut O),
    ) {
        let mut table = self.lock();
        let Some(ExposedMemory { access: Access { write: true, .. }, bytes }) =
            table.get_mut(&secret)
        else {
            return;
        };
        if let ExposedBytes::Ours(buf) = bytes {
            if !buf.region().is_cooperating() {
                return;
            }
            let Some(ExposedMemory { bytes: ExposedBytes::Ours(buf), access }) =
                table.remove(&secret)
            else {
                return;
            };
            let bytes = match open(buf) {
                Ok(open) => ExposedBytes::Open(Box::new(open)),
                Err(buf) => ExposedBytes::Ours(buf),
            };
            table.insert(secret, ExposedMemory { bytes, access });
        }
        let opened = table.get_mut(&secret).map(|memory| &mut memory.bytes);
        if let Some(ExposedBytes::Open(opened)) = opened {
            let opened: &mut dyn Any = &mut **opened;
            if let Some(opened) = opened.downcast_mut() {
                then(opened);
            }
        }
    }

    /// Whether a peer may read, or write, these bytes: asked before memory is
    /// taken for them.
    ///
    /// # Errors
    ///
    /// What the peer is to be told.
    pub fn check(&self, place: &RemoteSlice, len: u64, write: bool) -> Result<(), AccessError> {
        self.lock().get(&place.key.secret()).ok_or(AccessError::Revoked)?.range(
            place.offset,
            len,
            write,
        )?;
        Ok(())
    }

    /// Executes a peer's read.
    ///
    /// # Errors
    ///
    /// What the peer is to be told. Nothing is copied then.
    pub fn read(&self, from: &RemoteSlice, to: &mut [u8]) -> Result<(), AccessError> {
        let table = self.lock();
        let memory = table.get(&from.key.secret()).ok_or(AccessError::Revoked)?;
        let range = memory.range(from.offset, to.len() as u64, false)?;
        memory.bytes.read(range.start, to);
        Ok(())
    }

    /// Executes a peer's write.
    ///
    /// # Errors
    ///
    /// What the peer is to be told. Nothing is written then.
    pub fn write(&self, to: &RemoteSlice, from: &[u8]) -> Result<(), AccessError> {
        let mut left = from;
        self.fill(to, from.len() as u64, |bytes| {
            let (now, later) = left.split_at(bytes.len());
            bytes.copy_from_slice(now);
            left = later;
        })
    }

    /// Executes a peer's write of bytes that `fill` brings, piece by piece in
    /// order.
    ///
    /// # Errors
    ///
    /// What the peer is to be told. `fill` is not called then.
    pub fn fill(
        &self,
        to: &RemoteSlice,
        len: u64,
        mut fill: impl FnMut(&mut [u8]),
    ) -> Result<(), AccessError> {
        let mut table = self.lock();
        let memory = table.get_mut(&to.key.secret()).ok_or(AccessError::Revoked)?;
        let range = memory.range(to.offset, len, true)?;
        match &mut memory.bytes {
            ExposedBytes::Ours(buf) => fill(&mut buf.bytes_mut()[range]),
            ExposedBytes::Open(open) => {
                let mut piece = vec![0; range.len().min(PIECE)];
                for at in range.clone().step_by(PIECE) {
                    let piece = &mut piece[..(range.end - at).min(PIECE)];
                    fill(piece);
                    open.write(at, piece);
                }
            }
        }
        Ok(())
    }

    /// Copies bytes out for the program.
    pub(super) fn copy_out(&self, key: RemoteKey, offset: usize, to: &mut [u8]) {
        let table = self.lock();
        let memory = table.get(&key.secret()).expect("revoked only by who asks this");
        memory.bytes.assert_inside(offset, to.len());
        memory.bytes.read(offset, to);
    }

    /// Copies bytes in for the program.
    pub(super) fn copy_in(&self, key: RemoteKey, offset: usize, from: &[u8]) {
        let mut table = self.lock();
        let memory = table.get_mut(&key.secret()).expect("revoked only by who asks this");
        memory.bytes.assert_inside(offset, from.len());
        match &mut memory.bytes {
            ExposedBytes::Ours(buf) => {
                buf.bytes_mut()[offset..offset + from.len()].copy_from_slice(from);
            }
            ExposedBytes::Open(open) => open.write(offset, from),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, ExposedMemory>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExposedMemory {
    /// The bytes that these mean, if the key grants them.
    fn range(&self, offset: u64, len: u64, write: bool) -> Result<Range<usize>, AccessError> {
        let (asked, granted) =
            if write { ("write", self.access.write) } else { ("read", self.access.read) };
        if !granted {
            return Err(AccessError::Forbidden { asked });
        }
        let size = self.bytes.len() as u64;
        let end = offset.checked_add(len).filter(|end| *end <= size);
        let end = end.ok_or(AccessError::OutOfBounds { offset, len, size })?;
        let index = |at| usize::try_from(at).expect("inside the buffer");
        Ok(index(offset)..index(end))
    }
}

impl ExposedBytes {
    fn len(&self) -> usize {
        match self {
            Self::Ours(buf) => buf.len(),
            Self::Open(open) => open.len(),
        }
    }

    fn read(&self, at: usize, to: &mut [u8]) {
        match self {
            Self::Ours(buf) => to.copy_from_slice(&buf.bytes()[at..at + to.len()]),
            Self::Open(open) => open.read(at, to),
        }
    }

    fn assert_inside(&self, offset: usize, bytes: usize) {
        let len = self.len();
        assert!(offset <= len && bytes <= len - offset, "{bytes} bytes at {offset} of {len}");
    }
}

/// Bytes for memory that others write pass through so much of ours.
const PIECE: usize = 16 << 10;
