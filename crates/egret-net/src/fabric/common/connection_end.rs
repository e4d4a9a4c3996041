//! An end of a connection: open, or closed for good.

use crate::fabric::Unposted;
use crate::vi::{Counters, Lane, Notices, Position, PostError, Posted, Reply, ViError, ViId};

/// An open end, as a fabric implements it.
pub(in crate::fabric) trait OpenEnd {
    /// What remains of an end that has been closed.
    type Remainder;

    fn counters(&self) -> Counters;

    /// Closes the end: everything posted fails.
    fn fail(self, why: &ViError, notices: &mut Notices) -> Self::Remainder;
}

#[derive(Debug)]
pub(in crate::fabric) enum ConnectionEnd<C> {
    Open(Box<C>),
    /// In the error state, for good: its memory and its descriptors are released.
    Gone(Box<ClosedEnd>),
}

/// What is still known of a closed end.
#[derive(Debug)]
pub(in crate::fabric) struct ClosedEnd {
    why: ViError,
    counters: Counters,
}

impl<C: OpenEnd> ConnectionEnd<C> {
    pub(in crate::fabric) fn new(conn: C) -> Self {
        Self::Open(Box::new(conn))
    }

    /// The open end, to post to; or the descriptor back, with the reason.
    #[inline]
    pub(in crate::fabric) fn admit(
        &mut self,
        posted: Posted,
    ) -> Result<(&mut C, Posted), Unposted> {
        match self {
            Self::Open(conn) => Ok((conn, posted)),
            Self::Gone(gone) => Err(Unposted::new(PostError::Broken(gone.why.clone()), posted)),
        }
    }

    /// The open end, to send an eager message on.
    #[inline]
    pub(in crate::fabric) fn live(&mut self) -> Result<&mut C, PostError> {
        match self {
            Self::Open(conn) => Ok(conn),
            Self::Gone(gone) => Err(PostError::Broken(gone.why.clone())),
        }
    }

    #[inline]
    pub(in crate::fabric) fn open(&mut self) -> Option<&mut C> {
        match self {
            Self::Open(conn) => Some(conn),
            Self::Gone(_) => None,
        }
    }

    pub(in crate::fabric) fn if_open(&self) -> Option<&C> {
        match self {
            Self::Open(conn) => Some(conn),
            Self::Gone(_) => None,
        }
    }

    pub(in crate::fabric) fn error(&self) -> Option<ViError> {
        match self {
            Self::Open(_) => None,
            Self::Gone(gone) => Some(gone.why.clone()),
        }
    }

    pub(in crate::fabric) fn counters(&self) -> Counters {
        match self {
            Self::Open(conn) => conn.counters(),
            Self::Gone(gone) => gone.counters,
        }
    }

    /// Closes the end, if it is open. Once the error is visible, everything posted has completed.
    #[cold]
    pub(in crate::fabric) fn end(
        &mut self,
        why: &ViError,
        notices: &mut Notices,
    ) -> Option<C::Remainder> {
        let Self::Open(conn) = self else { return None };
        let gone = ClosedEnd { why: why.clone(), counters: conn.counters() };
        match std::mem::replace(self, Self::Gone(Box::new(gone))) {
            Self::Open(conn) => Some(conn.fail(why, notices)),
            Self::Gone(_) => None,
        }
    }
}

/// The reply handle of an eager message whose connection has been closed since: all sends fail.
pub(in crate::fabric) struct EndedReply {
    pub vi: ViId,
    pub why: ViError,
}

impl Reply for EndedReply {
    fn vi(&self) -> ViId {
        self.vi
    }

    fn send(&mut self, _: Lane, _: u64, parts: &[&[u8]]) -> Result<Position, PostError> {
        PostError::check_eager(parts)?;
        Err(PostError::Broken(self.why.clone()))
    }
}
