//! What other threads have for the main one, which also waits for signals.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

/// Things that have come, in their order. It can be waited for like a descriptor that is read.
#[derive(Debug)]
pub(crate) struct Inbox<T>(Arc<InboxQueue<T>>);

#[derive(Debug)]
struct InboxQueue<T> {
    come: Mutex<VecDeque<T>>,
    wake: OwnedFd,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.context("making a descriptor to be woken by")?;
        Ok(Self(Arc::new(InboxQueue { come: Mutex::default(), wake })))
    }

    pub(crate) fn put(&self, what: T) {
        self.0.come.lock().unwrap_or_else(PoisonError::into_inner).push_back(what);
        let _ = write(&self.0.wake, &1_u64.to_ne_bytes());
    }

    /// All that has come.
    pub(crate) fn take(&self) -> VecDeque<T> {
        let _ = read(&self.0.wake, &mut [0; 8]);
        std::mem::take(&mut self.0.come.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> AsFd for Inbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}
