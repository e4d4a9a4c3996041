//! An end of a connection as its nic and its handle share it.

use std::sync::Arc;

use rustix::io::Errno;

use super::datapath::Conn;
use super::driver::Fixed;
use super::send::Flushed;
use super::token::Token;
use crate::atomics::Lean;
use crate::fabric::Unposted;
use crate::fabric::hub::end::End;
use crate::fabric::hub::set;
use crate::vi::{Counters, Notices, Posted, Reliability, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Link {
    pub id: u64,
    pub peer: Arc<str>,
    pub level: Reliability,
    state: Lean<End<Conn>>,
}

/// What came of polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Polled {
    Nothing,
    Something,
    Gone,
}

impl Link {
    pub(super) fn new(id: u64, peer: &str, level: Reliability, conn: Conn) -> Self {
        let state = Lean::new(End::new(conn));
        Self { id, peer: Arc::from(peer), level, state }
    }

    /// Has the set say what there is to do.
    pub(super) fn watch(&self, fixed: &Fixed) -> Result<(), Errno> {
        self.state.with(|state| {
            let Some(conn) = state.open() else { return Ok(()) };
            Token::Link(self.id).watch(&fixed.set, conn.socket.fd(), conn.flags())
        })
    }

    /// Has the set say nothing more.
    pub(super) fn unwatch(&self, fixed: &Fixed) {
        self.state.with(|state| {
            if let Some(conn) = state.open() {
                let _ = set::forget(&fixed.set, conn.socket.fd());
            }
        });
    }

    /// Takes a descriptor. Whether the nic has something to do, and does not know it.
    #[inline]
    pub(super) fn post(
        &self,
        posted: Posted,
        fixed: &Fixed,
        notices: &mut Notices,
    ) -> Result<(bool, bool), Unposted> {
        let mut state = self.state.lock();
        let (conn, posted) = state.admit(posted)?;
        let dirty = conn.post(posted, &fixed.keys)?;
        if !conn.notices.is_empty() {
            conn.notices.move_to(notices);
        }
        Ok((dirty, dirty && !std::mem::replace(&mut conn.is_dirty, true)))
    }

    /// Takes what came and sends what can go.
    #[inline]
    pub(super) fn poll(
        self: &Arc<Self>,
        fixed: &Fixed,
        notices: &mut Notices,
        staging: &mut [u8],
    ) -> Polled {
        let polled = self.work(fixed, notices, |conn| {
            let came = conn.poll(&fixed.keys, staging)?;
            Ok((came, conn.is_newly_dirty()))
        });
        let Some((came, is_dirty)) = polled else { return Polled::Gone };
        if is_dirty {
            fixed.yard.push(Arc::clone(self));
        }
        if came { Polled::Something } else { Polled::Nothing }
    }

    /// Takes bytes that came already.
    pub(super) fn take(&self, bytes: &[u8], fixed: &Fixed, notices: &mut Notices) {
        self.work(fixed, notices, |conn| conn.take(bytes, &fixed.keys));
    }

    /// Writes what was posted; [thoroughly](Conn::push) before a sleep. `None` if it is
    /// over.
    pub(super) fn push(
        &self,
        fixed: &Fixed,
        notices: &mut Notices,
        thorough: bool,
    ) -> Option<Flushed> {
        self.work(fixed, notices, |conn| conn.push(&fixed.keys, thorough))
    }

    /// The kernel has room again.
    pub(super) fn has_room(&self) {
        self.state.with(|state| {
            if let Some(conn) = state.open() {
                conn.has_room();
            }
        });
    }

    /// The nic has come by.
    pub(super) fn unmark(&self) {
        self.state.with(|state| {
            if let Some(conn) = state.open() {
                conn.is_dirty = false;
            }
        });
    }

    /// Has the nic come by. Whether it would not have.
    pub(super) fn mark(&self) -> bool {
        self.state.with(|state| {
            state.open().is_some_and(|conn| !std::mem::replace(&mut conn.is_dirty, true))
        })
    }

    /// Whether the kernel takes no more.
    pub(super) fn is_full(&self) -> bool {
        self.state.with(|state| state.open().is_some_and(|conn| conn.is_full()))
    }

    pub(super) fn cancel(&self, ticket: Ticket, notices: &mut Notices) -> bool {
        self.state.with(|state| {
            let Some(conn) = state.open() else { return false };
            let cancelled = conn.cancel(ticket);
            conn.notices.move_to(notices);
            cancelled
        })
    }

    /// Whether it was open.
    pub(super) fn close(&self, why: ViError, fixed: &Fixed, notices: &mut Notices) -> bool {
        let was_open = self.error().is_none();
        self.work(fixed, notices, |_| Err::<(), _>(why.into()));
        was_open
    }

    pub(super) fn error(&self) -> Option<ViError> {
        self.state.with(|state| state.error())
    }

    pub(super) fn counters(&self) -> Counters {
        self.state.with(|state| state.counters())
    }

    /// Works on an open end; an error is the end of it.
    #[inline]
    fn work<R>(
        &self,
        fixed: &Fixed,
        notices: &mut Notices,
        body: impl FnOnce(&mut Conn) -> Result<R, Box<ViError>>,
    ) -> Option<R> {
        let mut state = self.state.lock();
        let conn = state.open()?;
        match body(conn) {
            Ok(result) => {
                if !conn.notices.is_empty() {
                    conn.notices.move_to(notices);
                }
                Some(result)
            }
            Err(why) => {
                let left = state.end(&why, notices);
                fixed.yard.leave(left.flatten());
                None
            }
        }
    }
}
