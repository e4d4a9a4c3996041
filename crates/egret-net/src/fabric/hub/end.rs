//! An end of a connection: open, or gone for good.

use crate::fabric::Unposted;
use crate::vi::{
    Counters, Lane, Notices, Position, Posted, Refused, Reply, SendError, ViError, ViId,
};

/// What an end is while it is open.
pub(in crate::fabric) trait Open {
    /// What is left to do when it has ended.
    type Left;

    fn counters(&self) -> Counters;

    /// Ends it: everything posted fails.
    fn fail(self, why: &ViError, notices: &mut Notices) -> Self::Left;
}

#[derive(Debug)]
pub(in crate::fabric) enum End<C> {
    Open(Box<C>),
    /// In the error state, for good. Its memory and its descriptors are gone.
    Gone(Box<Gone>),
}

/// What is known of an end that is gone.
#[derive(Debug)]
pub(in crate::fabric) struct Gone {
    why: ViError,
    counters: Counters,
}

impl<C: Open> End<C> {
    pub(in crate::fabric) fn new(conn: C) -> Self {
        Self::Open(Box::new(conn))
    }

    /// What is open, to post to; or the descriptor back, with the reason.
    #[inline]
    pub(in crate::fabric) fn admit(
        &mut self,
        posted: Posted,
    ) -> Result<(&mut C, Posted), Unposted> {
        match self {
            Self::Open(conn) => Ok((conn, posted)),
            Self::Gone(gone) => Err(Unposted::new(Refused::Broken(gone.why.clone()), posted)),
        }
    }

    /// What is open, to send an eager message on.
    #[inline]
    pub(in crate::fabric) fn live(&mut self) -> Result<&mut C, SendError> {
        match self {
            Self::Open(conn) => Ok(conn),
            Self::Gone(gone) => Err(SendError::Closed(gone.why.clone())),
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

    /// Ends it, if it is open. Whoever sees the error finds everything completed.
    #[cold]
    pub(in crate::fabric) fn end(
        &mut self,
        why: &ViError,
        notices: &mut Notices,
    ) -> Option<C::Left> {
        let Self::Open(conn) = self else { return None };
        let gone = Gone { why: why.clone(), counters: conn.counters() };
        match std::mem::replace(self, Self::Gone(Box::new(gone))) {
            Self::Open(conn) => Some(conn.fail(why, notices)),
            Self::Gone(_) => None,
        }
    }
}

/// A connection that has ended, by which an eager message came before.
pub(in crate::fabric) struct Ended {
    pub vi: ViId,
    pub why: ViError,
}

impl Reply for Ended {
    fn vi(&self) -> ViId {
        self.vi
    }

    fn send(&mut self, _: Lane, _: u64, parts: &[&[u8]]) -> Result<Position, SendError> {
        SendError::check(parts)?;
        Err(SendError::Closed(self.why.clone()))
    }
}
