//! The call that a thread runs, and what the calls that it makes inherit from it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use egret_net::rt::{self, ContextSwitches, Deadline, Instant};
use egret_node::Awaited;

use crate::rmi::NodeId;
use crate::rmi::callee::calls::{CallTable, CallTicket};
use crate::rmi::fault::{self, Fault, planted};
use crate::rmi::head::EnclosingCalls;
use crate::rmi::interface_table::StubInterface;
use crate::rmi::threads::workers::Workers;

/// The call that the calling thread runs, if it runs one.
///
/// ```
/// assert!(egret::rmi::current().is_none());
/// ```
#[must_use]
pub fn current() -> Option<CurrentCall> {
    FRAME.with_borrow_mut(|frame| {
        let frame = frame.as_mut()?;
        let until = frame.until(rt::now());
        Some(CurrentCall { until, call: frame.call.clone() })
    })
}

/// A call that a thread runs. [`current`] returns it, and has an example.
#[derive(Clone)]
pub struct CurrentCall {
    until: Option<Instant>,
    call: Option<(Arc<CallTable>, CallTicket)>,
}

impl CurrentCall {
    /// How long the caller still waits. Calls that the method makes wait no longer.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        Deadline::left(self.until)
    }

    /// Whether the answer is not wanted any more: the caller has said so, is gone, its deadline has
    /// passed, or the call is over. Of a method that runs on its caller's thread, and of one that
    /// is `#[nonblocking]`, only the deadline is known.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.call.as_ref().is_some_and(|(calls, ticket)| calls.is_unwanted(*ticket))
            || self.until.is_some_and(|until| rt::now() >= until)
    }
}

impl fmt::Debug for CurrentCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("deadline", &self.deadline())
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}

/// A call that is being run.
pub(crate) struct CallFrame {
    until: FrameDeadline,
    /// It, and the calls it is a part of, as far as they are inside of gates.
    within: EnclosingCalls,
    /// The chain of calls that it is a part of.
    chain: u64,
    /// Where it is among the calls of its node, if it is.
    call: Option<(Arc<CallTable>, CallTicket)>,
    /// Whether the method runs inside the handler of its call, and may not wait.
    is_inline: bool,
    /// Whose worker the thread is.
    home: Option<Arc<Workers>>,
    /// The method that runs.
    method: MethodName,
}

/// A method of an object of this node, for reports of panics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MethodName {
    pub(crate) node: NodeId,
    pub(crate) object: u64,
    pub(crate) interface: &'static StubInterface,
    pub(crate) method: u8,
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, object, interface, method } = self;
        let name = (interface.method)(usize::from(*method));
        write!(f, "method `{}::{name}` of object {object:016x} of node {node}", interface.interface)
    }
}

/// Which method the calling thread runs, if it runs one.
pub(crate) fn running_method() -> Option<String> {
    FRAME.try_with(|frame| Some(frame.try_borrow().ok()?.as_ref()?.method.to_string())).ok()?
}

/// When a call is to be over.
enum FrameDeadline {
    Known(Option<Instant>),
    /// So long after it arrived, which was just now: the clock is asked when somebody is.
    Left(Deadline),
}

impl CallFrame {
    /// Of a call that runs inside its handler.
    pub(crate) const fn inline(
        method: MethodName,
        left: Deadline,
        within: EnclosingCalls,
        chain: u64,
    ) -> Self {
        let until = FrameDeadline::Left(left);
        Self { until, within, chain, call: None, is_inline: true, home: None, method }
    }

    /// Of a call of a plain method, which a worker runs if `home` is given.
    pub(crate) fn call(
        method: MethodName,
        until: Option<Instant>,
        (within, chain): (EnclosingCalls, u64),
        (calls, ticket): (&Arc<CallTable>, CallTicket),
        home: Option<&Arc<Workers>>,
    ) -> Self {
        let (call, home) = (Some((Arc::clone(calls), ticket)), home.cloned());
        let until = FrameDeadline::Known(until);
        Self { until, within, chain, call, is_inline: false, home, method }
    }

    /// Of a call that the calling thread makes and runs itself.
    pub(crate) fn here(
        method: MethodName,
        until: Option<Instant>,
        within: EnclosingCalls,
        chain: u64,
    ) -> Self {
        let (is_inline, home) = FRAME.with_borrow(|frame| {
            frame.as_ref().map_or((false, None), |frame| (frame.is_inline, frame.home.clone()))
        });
        let until = FrameDeadline::Known(until);
        Self { until, within, chain, call: None, is_inline, home, method }
    }

    fn until(&mut self, now: Instant) -> Option<Instant> {
        let until = match self.until {
            FrameDeadline::Known(until) => until,
            FrameDeadline::Left(left) => left.until_from(now),
        };
        self.until = FrameDeadline::Known(until);
        until
    }

    /// Runs `body` as this call.
    #[inline]
    pub(crate) fn run<R>(self, body: impl FnOnce() -> R) -> R {
        let _left = FrameGuard(FRAME.replace(Some(self)));
        body()
    }
}

/// Puts the frame back that was there before.
struct FrameGuard(Option<CallFrame>);

impl Drop for FrameGuard {
    fn drop(&mut self) {
        // What was there is dropped when nothing is borrowed: it may hold the last of a call.
        drop(FRAME.replace(self.0.take()));
    }
}

/// What a call inherits from the one that the calling thread runs.
#[derive(Debug, Clone)]
pub(crate) struct Inherited {
    /// How long it may wait at most.
    pub(crate) deadline: Deadline,
    /// The calls it is a part of.
    pub(crate) within: EnclosingCalls,
    /// The chain of them, a new one if there are none.
    pub(crate) chain: u64,
    /// Whether it is a part of a call that the thread runs.
    pub(crate) is_nested: bool,
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
                let (within, chain) = (EnclosingCalls::default(), new_chain());
                Self { deadline, within, chain, is_nested: false, is_inline: false, home: None }
            }
            Some(frame) => Self::of(frame, deadline),
        })
    }

    /// For a thread that waits for a call that was begun, of a chain.
    pub(crate) fn of_chain(chain: u64) -> Self {
        let (deadline, within) = (Deadline::UntilDead, EnclosingCalls::default());
        FRAME.with_borrow(|frame| {
            let is_inline = frame.as_ref().is_some_and(|frame| frame.is_inline);
            let home = frame.as_ref().and_then(|frame| frame.home.clone());
            Self { deadline, within, chain, is_nested: frame.is_some(), is_inline, home }
        })
    }

    /// Waits for others, and lets another thread run calls meanwhile if this is a worker. Of what
    /// the thread receives it runs what is a part of the call.
    #[inline]
    pub(crate) fn away<R>(&self, body: impl FnOnce() -> R) -> R {
        let _waits = ChainWait::new(self.chain);
        away(|| match &self.home {
            Some(home) => home.while_away(body),
            None => body(),
        })
    }

    fn of(frame: &mut CallFrame, deadline: Deadline) -> Self {
        let now = rt::now();
        let until = fault::inherited(frame.until(now));
        let left = until.map(|until| until.since(now));
        let deadline = match (deadline, left) {
            (deadline, None) => deadline,
            (Deadline::UntilDead, Some(left)) => Deadline::In(left),
            (Deadline::In(own), Some(left)) => Deadline::In(own.min(left)),
        };
        let (within, chain, is_inline) = (frame.within.clone(), frame.chain, frame.is_inline);
        let home = frame.home.clone();
        Self { deadline, within, chain, is_nested: true, is_inline, home }
    }
}

/// A number that no other chain of calls has, of any node, nor any call that is inside of a gate. Who
/// knows some of them cannot tell the next: a call that has the number of a chain runs on the thread
/// that waits, and one that has the number of a call inside passes those that wait. About 40 ns.
pub(crate) fn new_chain() -> u64 {
    if rt::is_simulated() {
        // Of the world, so that what happens there depends on nothing else.
        return rt::random();
    }
    CHAINS.with_borrow_mut(|(secret, count)| {
        *count += 1;
        let mut hasher = secret.clone();
        hasher.write_u64(*count);
        hasher.finish()
    })
}

/// The calling thread waits for a call of a chain, until this is dropped.
struct ChainWait(Option<(u64, u32)>);

impl ChainWait {
    #[inline]
    fn new(chain: u64) -> Self {
        Self(WAITS.replace(Some((chain, Awaited::depth()))))
    }
}

impl Drop for ChainWait {
    #[inline]
    fn drop(&mut self) {
        WAITS.set(self.0);
    }
}

/// A run of a method that is timed: what it waits for calls of its own does not count, because its
/// thread receives meanwhile.
pub(crate) struct MethodTimer {
    started: Instant,
    outer: Option<Duration>,
    /// How often the thread had left its core, and how long it had run, if that is to be known.
    before: Option<(ContextSwitches, Duration)>,
}

impl MethodTimer {
    /// With `asks`, it is known then whether the thread lost its core meanwhile.
    pub(crate) fn begin(asks: bool) -> Self {
        let before = asks.then(|| (rt::context_switches(), rt::ran_for()));
        Self { started: rt::now(), outer: AWAY.replace(Some(Duration::ZERO)), before }
    }

    /// What it was like. If it took more than `long`, and the thread lost its core meanwhile and waited
    /// for nothing, the time in which the thread did not run does not count.
    pub(crate) fn end(self, long: Duration) -> MethodTime {
        let away = AWAY.replace(self.outer).unwrap_or_default();
        let time = (rt::now() - self.started).saturating_sub(away);
        let Some((before, ran)) = self.before.filter(|_| time > long) else {
            return MethodTime { time, has_waited: false };
        };
        let now = rt::context_switches();
        let has_waited = now.waited > before.waited;
        if now.lost == before.lost || has_waited {
            return MethodTime { time, has_waited };
        }
        MethodTime { time: time.min(rt::ran_for().saturating_sub(ran)), has_waited }
    }
}

/// How long a run of a method took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MethodTime {
    pub(crate) time: Duration,
    /// Whether its thread is known to have slept meanwhile.
    pub(crate) has_waited: bool,
}

/// Waits, in a method or not.
#[inline]
fn away<R>(body: impl FnOnce() -> R) -> R {
    if AWAY.get().is_some() { timed_away(body) } else { body() }
}

#[cold]
fn timed_away<R>(body: impl FnOnce() -> R) -> R {
    let started = rt::now();
    let ended = body();
    AWAY.set(AWAY.get().map(|away| away + (rt::now() - started)));
    ended
}

/// Whether a call is a part of one that the calling thread waits for, or that a future awaits which
/// it runs, and there is room on its stack to run it.
pub(crate) fn waits_for(chain: u64) -> bool {
    is_own(chain) && {
        let here = 0_u8;
        rt::stack_below((&raw const here).addr()).is_some_and(|left| left >= STACK_LEAST)
    }
}

fn is_own(chain: u64) -> bool {
    // Whichever the thread began last.
    let is_own = match WAITS.get() {
        Some((waits, depth)) if depth == Awaited::depth() => waits == chain,
        _ => Awaited::has(chain),
    };
    is_own || is_waiting() && planted(Fault::ServesOthers)
}

/// Whether the calling thread waits for a call, or runs a future.
pub(crate) fn is_waiting() -> bool {
    WAITS.get().is_some() || Awaited::depth() > 0
}

/// Stack that is left when a thread runs a call while it waits for another: enough for the method
/// and for what it waits for. Beyond that other threads run them.
const STACK_LEAST: usize = 1 << 20;

thread_local! {
    /// What numbers of chains are made of: a hasher that has taken 128 random bits in, and how many
    /// there were.
    static CHAINS: RefCell<(DefaultHasher, u64)> = {
        let mut secret = DefaultHasher::new();
        [(); 2].map(|()| rt::random()).hash(&mut secret);
        RefCell::new((secret, 0))
    };
    /// The chain of the call that the thread waits for, and how many futures it runs around that.
    static WAITS: Cell<Option<(u64, u32)>> = const { Cell::new(None) };
    /// How long the method that the thread runs has waited, if that is timed.
    static AWAY: Cell<Option<Duration>> = const { Cell::new(None) };
    static FRAME: RefCell<Option<CallFrame>> = const { RefCell::new(None) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rmi::fault::caught;

    #[test]
    fn a_waiting_call_runs_only_its_own_chain() {
        runs_its_own();
        assert!(caught(Fault::ServesOthers, runs_its_own));
    }

    fn runs_its_own() {
        let [outer, inner, other] = [(); 3].map(|()| new_chain());
        assert!(!waits_for(outer), "it does not wait");
        let waits = ChainWait::new(outer);
        assert!(waits_for(outer));
        assert!(!waits_for(other));
        let nested = ChainWait::new(inner);
        assert!(waits_for(inner) && !waits_for(outer));
        drop(nested);
        assert!(waits_for(outer));
        drop(waits);
        assert!(!waits_for(outer));
    }

    #[test]
    fn what_a_method_waits_for_its_calls_does_not_count() {
        let short = Duration::from_millis(5);
        let before = rt::now();
        let timed = MethodTimer::begin(false);
        let waited = away(|| {
            let started = rt::now();
            // Another method that runs on the thread meanwhile has a time of its own.
            let inner = MethodTimer::begin(false);
            rt::sleep(short);
            away(|| rt::sleep(short));
            assert!(inner.end(short).time >= short);
            rt::now() - started
        });
        assert!(timed.end(short).time <= rt::now() - before - waited);
        assert_eq!(AWAY.get(), None);
    }

    #[test]
    fn numbers_of_chains_differ() {
        let mut numbers: Vec<_> = (0..10_000).map(|_| new_chain()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 10_000);
    }
}
