//! A stream without a socket, for tests and fuzzers: a script writes what the peer says, and decides
//! how much is taken of what the end writes.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::sealed::record::{self, RECORD_MAX};
#[cfg(test)]
use super::sealed::record::{AROUND, LEN};
#[cfg(test)]
use crate::fabric::seal::Opener;
use crate::fabric::seal::{SealKey, SealKeys, Sealer};

/// Both ends of it.
#[derive(Debug, Clone, Default)]
pub(super) struct MemoryStream(Arc<Mutex<MemoryPipe>>);

#[derive(Debug, Default)]
struct MemoryPipe {
    /// What the peer has said, and whether that is all.
    said: VecDeque<u8>,
    is_over: bool,
    /// Bytes that are taken before a write is refused.
    room: usize,
    /// What the end has written.
    #[cfg(test)]
    heard: Vec<u8>,
}

impl MemoryStream {
    /// The peer says something.
    pub(super) fn say(&self, bytes: &[u8]) {
        self.pipe().said.extend(bytes);
    }

    /// The peer says nothing more.
    pub(super) fn end(&self) {
        self.pipe().is_over = true;
    }

    /// There is room for so many bytes.
    pub(super) fn make_room(&self, room: usize) {
        self.pipe().room = room;
    }

    pub(super) fn is_over(&self) -> bool {
        let pipe = self.pipe();
        pipe.is_over && pipe.said.is_empty()
    }

    pub(super) fn read(&self, to: &mut [u8]) -> Result<usize, Errno> {
        let mut pipe = self.pipe();
        match pipe.said.read(to) {
            Ok(0) if !pipe.is_over => Err(Errno::AGAIN),
            read => read.map_err(|_| Errno::IO),
        }
    }

    pub(super) fn read_both(&self, one: &mut [u8], other: &mut [u8]) -> Result<usize, Errno> {
        self.read_all(&mut [IoSliceMut::new(one), IoSliceMut::new(other)])
    }

    pub(super) fn read_all(&self, slices: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        let mut all = 0;
        for slice in slices.iter_mut().filter(|slice| !slice.is_empty()) {
            let n = match self.read(slice) {
                Err(why) if all == 0 => return Err(why),
                read => read.unwrap_or(0),
            };
            all += n;
            if n < slice.len() {
                break;
            }
        }
        Ok(all)
    }

    pub(super) fn write(&self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut pipe = self.pipe();
        let n = slices.iter().map(|slice| slice.len()).sum::<usize>().min(pipe.room);
        pipe.room -= n;
        #[cfg(test)]
        {
            let all = slices.iter().flat_map(|slice| slice.iter());
            pipe.heard = pipe.heard.iter().chain(all.take(n)).copied().collect();
        }
        if n == 0 { Err(Errno::AGAIN) } else { Ok(n) }
    }

    /// What the end has written since this was asked last.
    #[cfg(test)]
    pub(super) fn heard(&self) -> Vec<u8> {
        std::mem::take(&mut self.pipe().heard)
    }

    fn pipe(&self) -> MutexGuard<'_, MemoryPipe> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys that are always the same.
pub(super) fn keys_of_caller() -> SealKeys {
    let [outgoing, incoming] = [1, 2].map(|byte| SealKey::new([byte; 32]));
    SealKeys { outgoing, incoming }
}

/// Those of the other side.
pub(super) fn keys_of_callee() -> SealKeys {
    let SealKeys { outgoing, incoming } = keys_of_caller();
    SealKeys { outgoing: incoming, incoming: outgoing }
}

/// A peer that seals what it says, in records of at most so many bytes.
#[derive(Debug)]
pub(super) struct ScriptedPeer {
    sealer: Sealer,
    most: usize,
    #[cfg(test)]
    opener: Opener,
    /// What has come and is not open.
    #[cfg(test)]
    sealed: Vec<u8>,
}

impl ScriptedPeer {
    /// The one that has asked for the connection.
    pub(super) fn caller(most: usize) -> Self {
        Self::new(keys_of_caller(), most)
    }

    pub(super) fn new(keys: SealKeys, most: usize) -> Self {
        Self {
            sealer: Sealer::new(keys.outgoing),
            most: most.clamp(1, RECORD_MAX),
            #[cfg(test)]
            opener: Opener::new(keys.incoming),
            #[cfg(test)]
            sealed: Vec::new(),
        }
    }

    pub(super) fn seal(&mut self, bytes: &[u8]) -> Vec<u8> {
        bytes.chunks(self.most).flat_map(|bytes| self.record(bytes)).collect()
    }

    /// One record.
    pub(super) fn record(&mut self, bytes: &[u8]) -> Vec<u8> {
        let head = record::head(bytes.len());
        let mut bytes = bytes.to_vec();
        let tag = self.sealer.seal(&head, &mut bytes).expect("numbers are left");
        [&head[..], &bytes, &tag].concat()
    }

    /// What the end has said so far and is new.
    #[cfg(test)]
    pub(super) fn open(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.sealed.extend_from_slice(bytes);
        let (mut plain, mut at) = (Vec::new(), 0);
        while let Some(len) = record::len_of(&self.sealed[at..]) {
            let len = len.expect("an honest record");
            let Some(now) = self.sealed.get_mut(at..at + len + AROUND) else { break };
            let (head, rest) = now.split_at_mut(LEN);
            let (bytes, tag) = rest.split_at_mut(len);
            let tag = tag.first_chunk().expect("a whole record");
            self.opener.open(head, bytes, tag).expect("an honest record");
            plain.extend_from_slice(bytes);
            at += len + AROUND;
        }
        self.sealed.drain(..at);
        plain
    }
}
