//! What threads beside the nic's lock leave for whoever drives it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::datapath::Leaving;
use super::link::Link;

#[derive(Debug, Default)]
pub(super) struct Yard {
    /// Whether there is anything.
    is_used: AtomicBool,
    left: Mutex<Left>,
}

#[derive(Debug, Default)]
pub(super) struct Left {
    /// Connections with something to write or to tell.
    pub dirty: Vec<Arc<Link>>,
    /// Connections that are over.
    pub leaving: Vec<Leaving>,
}

impl Yard {
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::SeqCst)
    }

    /// A connection has something to do for the nic.
    #[inline]
    pub(super) fn push(&self, link: Arc<Link>) {
        self.lock().dirty.push(link);
        self.is_used.store(true, Ordering::SeqCst);
    }

    /// A connection is over, and may have last words.
    pub(super) fn leave(&self, leaving: Option<Leaving>) {
        let Some(mut leaving) = leaving else { return };
        // At once: who leaves may never drive its nic again.
        if !leaving.push() {
            self.lock().leaving.push(leaving);
            self.is_used.store(true, Ordering::SeqCst);
        }
    }

    /// Takes all there is, in exchange for an empty list.
    pub(super) fn swap(&self, dirty: &mut Vec<Arc<Link>>) -> Vec<Leaving> {
        let mut left = self.lock();
        self.is_used.store(false, Ordering::SeqCst);
        std::mem::swap(&mut left.dirty, dirty);
        std::mem::take(&mut left.leaving)
    }

    fn lock(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
