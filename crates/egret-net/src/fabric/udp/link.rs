//! An end of a connection as its nic and its handle share it.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::SocketAddrAny;

use super::assembly::Came;
use super::datapath::Conn;
use super::send::{Port, Stuck};
use super::socket::{Cut, Socket};
use super::wire::{Farewell, Head, Number, Piece};
use crate::atomics::Lean;
use crate::fabric::Unposted;
use crate::fabric::hub::end::End;
use crate::vi::{Counters, Notices, Posted, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Link {
    /// What the peer writes to; of a group, nothing.
    pub number: Number,
    /// What this end writes to.
    pub to: Number,
    pub at: SocketAddr,
    pub peer: String,
    gate: Gate,
    board: Arc<Board>,
    state: Lean<End<Conn>>,
}

/// The way to a peer.
#[derive(Debug)]
struct Gate {
    socket: Arc<Socket>,
    to: SocketAddrAny,
}

/// What the handles of connections leave for their nic to do.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// Whether there is anything on it.
    is_used: AtomicBool,
    notes: Mutex<Vec<Note>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    /// This connection is over.
    Over(Number),
    /// This one waits for room to send.
    Stuck(Number),
}

impl Board {
    fn put(&self, note: Note) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        self.is_used.store(true, Ordering::Release);
    }

    #[inline]
    pub(super) fn take(&self) -> Vec<Note> {
        if !self.is_used.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.is_used.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Port for &Gate {
    #[inline]
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Result<(), Stuck> {
        self.socket.send(&self.to, slices)
    }

    #[inline]
    fn send_small(&mut self, bytes: &[u8]) -> Result<(), Stuck> {
        self.socket.send_small(&self.to, bytes)
    }

    fn cuts(&self) -> bool {
        self.socket.cuts()
    }

    fn send_cut(&mut self, slices: &[IoSlice<'_>], size: u16) -> Result<Cut, Stuck> {
        self.socket.send_cut(&self.to, slices, size)
    }
}

impl Link {
    pub(super) fn new(
        numbers: [Number; 2],
        at: SocketAddr,
        socket: &Arc<Socket>,
        board: &Arc<Board>,
        conn: Conn,
    ) -> Self {
        let [number, to] = numbers;
        let gate = Gate { socket: Arc::clone(socket), to: at.into() };
        let (board, state) = (Arc::clone(board), Lean::new(End::new(conn)));
        Self { number, to, at, peer: at.to_string(), gate, board, state }
    }

    /// Whether it is one of a group.
    pub(super) fn is_member(&self) -> bool {
        self.at.ip().is_multicast()
    }

    pub(super) fn socket(&self) -> &Arc<Socket> {
        &self.gate.socket
    }

    /// Takes a descriptor. Whether the nic has something to do now.
    #[inline]
    pub(super) fn post(&self, posted: Posted, notices: &mut Notices) -> Result<bool, Unposted> {
        let mut state = self.state.lock();
        let (conn, posted) = state.admit(posted)?;
        let was_stuck = conn.is_stuck();
        let is_stuck = conn.post(posted, &mut &self.gate, notices)?;
        if is_stuck && !was_stuck {
            self.board.put(Note::Stuck(self.number));
        }
        Ok(is_stuck && !was_stuck)
    }

    /// Goes on with what waits for room. Whether something still does.
    pub(super) fn pump(&self, notices: &mut Notices) -> bool {
        self.open(|conn| {
            conn.pump(&mut &self.gate, notices);
            conn.is_stuck()
        })
        .unwrap_or(false)
    }

    /// A message arrived, or a part of one.
    #[inline]
    pub(super) fn arrive(
        &self,
        from: u64,
        piece: &Piece<'_>,
        notices: &mut Notices,
    ) -> Option<Came> {
        let mut state = self.state.lock();
        let conn = state.open()?;
        conn.hear();
        Some(conn.arrive(from, piece, notices))
    }

    /// The peer lives.
    pub(super) fn hear(&self) {
        self.open(|conn| conn.hear());
    }

    /// Some time has passed: asks whether the peer lives, or finds that it does not.
    /// Whether it is over.
    pub(super) fn beat(&self, notices: &mut Notices) -> bool {
        match self.open(Conn::beat) {
            Some(Ok(asks)) => {
                if asks {
                    self.say(&Head::probe(self.to));
                }
                false
            }
            Some(Err(why)) => {
                self.close(&why, notices);
                true
            }
            None => true,
        }
    }

    /// Says something to the peer, or loses it.
    pub(super) fn say(&self, head: &Head) {
        let _ = (&self.gate).send(&[IoSlice::new(head.bytes())]);
    }

    pub(super) fn cancel(&self, ticket: Ticket, notices: &mut Notices) -> bool {
        self.open(|conn| conn.cancel(ticket, notices)).unwrap_or(false)
    }

    /// Ends it, for this reason, and tells the peer if that is news to it.
    pub(super) fn close(&self, why: &ViError, notices: &mut Notices) {
        let farewell = match why {
            ViError::Closed => Some(Farewell::Closed),
            ViError::NicDown => Some(Farewell::NicDown),
            _ => None,
        };
        if self.state.with(|state| state.end(why, notices)).is_none() {
            return;
        }
        if let Some(why) = farewell.filter(|_| !self.is_member()) {
            self.say(&Head::goodbye(self.to, why));
        }
        self.board.put(Note::Over(self.number));
    }

    pub(super) fn error(&self) -> Option<ViError> {
        self.state.with(|state| state.error())
    }

    pub(super) fn counters(&self) -> Counters {
        self.state.with(|state| state.counters())
    }

    fn open<R>(&self, body: impl FnOnce(&mut Conn) -> R) -> Option<R> {
        self.state.with(|state| state.open().map(body))
    }
}
