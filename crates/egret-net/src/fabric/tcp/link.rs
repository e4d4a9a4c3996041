//! An end of a connection, as its nic owns it.

use rustix::io::Errno;

use super::datapath::{Conn, Leaving};
use super::driver::Fixed;
use super::send::Flushed;
use super::token::LINK;
use crate::fabric::Unposted;
use crate::fabric::hub::end::End;
use crate::fabric::hub::set::{self, token};
use crate::vi::{Counters, Notices, Posted, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Link {
    pub id: u64,
    end: End<Conn>,
    /// What a connection that has ended has still to say.
    pub leaving: Option<Leaving>,
}

/// What came of polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Polled {
    Nothing,
    Something,
    Gone,
}

impl Link {
    pub(super) fn new(id: u64, conn: Conn) -> Self {
        Self { id, end: End::new(conn), leaving: None }
    }

    /// Has the set say what there is to do.
    pub(super) fn watch(&mut self, fixed: &Fixed) -> Result<(), Errno> {
        let Some(conn) = self.end.open() else { return Ok(()) };
        set::watch(&fixed.set, conn.socket.fd(), token(LINK, self.id), conn.flags())
    }

    /// Has the set say nothing more.
    pub(super) fn unwatch(&mut self, fixed: &Fixed) {
        if let Some(conn) = self.end.open() {
            let _ = set::forget(&fixed.set, conn.socket.fd());
        }
    }

    /// Takes a descriptor. Whether the nic has something to do.
    #[inline]
    pub(super) fn post(
        &mut self,
        posted: Posted,
        fixed: &Fixed,
        notices: &mut Notices,
    ) -> Result<bool, Unposted> {
        let (conn, posted) = self.end.admit(posted)?;
        let dirty = conn.post(posted, &fixed.keys)?;
        if !conn.notices.is_empty() {
            conn.notices.move_to(notices);
        }
        Ok(dirty)
    }

    /// Takes what came and sends what can go.
    #[inline]
    pub(super) fn poll(
        &mut self,
        fixed: &Fixed,
        notices: &mut Notices,
        staging: &mut [u8],
    ) -> Polled {
        match self.work(notices, |conn| conn.poll(&fixed.keys, staging)) {
            None => Polled::Gone,
            Some(true) => Polled::Something,
            Some(false) => Polled::Nothing,
        }
    }

    /// Whether the nic is to come by for what the last poll left, and was not told so.
    #[inline]
    pub(super) fn is_newly_dirty(&mut self) -> bool {
        self.end.open().is_some_and(Conn::is_newly_dirty)
    }

    /// Takes bytes that came already.
    pub(super) fn take(&mut self, bytes: &[u8], fixed: &Fixed, notices: &mut Notices) {
        self.work(notices, |conn| conn.take(bytes, &fixed.keys));
    }

    /// Writes what was posted; [thoroughly](Conn::push) before a sleep. `None` if it is
    /// over.
    pub(super) fn push(
        &mut self,
        fixed: &Fixed,
        notices: &mut Notices,
        thorough: bool,
    ) -> Option<Flushed> {
        self.work(notices, |conn| conn.push(&fixed.keys, thorough))
    }

    /// The kernel has room again.
    pub(super) fn has_room(&mut self) {
        if let Some(conn) = self.end.open() {
            conn.has_room();
        }
    }

    /// The nic has come by.
    pub(super) fn unmark(&mut self) {
        if let Some(conn) = self.end.open() {
            conn.is_dirty = false;
        }
    }

    /// Has the nic come by. Whether it would not have.
    pub(super) fn mark(&mut self) -> bool {
        self.end.open().is_some_and(|conn| !std::mem::replace(&mut conn.is_dirty, true))
    }

    /// Whether the kernel takes no more.
    pub(super) fn is_full(&mut self) -> bool {
        self.end.open().is_some_and(|conn| conn.is_full())
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        let Some(conn) = self.end.open() else { return false };
        let cancelled = conn.cancel(ticket);
        conn.notices.move_to(notices);
        cancelled
    }

    pub(super) fn close(&mut self, why: ViError, notices: &mut Notices) {
        self.work(notices, |_| Err::<(), _>(why.into()));
    }

    pub(super) fn error(&self) -> Option<ViError> {
        self.end.error()
    }

    pub(super) fn counters(&self) -> Counters {
        self.end.counters()
    }

    /// Works on an open end; an error is the end of it.
    #[inline]
    fn work<R>(
        &mut self,
        notices: &mut Notices,
        body: impl FnOnce(&mut Conn) -> Result<R, Box<ViError>>,
    ) -> Option<R> {
        let conn = self.end.open()?;
        match body(conn) {
            Ok(result) => {
                if !conn.notices.is_empty() {
                    conn.notices.move_to(notices);
                }
                Some(result)
            }
            Err(why) => {
                self.leaving = self.end.end(&why, notices).flatten();
                None
            }
        }
    }
}
