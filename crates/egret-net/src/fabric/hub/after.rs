//! What is left to do once no lock is held: everything that runs code of the
//! program.

use std::task::Waker;

use super::Work;
use crate::fabric::{Promise, ViOps};
use crate::vi::{ConnectError, Notices};

#[derive(Debug)]
pub(in crate::fabric) struct After<W: Work> {
    pub notices: Notices,
    pub wakers: Vec<Waker>,
    pub settled: Vec<Settled<W::Link>>,
    /// Something a waiting thread may want to look at.
    pub happened: bool,
}

/// A connector's promise and how it is kept.
#[derive(Debug)]
pub(in crate::fabric) struct Settled<L> {
    pub promise: Promise<Result<Box<dyn ViOps>, ConnectError>>,
    pub result: Result<L, ConnectError>,
}

impl<W: Work> After<W> {
    /// Whether something has happened that waits may be for.
    #[inline]
    pub(in crate::fabric) fn is_news(&self) -> bool {
        self.happened || !self.notices.is_empty()
    }

    /// The news were counted.
    #[inline]
    pub(super) const fn counted(&mut self) {
        self.happened = false;
        self.notices.counted();
    }

    /// Whether there is anybody to tell.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        !self.notices.is_empty() || !self.wakers.is_empty() || !self.settled.is_empty()
    }

    /// A connection was made, or was not.
    pub(in crate::fabric) fn settle(
        &mut self,
        promise: Promise<Result<Box<dyn ViOps>, ConnectError>>,
        result: Result<W::Link, ConnectError>,
    ) {
        self.happened = true;
        self.settled.push(Settled { promise, result });
    }
}

impl<W: Work> Default for After<W> {
    fn default() -> Self {
        let (wakers, settled) = (Vec::new(), Vec::new());
        Self { notices: Notices::default(), wakers, settled, happened: false }
    }
}
