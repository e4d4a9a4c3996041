//! Connections inside of one node: no link leads from a node to itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use egret_net::sync::Mutex;
use egret_net::vi::Nic;

use crate::links::clock::DeadlineClock;
use crate::links::core::WaitStopped;
use crate::node::NodeHandle;
use crate::wakers::{WakerList, under};

/// Waits on the calling thread, which drives the node's best fabric meanwhile. What `poll` waits for is told by the waker it is
/// given, or by waking the nic.
pub(super) fn wait_at<T>(
    node: &NodeHandle,
    links: usize,
    clock: &mut DeadlineClock,
    poll: &mut impl FnMut(Option<&Waker>) -> Option<T>,
) -> Result<T, WaitStopped> {
    let core = &node.links()[links].1.core;
    core.wait_by(clock, &mut |state, waker| {
        let found = poll(waker);
        if found.is_none() {
            state.role_waits |= waker.is_none();
        }
        found
    })
}

/// The nic that threads of a node sleep on which wait for nothing of another node.
pub(super) fn nic_of(node: &NodeHandle) -> Nic {
    node.links()[0].1.core.nic.clone()
}

/// A message to a receive port of the same node, whole.
#[derive(Debug)]
pub(super) struct LocalMessage {
    pub(super) bytes: Vec<u8>,
    /// The place of the message in the window.
    _place: LocalPlace,
}

/// The messages of one connection that wait, and the threads that wait for one to be taken.
#[derive(Debug)]
pub(super) struct LocalWindow {
    inner: Mutex<LocalWindowState>,
    most: u32,
    nic: Nic,
}

#[derive(Debug, Default)]
struct LocalWindowState {
    used: u32,
    waiters: WakerList,
}

/// A place in a window, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct LocalPlace(Arc<LocalWindow>);

impl LocalMessage {
    pub(super) const fn new(bytes: Vec<u8>, place: LocalPlace) -> Self {
        Self { bytes, _place: place }
    }
}

impl LocalWindow {
    pub(super) fn new(node: &NodeHandle, most: u32) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), most, nic: nic_of(node) })
    }

    /// A place, if one is free; else the waker is woken when one is.
    pub(super) fn poll_place(self: &Arc<Self>, waker: Option<&Waker>) -> Option<LocalPlace> {
        under(|| {
            let mut inner = self.inner.lock();
            if inner.used >= self.most {
                inner.waiters.wait(waker);
                return None;
            }
            inner.used += 1;
            Some(LocalPlace(Arc::clone(self)))
        })
    }
}

impl Drop for LocalPlace {
    fn drop(&mut self) {
        under(|| {
            let mut inner = self.0.inner.lock();
            inner.used -= 1;
            inner.waiters.wake();
        });
        self.0.nic.wake();
    }
}

/// A message to a receive port of the same node that is received while it is written, in pieces of bounded memory.
#[derive(Debug)]
pub(super) struct LocalPipe {
    inner: Mutex<LocalPipeState>,
    nic: Nic,
}

#[derive(Debug, Default)]
struct LocalPipeState {
    chunks: VecDeque<Vec<u8>>,
    bytes: usize,
    end: Option<LocalPipeEnd>,
    is_unread: bool,
    waiters: WakerList,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LocalPipeEnd {
    Whole,
    Aborted,
}

/// The end of a pipe that writes. Dropped before it is ended, it aborts the message.
#[derive(Debug)]
pub(super) struct LocalPipeWriter(pub(super) Arc<LocalPipe>);

/// The end of a pipe that reads.
#[derive(Debug)]
pub(super) struct LocalPipeReader {
    pipe: Arc<LocalPipe>,
    /// What was taken last, and how much of it was read.
    chunk: (Vec<u8>, usize),
    _place: LocalPlace,
}

impl LocalPipe {
    pub(super) fn open(node: &NodeHandle, place: LocalPlace) -> (LocalPipeWriter, LocalPipeReader) {
        let pipe = Arc::new(Self { inner: Mutex::default(), nic: nic_of(node) });
        let reader =
            LocalPipeReader { pipe: Arc::clone(&pipe), chunk: (Vec::new(), 0), _place: place };
        (LocalPipeWriter(pipe), reader)
    }

    fn change<T>(&self, change: impl FnOnce(&mut LocalPipeState) -> T) -> T {
        let changed = under(|| {
            let mut inner = self.inner.lock();
            let changed = change(&mut inner);
            inner.waiters.wake();
            changed
        });
        self.nic.wake();
        changed
    }
}

impl LocalPipeWriter {
    /// Whether there is room for a chunk, or nobody reads any more.
    fn poll_room(&self, waker: Option<&Waker>) -> Option<bool> {
        under(|| {
            let mut inner = self.0.inner.lock();
            if inner.is_unread || inner.bytes < PIPE_BYTES {
                return Some(inner.is_unread);
            }
            inner.waiters.wait(waker);
            None
        })
    }

    /// Writes bytes when there is room. `false` if nobody reads them.
    pub(super) fn write(
        &self,
        node: &NodeHandle,
        bytes: &[u8],
        clock: &mut DeadlineClock,
    ) -> Result<bool, WaitStopped> {
        for chunk in bytes.chunks(PIPE_CHUNK) {
            if wait_at(node, 0, clock, &mut |waker| self.poll_room(waker))? {
                return Ok(false);
            }
            self.0.change(|pipe| {
                pipe.bytes += chunk.len();
                // Small pieces are put together.
                match pipe.chunks.back_mut() {
                    Some(last) if last.len() + chunk.len() <= PIPE_CHUNK => {
                        last.extend_from_slice(chunk);
                    }
                    _ => pipe.chunks.push_back(chunk.to_vec()),
                }
            });
        }
        Ok(true)
    }

    pub(super) fn finish(self) {
        self.0.change(|pipe| pipe.end = Some(LocalPipeEnd::Whole));
    }
}

impl Drop for LocalPipeWriter {
    fn drop(&mut self) {
        self.0.change(|pipe| _ = pipe.end.get_or_insert(LocalPipeEnd::Aborted));
    }
}

impl LocalPipeReader {
    /// Fills the front of `to`: how much of it, or how the message has ended.
    pub(super) fn read(
        &mut self,
        node: &NodeHandle,
        to: &mut [u8],
        clock: &mut DeadlineClock,
    ) -> Result<Result<usize, LocalPipeEnd>, WaitStopped> {
        if self.chunk.1 == self.chunk.0.len() {
            let pipe = &self.pipe;
            match wait_at(node, 0, clock, &mut |waker| pipe.poll_chunk(waker))? {
                Ok(chunk) => self.chunk = (chunk, 0),
                Err(end) => return Ok(Err(end)),
            }
            self.pipe.change(|pipe| pipe.bytes -= self.chunk.0.len());
        }
        let (chunk, at) = &mut self.chunk;
        let count = to.len().min(chunk.len() - *at);
        to[..count].copy_from_slice(&chunk[*at..*at + count]);
        *at += count;
        Ok(Ok(count))
    }
}

impl LocalPipe {
    fn poll_chunk(&self, waker: Option<&Waker>) -> Option<Result<Vec<u8>, LocalPipeEnd>> {
        under(|| {
            let mut inner = self.inner.lock();
            if let Some(chunk) = inner.chunks.pop_front() {
                return Some(Ok(chunk));
            }
            if let Some(end) = inner.end {
                return Some(Err(end));
            }
            inner.waiters.wait(waker);
            None
        })
    }
}

impl Drop for LocalPipeReader {
    fn drop(&mut self) {
        self.pipe.change(|pipe| {
            pipe.is_unread = true;
            pipe.chunks = VecDeque::new();
            pipe.bytes = 0;
        });
    }
}

/// Bytes of a message that wait in a pipe, and those of one piece of it.
const PIPE_BYTES: usize = 1 << 20;
const PIPE_CHUNK: usize = 64 << 10;
