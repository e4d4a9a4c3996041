//! An end of a connection as its nic and its handle share it.

use std::sync::Arc;

use rustix::io::Errno;

use super::datapath::{Conn, GONE};
use super::driver::Fixed;
use super::token::Token;
use crate::atomics::Lean;
use crate::fabric::Unposted;
use crate::fabric::hub::end::End;
use crate::vi::{Agreed, Counters, Keys, Notices, Posted, Reliability, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Link {
    pub id: u64,
    pub peer: Arc<str>,
    pub level: Reliability,
    pub agreed: Agreed,
    state: Lean<End<Conn>>,
}

/// What came of polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Polled {
    Nothing,
    Something,
    /// Something, and there is more of it: who waits looks at its deadline in between.
    Unfinished,
    Gone,
}

impl Polled {
    /// Whether waits are to end, though nothing completed.
    pub(super) const fn is_news(self) -> bool {
        matches!(self, Self::Unfinished | Self::Gone)
    }
}

impl Link {
    pub(super) fn new(id: u64, peer: &str, level: Reliability, agreed: Agreed, conn: Conn) -> Self {
        let state = Lean::new(End::new(conn));
        Self { id, peer: Arc::from(peer), level, agreed, state }
    }

    /// Has the sets wake up for it.
    pub(super) fn watch(&self, fixed: &Fixed) -> Result<(), Errno> {
        self.state.with(|state| {
            let Some(conn) = state.open() else { return Ok(()) };
            Token::Cord(self.id).watch(&fixed.bells, conn.cord_fd())?;
            Token::Control(self.id).watch(&fixed.sockets, conn.control_fd())?;
            let ended = Token::Ended(self.id);
            conn.process_fd().map_or(Ok(()), |fd| ended.watch(&fixed.sockets, fd))
        })
    }

    /// Takes a descriptor. Whether to [resume](Self::resume) then.
    #[inline]
    pub(super) fn post(&self, posted: Posted, keys: &Keys) -> Result<bool, Unposted> {
        let mut state = self.state.lock();
        let (conn, posted) = state.admit(posted)?;
        conn.post(posted, keys)?;
        Ok(conn.is_held_up() || !conn.notices.is_empty())
    }

    /// Takes slots that waited for what was posted, and says whom to tell.
    #[cold]
    pub(super) fn resume(&self, keys: &Keys, notices: &mut Notices) -> Polled {
        self.work(
            notices,
            |conn| {
                if conn.is_held_up() { conn.poll(keys, false) } else { Ok(false) }
            },
        )
    }

    /// Takes what came and sends what can go; see [`Conn::poll`].
    #[inline]
    pub(super) fn poll(&self, keys: &Keys, notices: &mut Notices, thorough: bool) -> Polled {
        work(&mut self.state.lock(), notices, |conn| conn.poll(keys, thorough))
    }

    /// The peer said something over its socket, or left.
    pub(super) fn hear(&self, keys: &Keys, notices: &mut Notices) -> Polled {
        self.work(notices, |conn| {
            conn.hear_all().inspect_err(|_| conn.last_look(keys))?;
            Ok(true)
        })
    }

    /// The peer's process has ended. A child of its may hold the socket open.
    pub(super) fn ended(&self, keys: &Keys, notices: &mut Notices) -> Polled {
        self.work(notices, |conn| {
            let why = conn.hear_all().err().unwrap_or_else(|| GONE.into());
            conn.last_look(keys);
            Err(why)
        })
    }

    /// The peer rang, which ended the sleep with this number.
    pub(super) fn rung(&self, sleep: u64) {
        self.state.with(|state| {
            if let Some(conn) = state.open() {
                // Whether the peer is gone its socket tells.
                let _ = conn.rung(sleep);
            }
        });
    }

    pub(super) fn cancel(&self, ticket: Ticket, notices: &mut Notices) -> bool {
        self.state.with(|state| {
            let Some(conn) = state.open() else { return false };
            let cancelled = conn.cancel(ticket);
            conn.notices.move_to(notices);
            cancelled
        })
    }

    pub(super) fn close(&self, why: ViError, notices: &mut Notices) {
        self.work(notices, |_| Err(why.into()));
    }

    pub(super) fn error(&self) -> Option<ViError> {
        self.state.with(|state| state.error())
    }

    pub(super) fn counters(&self) -> Counters {
        self.state.with(|state| state.counters())
    }

    fn work(
        &self,
        notices: &mut Notices,
        body: impl FnOnce(&mut Conn) -> Result<bool, Box<ViError>>,
    ) -> Polled {
        self.state.with(|state| work(state, notices, body))
    }
}

/// Works on an open end; an error is the end of it.
#[inline]
fn work(
    end: &mut End<Conn>,
    notices: &mut Notices,
    body: impl FnOnce(&mut Conn) -> Result<bool, Box<ViError>>,
) -> Polled {
    let Some(conn) = end.open() else { return Polled::Gone };
    match body(conn) {
        Ok(busy) => {
            if !conn.notices.is_empty() {
                conn.notices.move_to(notices);
            }
            match busy {
                true if conn.is_unfinished() => Polled::Unfinished,
                true => Polled::Something,
                false => Polled::Nothing,
            }
        }
        Err(why) => {
            end.end(&why, notices);
            Polled::Gone
        }
    }
}
