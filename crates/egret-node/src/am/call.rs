//! A request that waits for its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::Deadline;
use egret_net::vi::{Descriptor, Segment};

use super::message::{Few, Landed, Words};
use super::no_reply::NoReply;
use super::{CallError, Reason, Reply};
use crate::link::arrived::Arrived;
use crate::link::{Fate, Kind, LinkError};
use crate::links::behind::Sleeper;
use crate::links::clock::Clock;
use crate::links::core::{Core, Stopped};
use crate::links::line::Line;
use crate::links::slots::Key;
use crate::links::state::State;

/// A request that was sent. Its answer can be waited for, or awaited; whoever drops it
/// does not want it, and the request keeps its place in the window until the peer has answered.
#[derive(Debug)]
#[must_use = "dropped, its answer is thrown away"]
pub struct Call {
    core: Arc<Core>,
    link: Key,
    key: Key,
    taken: bool,
    /// The memory it sent, if it failed.
    sent: Option<Box<Segment>>,
}

/// As many words as fit an answer that is [taken](Call::take_words) without more.
pub type FewWords = [u64; Few::MAX];

/// What was taken of a call, to where it stays: an answer is large to move.
#[derive(Default)]
struct Taken {
    answer: Option<Result<Reply, CallError>>,
    /// The memory it sent, if it failed.
    sent: Option<Box<Segment>>,
}

/// What a link knows of a request.
#[derive(Debug)]
pub(crate) struct CallState {
    /// The number of its mapping.
    pub(crate) number: Key,
    pub(crate) awaits: Awaits,
    pub(crate) outcome: Outcome,
    few: Few,
    /// The memory it sent, when that is back.
    pub(crate) sent: Option<Box<Segment>>,
    /// Whether the memory it sent is to come back.
    pub(crate) returns: bool,
    waker: Option<Sleeper>,
    abandoned: bool,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Nothing that anybody would want to know.
    Empty,
    /// An answer of [a few words](CallState::few).
    Few,
    /// An answer, as it arrived.
    Arrived(Arrived),
    /// What was read of a segment.
    Read(Box<Landed>),
    Failed(Box<CallError>),
}

/// What must happen before a call is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Awaits {
    pub(crate) answer: bool,
    pub(crate) memory: bool,
    /// Whether the fabric brings the answer, and no frame of the peer can.
    pub(crate) access: bool,
}

impl Awaits {
    #[inline]
    pub(crate) const fn answer() -> Self {
        Self { answer: true, memory: false, access: false }
    }

    /// What the fabric reads or writes.
    pub(crate) const fn access() -> Self {
        Self { answer: true, memory: false, access: true }
    }

    pub(crate) const fn nothing(self) -> bool {
        !self.answer && !self.memory
    }
}

impl CallState {
    #[inline]
    pub(crate) const fn new(number: Key, awaits: Awaits) -> Self {
        Self {
            number,
            awaits,
            outcome: Outcome::Empty,
            few: Few::new(),
            sent: None,
            returns: true,
            waker: None,
            abandoned: false,
        }
    }

    /// The memory it sent is back.
    #[cold]
    pub(crate) fn memory_is_back(&mut self, frame: Descriptor) {
        if self.returns {
            self.sent = frame.into_segments().next().map(Box::new);
        }
        self.awaits.memory = false;
    }

    /// Whether nobody holds it: the endpoint's error handler is told what becomes of it.
    pub(crate) const fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Something of what it awaits has come. Whether it can be forgotten.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        if !self.awaits.nothing() {
            return false;
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        self.abandoned
    }

    /// Its answer has come, which is all that it awaits: a few words.
    #[inline]
    pub(super) fn few_words(&mut self, bytes: &[u8]) {
        self.few.set_bytes(bytes);
        self.outcome = Outcome::Few;
        self.awaits.answer = false;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    #[inline]
    pub(super) fn poll(&mut self, waker: Option<&Waker>) -> bool {
        if let Some(waker) = waker
            && !self.awaits.nothing()
            && self.waker.as_ref().is_none_or(|known| !known.is(waker))
        {
            self.waker = Some(Sleeper::of(waker));
        }
        self.awaits.nothing()
    }
}

impl Call {
    pub(crate) const fn new(core: Arc<Core>, link: Key, key: Key) -> Self {
        Self { core, link, key, taken: false, sent: None }
    }

    /// The number of the request, as [`Request::number`](super::Request::number) says at the
    /// other side.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.key.index
    }

    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// If there is none, or not in time. The memory that the request sent is dropped then;
    /// [`wait_reply`](Self::wait_reply) leaves it here. [`CallError::InHandler`] inside a
    /// handler, if the answer is not there yet: await the call elsewhere, or have the answer
    /// [name a handler](super::Request::reply_with).
    pub fn wait(mut self, deadline: impl Into<Deadline>) -> Result<Reply, CallError> {
        let deadline = deadline.into();
        self.taken = true;
        Self::wait_for(&self.core, self.link, self.key, &mut Clock::of(deadline))
    }

    /// Waits for the answer; if it has not come in time it may be waited for again. If there is
    /// none, [`take_sent`](Self::take_sent) has the memory that the request sent.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use egret_net::vi::Segment;
    /// # use egret_node::am::{CallError, Message, Remote, Reply};
    /// fn ask(remote: &Remote, data: Vec<f64>) -> Result<Reply, (CallError, Option<Segment>)> {
    ///     let sent = remote.try_request(Message::to(3).data(data));
    ///     let mut call = sent.map_err(|unsent| {
    ///         (unsent.reason.into(), unsent.message.into_segments().pop())
    ///     })?;
    ///     let reply = call.wait_reply(Duration::from_secs(1));
    ///     reply.map_err(|why| (why, call.take_sent()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is none, or not in time; [`CallError::InHandler`] as [`wait`](Self::wait).
    pub fn wait_reply(&mut self, deadline: impl Into<Deadline>) -> Result<Reply, CallError> {
        self.wait_more(deadline.into()).unwrap_or_else(|stopped| Err(stopped.into()))
    }

    /// Waits for the answer for a while; it may be waited for again.
    pub(crate) fn wait_some(&mut self, deadline: Deadline) -> Option<Result<Reply, CallError>> {
        self.wait_more(deadline).ok()
    }

    fn wait_more(&mut self, deadline: Deadline) -> Result<Result<Reply, CallError>, Stopped> {
        let (link, key, mut taken) = (self.link, self.key, Taken::default());
        let wait =
            |state: &mut State, waker: Option<&Waker>| take(state, link, key, waker, &mut taken);
        self.core.wait(deadline, wait)?;
        (self.taken, self.sent) = (true, taken.sent);
        Ok(taken.answer.unwrap_or_else(|| Err(gone())))
    }

    /// The memory that the request sent, if there is no answer to it: it was not delivered, or
    /// whether it was is not known. Of an answer it is [the answer's](Reply::take_sent). What
    /// was [gathered](super::Message::gather) is not kept.
    #[must_use]
    pub fn take_sent(&mut self) -> Option<Segment> {
        self.sent.take().map(|sent| *sent)
    }

    /// The answer, if it has come.
    pub fn poll_reply(&mut self) -> Option<Result<Reply, CallError>> {
        if let Some(answer) = self.take(None) {
            return Some(answer);
        }
        self.core.poll();
        self.take(None)
    }

    /// Takes an answer that has come and is nothing but up to six words, and says how many. Any other
    /// answer stays. To move a few words is faster than to move a [`Reply`].
    ///
    /// ```
    /// # use egret_node::am::{CallError, Remote};
    /// fn sum(remote: &Remote, of: &[&[u64]]) -> Result<u64, CallError> {
    ///     let calls = of.iter().map(|words| remote.try_request((3, *words)));
    ///     let calls: Vec<_> = calls.collect::<Result<_, _>>().map_err(|unsent| unsent.reason)?;
    ///     let mut sum = 0;
    ///     for mut call in calls {
    ///         let mut words = [0; 6];
    ///         sum += match call.take_words(&mut words) {
    ///             Some(count) => words[..count].iter().sum::<u64>(),
    ///             None => call.wait(std::time::Duration::from_secs(1))?.words().iter().sum(),
    ///         };
    ///     }
    ///     Ok(sum)
    /// }
    /// ```
    #[inline]
    pub fn take_words(&mut self, words: &mut FewWords) -> Option<usize> {
        let count = self.take_few(words);
        if count.is_some() {
            return count;
        }
        self.core.poll();
        self.take_few(words)
    }

    #[inline]
    fn take_few(&mut self, words: &mut FewWords) -> Option<usize> {
        let (link, key) = (self.link, self.key);
        let count = self.core.state.with(|state| {
            let call = state.links.get(link)?.am.calls.get(key)?;
            if !matches!(call.outcome, Outcome::Few) || call.sent.is_some() {
                return None;
            }
            let few = call.few.words();
            words.iter_mut().zip(few).for_each(|(to, word)| *to = *word);
            let count = few.len();
            state.remove_call(link, key);
            Some(count)
        });
        self.taken |= count.is_some();
        count
    }

    fn take(&mut self, waker: Option<&Waker>) -> Option<Result<Reply, CallError>> {
        let mut taken = Taken::default();
        self.core.state.with(|state| take(state, self.link, self.key, waker, &mut taken));
        self.taken = taken.answer.is_some();
        if taken.sent.is_some() {
            self.sent = taken.sent;
        }
        taken.answer
    }

    /// Waits for the answer to a request, without a handle to it.
    #[inline]
    pub(super) fn wait_for(
        core: &Arc<Core>,
        link: Key,
        key: Key,
        clock: &mut Clock,
    ) -> Result<Reply, CallError> {
        let mut taken = Taken::default();
        let waited =
            core.wait_by(clock, &mut |state, waker| take(state, link, key, waker, &mut taken));
        match (waited, taken.answer) {
            (Ok(()), Some(answer)) => answer,
            (Err(stopped), _) => {
                core.state.with(|state| state.abandon(link, key));
                Err(stopped.into())
            }
            (Ok(()), None) => Err(gone()),
        }
    }
}

/// Takes the answer of a call, if it has come, to `taken`.
#[inline]
fn take(
    state: &mut State,
    link: Key,
    key: Key,
    waker: Option<&Waker>,
    taken: &mut Taken,
) -> Option<()> {
    let answer = &mut taken.answer;
    let call = state.links.get(link).and_then(|line| line.am.calls.get(key));
    let Some(call) = call else {
        *answer = Some(Err(gone()));
        return Some(());
    };
    if !call.poll(waker) {
        return None;
    }
    let (sent, number) = (call.sent.take(), call.number);
    if let Outcome::Few = &call.outcome {
        *answer =
            Some(Ok(Reply { words: Words::Few(Few::of(call.few.words())), payload: None, sent }));
        state.remove_call(link, key);
        return Some(());
    }
    match std::mem::replace(&mut call.outcome, Outcome::Empty) {
        Outcome::Arrived(mut arrived) if arrived.head.kind != Kind::NoReply => {
            *answer = Some(Ok(Reply::of(&mut arrived, sent)));
            state.answer_served(link, number, arrived);
        }
        Outcome::Arrived(arrived) => {
            *answer = Some(Err(NoReply::of(&arrived).to_error(state.inflows.budget.most())));
            taken.sent = sent;
            state.answer_served(link, number, arrived);
        }
        Outcome::Read(bytes) => {
            *answer = Some(Ok(Reply { payload: Some(bytes), sent, ..Reply::empty() }));
        }
        Outcome::Failed(why) => {
            *answer = Some(Err(*why));
            taken.sent = sent;
        }
        Outcome::Few | Outcome::Empty => {
            *answer = Some(Ok(Reply { sent, ..Reply::empty() }));
        }
    }
    state.remove_call(link, key);
    Some(())
}

#[cold]
fn gone() -> CallError {
    CallError::Undelivered(Reason::Link { fate: Fate::Unknown, why: LinkError::Closed })
}

impl State {
    #[inline]
    fn remove_call(&mut self, link: Key, key: Key) {
        if let Some(line) = self.links.get(link) {
            line.am.calls.clear(key);
        }
        self.forget_if_ended(link);
    }

    /// Nobody waits for a call any more.
    fn abandon(&mut self, link: Key, key: Key) {
        let Some(line) = self.links.get(link) else { return };
        let Some(number) = line.am.calls.get(key).map(|call| call.number) else { return };
        if let Some(Outcome::Arrived(arrived)) = line.abandon(key) {
            self.answer_served(link, number, arrived);
        }
        self.forget_if_done(link);
    }
}

impl Line {
    /// Nobody waits for a call any more.
    pub(crate) fn abandon(&mut self, key: Key) -> Option<Outcome> {
        let call = self.am.calls.get(key)?;
        if call.awaits.nothing() {
            return self.am.calls.remove(key).map(|call| call.outcome);
        }
        call.abandoned = true;
        Some(std::mem::replace(&mut call.outcome, Outcome::Empty))
    }
}

impl Future for Call {
    type Output = Result<Reply, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(answer) = self.take(None) {
            return Poll::Ready(answer);
        }
        self.core.poll();
        self.take(Some(context.waker())).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        self.core.state.with(|state| state.abandon(self.link, self.key));
    }
}
