//! A request that waits for its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::Deadline;
use egret_net::vi::{Descriptor, Segment};

use super::answer::NoReply;
use super::message::{FewWords, ReceivedPayload, ReplyWords};
use super::{CallReply, MessageError};
use crate::frame::{ArrivedFrame, FrameKind};
use crate::link::{Fate, LinkError};
use crate::links::clock::DeadlineClock;
use crate::links::core::{LinksCore, WaitStopped};
use crate::links::link_side::LinkSide;
use crate::links::state::LinksState;
use crate::slots::SlotKey;
use crate::wakers::DeferredWaker;

/// A request that was sent. Its answer can be waited for ([`wait`](Self::wait)), or the call awaited
/// as a future. Dropping the call discards the answer; the request keeps its place in the window until
/// the peer has answered. [`wait_reply`](Self::wait_reply) has an example.
#[derive(Debug)]
#[must_use = "dropped, its answer is thrown away"]
pub struct Call {
    core: Arc<LinksCore>,
    link: SlotKey,
    key: SlotKey,
    taken: bool,
    /// The memory that the request sent, if the request failed.
    sent: Option<Box<Segment>>,
}

/// The answer of a call, written in place: an answer is large to move.
#[derive(Default)]
struct TakenAnswer {
    answer: Option<Result<CallReply, MessageError>>,
    /// The memory that the request sent, if the request failed.
    sent: Option<Box<Segment>>,
}

/// A request under way, in the table of its link.
#[derive(Debug)]
pub(crate) struct CallState {
    /// The number of its mapping.
    pub(crate) number: SlotKey,
    pub(crate) awaits: PendingParts,
    pub(crate) outcome: CallOutcome,
    few: FewWords,
    /// The memory that the request sent, after the fabric has given it back.
    pub(crate) sent: Option<Box<Segment>>,
    /// Whether the memory that the request sent is kept when the fabric gives it back.
    pub(crate) returns: bool,
    waker: Option<DeferredWaker>,
    abandoned: bool,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    /// No result yet, or an answer without words and bytes.
    Empty,
    /// An answer of [a few words](CallState::few).
    Few,
    /// An answer, as it arrived.
    Arrived(ArrivedFrame),
    /// The bytes that were read from a segment.
    Read(Box<ReceivedPayload>),
    Failed(Box<MessageError>),
}

/// What must happen before a call is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PendingParts {
    pub(crate) answer: bool,
    pub(crate) memory: bool,
    /// Whether the answer is a completion of the fabric: a frame of the peer is a protocol error.
    pub(crate) access: bool,
}

impl PendingParts {
    #[inline]
    pub(crate) const fn answer() -> Self {
        Self { answer: true, memory: false, access: false }
    }

    /// The completion of a read or write of a segment.
    pub(crate) const fn access() -> Self {
        Self { answer: true, memory: false, access: true }
    }

    pub(crate) const fn nothing(self) -> bool {
        !self.answer && !self.memory
    }
}

impl CallState {
    #[inline]
    pub(crate) const fn new(number: SlotKey, awaits: PendingParts) -> Self {
        Self {
            number,
            awaits,
            outcome: CallOutcome::Empty,
            few: FewWords::new(),
            sent: None,
            returns: true,
            waker: None,
            abandoned: false,
        }
    }

    /// Takes back the memory that the request sent.
    #[cold]
    pub(crate) fn memory_is_back(&mut self, frame: Descriptor) {
        if self.returns {
            self.sent = frame.into_segments().next().map(Box::new);
        }
        self.awaits.memory = false;
    }

    /// Whether the [`Call`] was dropped: the endpoint's error handler runs if the request fails.
    pub(crate) const fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Wakes the waiter if nothing is pending any more. Returns whether the entry can be removed.
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

    /// Sets an answer of a few words, which was all that was pending, and wakes the waiter.
    #[inline]
    pub(super) fn few_words(&mut self, bytes: &[u8]) {
        self.few.set_bytes(bytes);
        self.outcome = CallOutcome::Few;
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
            self.waker = Some(DeferredWaker::of(waker));
        }
        self.awaits.nothing()
    }
}

impl Call {
    pub(crate) const fn new(core: Arc<LinksCore>, link: SlotKey, key: SlotKey) -> Self {
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
    /// [`wait_reply`](Self::wait_reply) leaves it here. [`MessageError::InHandler`] inside a
    /// handler, if the answer is not there yet: await the call elsewhere, or have the answer
    /// [name a handler](super::Request::reply_with).
    #[track_caller]
    pub fn wait(mut self, deadline: impl Into<Deadline>) -> Result<CallReply, MessageError> {
        let _waits = self.core.waits("answer", Some(self.link));
        let deadline = deadline.into();
        self.taken = true;
        Self::wait_for(&self.core, self.link, self.key, &mut DeadlineClock::of(deadline))
    }

    /// Waits for the answer; if it has not come in time it may be waited for again. If there is
    /// none, [`take_sent`](Self::take_sent) has the memory that the request sent.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use egret_net::vi::Segment;
    /// # use egret_node::am::{MessageError, Message, RemoteEndpoint, CallReply};
    /// fn ask(remote: &RemoteEndpoint, data: Vec<f64>) -> Result<CallReply, (MessageError, Option<Segment>)> {
    ///     let sent = remote.try_request(Message::to(3).data(data));
    ///     let mut call = sent.map_err(|unsent| {
    ///         (unsent.why.into(), unsent.what.into_segments().pop())
    ///     })?;
    ///     let reply = call.wait_reply(Duration::from_secs(1));
    ///     reply.map_err(|why| (why, call.take_sent()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is none, or not in time; [`MessageError::InHandler`] as [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_reply(&mut self, deadline: impl Into<Deadline>) -> Result<CallReply, MessageError> {
        let _waits = self.core.waits("answer", Some(self.link));
        self.wait_more(deadline.into()).unwrap_or_else(|stopped| Err(stopped.into()))
    }

    /// Waits for the answer for a while; it may be waited for again.
    #[cfg(test)]
    pub(crate) fn wait_some(
        &mut self,
        deadline: Deadline,
    ) -> Option<Result<CallReply, MessageError>> {
        self.wait_more(deadline).ok()
    }

    fn wait_more(
        &mut self,
        deadline: Deadline,
    ) -> Result<Result<CallReply, MessageError>, WaitStopped> {
        let (link, key, mut taken) = (self.link, self.key, TakenAnswer::default());
        let wait = |state: &mut LinksState, waker: Option<&Waker>| {
            take(state, link, key, waker, &mut taken)
        };
        self.core.wait(deadline, wait)?;
        (self.taken, self.sent) = (true, taken.sent);
        Ok(taken.answer.unwrap_or_else(|| Err(gone())))
    }

    /// The memory that the request sent, if the request failed: it was not delivered, or that is not
    /// known. If there is an answer, [the answer](CallReply::take_sent) has the memory. Pieces that were
    /// [gathered](super::Message::gather) are not kept.
    #[must_use]
    pub fn take_sent(&mut self) -> Option<Segment> {
        self.sent.take().map(|sent| *sent)
    }

    /// The answer, if it has come.
    pub fn poll_reply(&mut self) -> Option<Result<CallReply, MessageError>> {
        if let Some(answer) = self.take(None) {
            return Some(answer);
        }
        self.core.poll();
        self.take(None)
    }

    /// Takes an answer that has come and is nothing but up to six words, and says how many. Any other
    /// answer stays. To move a few words is faster than to move a [`CallReply`].
    ///
    /// ```
    /// # use egret_node::am::{MessageError, RemoteEndpoint};
    /// fn sum(remote: &RemoteEndpoint, of: &[&[u64]]) -> Result<u64, MessageError> {
    ///     let calls = of.iter().map(|words| remote.try_request((3, *words)));
    ///     let calls: Vec<_> = calls.collect::<Result<_, _>>().map_err(|unsent| unsent.why)?;
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
    pub fn take_words(&mut self, words: &mut [u64; 6]) -> Option<usize> {
        let count = self.take_few(words);
        if count.is_some() {
            return count;
        }
        self.core.poll();
        self.take_few(words)
    }

    #[inline]
    fn take_few(&mut self, words: &mut [u64; FewWords::MAX]) -> Option<usize> {
        let (link, key) = (self.link, self.key);
        let count = self.core.state.with(|state| {
            let call = state.links.get(link)?.am.calls.get(key)?;
            if !matches!(call.outcome, CallOutcome::Few) || call.sent.is_some() {
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

    /// The answer, if it has come, without making progress.
    pub(crate) fn take_reply(&mut self) -> Option<Result<CallReply, MessageError>> {
        self.take(None)
    }

    fn take(&mut self, waker: Option<&Waker>) -> Option<Result<CallReply, MessageError>> {
        let mut taken = TakenAnswer::default();
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
        core: &Arc<LinksCore>,
        link: SlotKey,
        key: SlotKey,
        clock: &mut DeadlineClock,
    ) -> Result<CallReply, MessageError> {
        let mut taken = TakenAnswer::default();
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
    state: &mut LinksState,
    link: SlotKey,
    key: SlotKey,
    waker: Option<&Waker>,
    taken: &mut TakenAnswer,
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
    if let CallOutcome::Few = &call.outcome {
        *answer = Some(Ok(CallReply {
            words: ReplyWords::Few(FewWords::of(call.few.words())),
            payload: None,
            sent,
        }));
        state.remove_call(link, key);
        return Some(());
    }
    match std::mem::replace(&mut call.outcome, CallOutcome::Empty) {
        CallOutcome::Arrived(mut arrived) if arrived.head.kind != FrameKind::NoReply => {
            *answer = Some(Ok(CallReply::of(&mut arrived, sent)));
            state.answer_served(link, number, arrived);
        }
        CallOutcome::Arrived(arrived) => {
            *answer = Some(Err(NoReply::of(&arrived).to_error(state.inflows.budget.most())));
            taken.sent = sent;
            state.answer_served(link, number, arrived);
        }
        CallOutcome::Read(bytes) => {
            *answer = Some(Ok(CallReply { payload: Some(bytes), sent, ..CallReply::empty() }));
        }
        CallOutcome::Failed(why) => {
            *answer = Some(Err(*why));
            taken.sent = sent;
        }
        CallOutcome::Few | CallOutcome::Empty => {
            *answer = Some(Ok(CallReply { sent, ..CallReply::empty() }));
        }
    }
    state.remove_call(link, key);
    Some(())
}

#[cold]
fn gone() -> MessageError {
    MessageError::LinkLost { fate: Fate::Unknown, why: LinkError::Closed }
}

impl LinksState {
    #[inline]
    fn remove_call(&mut self, link: SlotKey, key: SlotKey) {
        if let Some(line) = self.links.get(link) {
            line.am.calls.clear(key);
        }
        self.forget_if_ended(link);
    }

    /// Discards the answer of a call: its [`Call`] was dropped, or its deadline has passed.
    fn abandon(&mut self, link: SlotKey, key: SlotKey) {
        let Some(line) = self.links.get(link) else { return };
        let Some(number) = line.am.calls.get(key).map(|call| call.number) else { return };
        if let Some(CallOutcome::Arrived(arrived)) = line.abandon(key) {
            self.answer_served(link, number, arrived);
        }
        self.forget_if_done(link);
    }
}

impl LinkSide {
    /// Discards the answer of a call, and returns the one that has come already.
    pub(crate) fn abandon(&mut self, key: SlotKey) -> Option<CallOutcome> {
        let call = self.am.calls.get(key)?;
        if call.awaits.nothing() {
            return self.am.calls.remove(key).map(|call| call.outcome);
        }
        call.abandoned = true;
        Some(std::mem::replace(&mut call.outcome, CallOutcome::Empty))
    }
}

impl Future for Call {
    type Output = Result<CallReply, MessageError>;

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
