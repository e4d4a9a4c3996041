//! An end of a connection as its nic and its handle share it.

use std::sync::Arc;

use rustix::io::Errno;

use super::datapath::{Conn, GONE};
use super::driver::Fixed;
use super::lanes::{Behind, Undrained};
use super::records::Scratch;
use super::token::Token;
use crate::atomics::Lean;
use crate::fabric::hub::end::End;
use crate::fabric::{Unposted, ViSpec};
use crate::vi::{
    Agreed, Counters, DrainId, Keys, Lane, Notices, Position, Posted, Reliability, Reply,
    SendError, Sink, Ticket, ViError, ViId,
};

#[derive(Debug)]
pub(super) struct Link {
    pub id: u64,
    pub peer: Arc<str>,
    pub level: Reliability,
    pub agreed: Agreed,
    pub drain: DrainId,
    state: Lean<State>,
}

#[derive(Debug)]
struct State {
    end: End<Conn>,
    /// Eager messages that a connection which has ended left.
    undrained: Option<Undrained>,
    /// How much of each lane had arrived at its end.
    arrived: [Position; 2],
}

/// What came of polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Polled {
    Nothing,
    Something,
    /// Something, and there is more of it: who waits looks at its deadline in between.
    Unfinished,
    /// Eager messages are there to be drained, or room for them.
    Eager,
    Gone,
}

impl Polled {
    /// Whether waits are to end, though nothing completed.
    pub(super) const fn is_news(self) -> bool {
        matches!(self, Self::Unfinished | Self::Eager | Self::Gone)
    }
}

impl Link {
    pub(super) fn new(id: u64, peer: &str, spec: ViSpec, agreed: Agreed, conn: Conn) -> Self {
        let arrived = [Position::default(); 2];
        let state = Lean::new(State { end: End::new(conn), undrained: None, arrived });
        let (level, drain) = (spec.reliability, spec.drain);
        Self { id, peer: Arc::from(peer), level, agreed, drain, state }
    }

    /// Has the sets wake up for it.
    pub(super) fn watch(&self, fixed: &Fixed) -> Result<(), Errno> {
        self.state.with(|state| {
            let Some(conn) = state.end.open() else { return Ok(()) };
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
        let (conn, posted) = state.end.admit(posted)?;
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
        let mut eager = false;
        let polled = work(&mut self.state.lock(), notices, |conn| {
            let polled = conn.poll(keys, thorough)?;
            eager = conn.has_eager_news()?;
            Ok(polled)
        });
        if eager && polled != Polled::Gone { Polled::Eager } else { polled }
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
            if let Some(conn) = state.end.open() {
                // Whether the peer is gone its socket tells.
                let _ = conn.rung(sleep);
            }
        });
    }

    pub(super) fn cancel(&self, ticket: Ticket, notices: &mut Notices) -> bool {
        self.state.with(|state| {
            let Some(conn) = state.end.open() else { return false };
            let cancelled = conn.cancel(ticket);
            conn.notices.move_to(notices);
            cancelled
        })
    }

    /// This side closes it: what came and was not drained is nobody's any more.
    pub(super) fn close(&self, why: ViError, notices: &mut Notices) {
        let undrained = self.state.with(|state| {
            work(state, notices, |_| Err(why.into()));
            state.undrained.take()
        });
        drop(undrained);
    }

    /// Sends an eager message, if nothing is against it.
    #[inline]
    pub(super) fn try_send(&self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Option<Behind> {
        self.state.with(|state| state.end.open()?.try_send(lane, tag, parts))
    }

    /// Sends an eager message, or says why not.
    #[cold]
    pub(super) fn send(
        &self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<Position, SendError> {
        self.state.with(|state| state.end.live()?.send(lane, tag, parts))
    }

    /// The peer is not to be believed.
    #[cold]
    pub(super) fn lied(&self, why: ViError, notices: &mut Notices) {
        self.work(notices, |_| Err(why.into()));
    }

    pub(super) fn arrived(&self, lane: Lane, asked: bool) -> Result<Position, SendError> {
        self.state.with(|state| match state.end.open() {
            Some(conn) => conn.arrived(lane, asked),
            None => Ok(state.arrived[lane as usize]),
        })
    }

    /// Passes eager messages that are there to `sink`, at most `budget`. How many.
    #[inline]
    pub(super) fn drain(
        &self,
        budget: usize,
        scratch: &mut Scratch,
        sink: &mut Sink<'_>,
        notices: &mut Notices,
    ) -> usize {
        let mut state = self.state.lock();
        let mut drained = 0;
        if state.end.open().is_none() {
            return state.drain_rest(budget, sink);
        }
        work(&mut state, notices, |conn| {
            drained = conn.drain(budget, scratch, sink)?;
            Ok(drained > 0)
        });
        drained
    }

    /// Whether nothing can come of it any more.
    pub(super) fn is_over(&self) -> bool {
        self.state.with(|state| state.end.open().is_none() && state.undrained.is_none())
    }

    pub(super) fn error(&self) -> Option<ViError> {
        self.state.with(|state| state.end.error())
    }

    pub(super) fn counters(&self) -> Counters {
        self.state.with(|state| state.end.counters())
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
    state: &mut State,
    notices: &mut Notices,
    body: impl FnOnce(&mut Conn) -> Result<bool, Box<ViError>>,
) -> Polled {
    let Some(conn) = state.end.open() else { return Polled::Gone };
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
            if let Some(undrained) = state.end.end(&why, notices) {
                state.arrived = undrained.arrived;
                state.undrained = (!undrained.is_empty()).then_some(undrained);
            }
            Polled::Gone
        }
    }
}

impl State {
    /// Passes what is left of a connection that has ended to `sink`.
    #[cold]
    fn drain_rest(&mut self, budget: usize, sink: &mut Sink<'_>) -> usize {
        let Some(why) = self.end.error() else { return 0 };
        let Some(undrained) = &mut self.undrained else { return 0 };
        let mut ended = Ended { vi: undrained.vi(), why };
        let mut drained = 0;
        while drained < budget
            && let Some((tag, bytes)) = undrained.take()
        {
            sink(&mut ended, tag, &bytes);
            drained += 1;
        }
        if undrained.is_empty() {
            self.undrained = None;
        }
        drained
    }
}

/// A connection that has ended, which an eager message came by.
struct Ended {
    vi: ViId,
    why: ViError,
}

impl Reply for Ended {
    fn vi(&self) -> ViId {
        self.vi
    }

    fn send(&mut self, _: Lane, _: u64, _: &[&[u8]]) -> Result<Position, SendError> {
        Err(SendError::Closed(self.why.clone()))
    }
}
