//! An end of a connection as its nic and its handle share it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll;
use rustix::io::Errno;

use super::datapath::{Conn, GONE};
use super::token::Token;
use crate::fabric::Unposted;
use crate::vi::{Counters, Keys, Notices, Posted, Refused, Reliability, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Link {
    pub id: u64,
    pub peer: Arc<str>,
    pub level: Reliability,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Open(Box<Conn>),
    /// In the error state, for good. Its memory and its descriptors are gone.
    Gone {
        why: ViError,
        counters: Counters,
    },
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
        let state = Mutex::new(State::Open(Box::new(conn)));
        Self { id, peer: Arc::from(peer), level, state }
    }

    /// Has the set wake up for it.
    pub(super) fn watch(&self, epoll: &OwnedFd) -> Result<(), Errno> {
        let State::Open(conn) = &*self.lock() else { return Ok(()) };
        Token::Control(self.id).watch(epoll, conn.control_fd())?;
        Token::Cord(self.id).watch(epoll, conn.cord_fd())?;
        conn.process_fd().map_or(Ok(()), |fd| Token::Ended(self.id).watch(epoll, fd))
    }

    pub(super) fn post(
        &self,
        posted: Posted,
        keys: &Keys,
        notices: &mut Notices,
    ) -> Result<(), Unposted> {
        let mut state = self.lock();
        match &mut *state {
            State::Gone { why, .. } => Err(Unposted::new(Refused::Broken(why.clone()), posted)),
            State::Open(conn) => {
                conn.post(posted, keys, notices)?;
                if conn.is_held_up() {
                    state.work(notices, |conn, notices| conn.poll(keys, notices, false));
                }
                Ok(())
            }
        }
    }

    /// Takes what came and sends what can go; see [`Conn::poll`].
    pub(super) fn poll(&self, keys: &Keys, notices: &mut Notices, thorough: bool) -> Polled {
        self.lock().work(notices, |conn, notices| conn.poll(keys, notices, thorough))
    }

    /// The peer said something over its socket, or left.
    pub(super) fn hear(&self, keys: &Keys, notices: &mut Notices) -> Polled {
        self.lock().work(notices, |conn, notices| {
            conn.hear_all().inspect_err(|_| conn.last_look(keys, notices))?;
            Ok(true)
        })
    }

    /// The peer's process has ended. A child of its may hold the socket open.
    pub(super) fn ended(&self, keys: &Keys, notices: &mut Notices) -> Polled {
        self.lock().work(notices, |conn, notices| {
            let why = conn.hear_all().err().unwrap_or(GONE);
            conn.last_look(keys, notices);
            Err(why)
        })
    }

    /// The peer rang.
    pub(super) fn rung(&self, epoll: &OwnedFd) {
        let State::Open(conn) = &*self.lock() else { return };
        if conn.drain_cord().is_err() {
            // It would stay readable. Whether the peer is gone its socket tells.
            let _ = epoll::delete(epoll, conn.cord_fd());
        }
    }

    pub(super) fn cancel(&self, ticket: Ticket, notices: &mut Notices) -> bool {
        match &mut *self.lock() {
            State::Open(conn) => conn.cancel(ticket, notices),
            State::Gone { .. } => false,
        }
    }

    pub(super) fn close(&self, why: ViError, notices: &mut Notices) {
        self.lock().work(notices, |_, _| Err(why));
    }

    pub(super) fn error(&self) -> Option<ViError> {
        match &*self.lock() {
            State::Open(_) => None,
            State::Gone { why, .. } => Some(why.clone()),
        }
    }

    pub(super) fn counters(&self) -> Counters {
        match &*self.lock() {
            State::Open(conn) => conn.counters(),
            State::Gone { counters, .. } => *counters,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Works on an open end; an error is the end of it.
    fn work(
        &mut self,
        notices: &mut Notices,
        body: impl FnOnce(&mut Conn, &mut Notices) -> Result<bool, ViError>,
    ) -> Polled {
        let Self::Open(conn) = self else { return Polled::Gone };
        let why = match body(conn, notices) {
            Ok(true) => return Polled::Something,
            Ok(false) => return Polled::Nothing,
            Err(why) => why,
        };
        let gone = Self::Gone { why: why.clone(), counters: conn.counters() };
        if let Self::Open(conn) = std::mem::replace(self, gone) {
            conn.fail(&why, notices);
        }
        Polled::Gone
    }
}
