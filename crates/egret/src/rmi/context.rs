//! What a thread knows of the call that it runs.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use egret_net::rt::{self, Deadline, Instant};

use super::called::Called;
use super::fault::{Fault, planted};
use super::words::Within;
use super::workers::Workers;

/// The call that the calling thread runs just now, if it does.
///
/// ```
/// assert!(egret::rmi::current().is_none());
/// ```
#[must_use]
pub fn current() -> Option<Current> {
    FRAME.with_borrow_mut(|frame| {
        let frame = frame.as_mut()?;
        let until = frame.until(rt::now());
        Some(Current { until, called: frame.called.clone() })
    })
}

/// A call that is being run; made by [`current`].
#[derive(Clone)]
pub struct Current {
    until: Option<Instant>,
    called: Option<Arc<Called>>,
}

impl Current {
    /// How long the caller still waits. Calls that the method makes wait no longer.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        self.until.map_or(Deadline::UntilDead, |until| Deadline::In(until.since(rt::now())))
    }

    /// Whether nobody wants the answer any more: the caller has said so, is gone, or its
    /// deadline has passed.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.called.as_ref().is_some_and(|called| called.is_cancelled())
            || self.until.is_some_and(|until| rt::now() >= until)
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("deadline", &self.deadline())
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}

/// A call that is being run.
pub(crate) struct Frame {
    until: Until,
    /// It, and the calls it is a part of, as far as they are inside of gates.
    within: Within,
    called: Option<Arc<Called>>,
    /// Whether the thread is one that receives.
    is_inline: bool,
    /// Whose worker the thread is.
    home: Option<Arc<Workers>>,
}

/// When a call is to be over.
enum Until {
    Known(Option<Instant>),
    /// So long after it arrived, which was just now: the clock is asked when somebody is.
    Left(Deadline),
}

impl Frame {
    /// Of a call that runs on the thread that received it.
    pub(crate) const fn inline(left: Deadline, within: Within) -> Self {
        Self { until: Until::Left(left), within, called: None, is_inline: true, home: None }
    }

    /// Of a call that a worker runs, or somebody where there are none.
    pub(crate) fn worker(
        until: Option<Instant>,
        within: Within,
        called: &Arc<Called>,
        home: Option<&Arc<Workers>>,
    ) -> Self {
        let (called, home) = (Some(Arc::clone(called)), home.cloned());
        Self { until: Until::Known(until), within, called, is_inline: false, home }
    }

    /// Of a call that the calling thread makes and runs itself.
    pub(crate) fn here(until: Option<Instant>, within: Within) -> Self {
        let (is_inline, home) = FRAME.with_borrow(|frame| {
            frame.as_ref().map_or((false, None), |frame| (frame.is_inline, frame.home.clone()))
        });
        Self { until: Until::Known(until), within, called: None, is_inline, home }
    }

    fn until(&mut self, now: Instant) -> Option<Instant> {
        let until = match self.until {
            Until::Known(until) => until,
            Until::Left(left) => left.until_from(now),
        };
        self.until = Until::Known(until);
        until
    }

    /// Runs `body` as this call.
    #[inline]
    pub(crate) fn run<R>(self, body: impl FnOnce() -> R) -> R {
        let _left = Left(FRAME.replace(Some(self)));
        body()
    }
}

/// Puts the frame back that was there before.
struct Left(Option<Frame>);

impl Drop for Left {
    fn drop(&mut self) {
        // What was there is dropped when nothing is borrowed: it may hold the last of a call.
        drop(FRAME.replace(self.0.take()));
    }
}

/// What a call that the calling thread makes inherits.
#[derive(Debug, Clone)]
pub(crate) struct Inherited {
    /// How long it may wait at most.
    pub(crate) deadline: Deadline,
    /// The calls it is a part of.
    pub(crate) within: Within,
    /// Whether it may not wait.
    pub(crate) is_inline: bool,
    /// Whose worker waits.
    pub(crate) home: Option<Arc<Workers>>,
}

impl Inherited {
    /// For a call that would wait for `deadline` by itself.
    #[inline]
    pub(crate) fn by(deadline: Deadline) -> Self {
        FRAME.with_borrow_mut(|frame| match frame {
            None => {
                let within = Within::default();
                Self { deadline, within, is_inline: false, home: None }
            }
            Some(frame) => Self::of(frame, deadline),
        })
    }

    fn of(frame: &mut Frame, deadline: Deadline) -> Self {
        let now = rt::now();
        let until = frame.until(now).filter(|_| !planted(Fault::Timeless));
        let left = until.map(|until| until.since(now));
        let deadline = match (deadline, left) {
            (deadline, None) => deadline,
            (Deadline::UntilDead, Some(left)) => Deadline::In(left),
            (Deadline::In(own), Some(left)) => Deadline::In(own.min(left)),
        };
        let (within, is_inline) = (frame.within.clone(), frame.is_inline);
        Self { deadline, within, is_inline, home: frame.home.clone() }
    }
}

thread_local! {
    static FRAME: RefCell<Option<Frame>> = const { RefCell::new(None) };
}
