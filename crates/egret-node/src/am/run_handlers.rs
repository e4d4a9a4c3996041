//! Running handlers.

use std::sync::Arc;

use super::Undelivered;
use super::bundle::{Handling, Upcall, UpcallHandler, UpcallKind};
use super::request::{ReplyAddress, Request};
use crate::frame::{ArrivedFrame, FrameHead};
use crate::in_handler::{as_handler, to_end};
use crate::links::core::LinksCore;
use crate::links::state::LinksState;

/// How far a handler is with its answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerState {
    /// The handler has not answered.
    #[default]
    Missing,
    /// There is no handler.
    NoHandler,
    /// The handler panicked before it answered.
    Panicked,
    /// The answer was sent, or a [`ReplySlot`](super::ReplySlot) will send it.
    Sent,
    /// The message was [kept](super::Request::keep): its sender may send another when it is dropped.
    Kept,
    /// The answer is a few words, which are sent when the handler has ended.
    Few,
}

impl AnswerState {
    /// Whether the answer is no affair of the handler any more.
    #[inline]
    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::Sent | Self::Kept)
    }
}

/// Runs an upcall, and then those that are due: until `leave` says so, which is asked after each
/// of them, and no more than [`JOBS_MAX`]. Whether some are left, for the thread that drives next.
#[inline]
pub(crate) fn run_jobs(
    core: &Arc<LinksCore>,
    mut job: Box<Upcall>,
    mut leave: impl FnMut(&mut LinksState) -> bool,
) -> bool {
    for left in (0..JOBS_MAX).rev() {
        run(core, &mut job);
        let mut unused = None;
        let (next, has_more) = core.state.with(|state| {
            state.finish(job, &mut unused);
            let stays = !leave(state) && left > 0;
            let next = if stays { state.next_job() } else { None };
            (next, state.has_jobs())
        });
        drop_unused(unused);
        let Some(next) = next else { return has_more };
        job = next;
    }
    false
}

/// Drops a handler that is not needed any more, without any lock: it may own what takes one.
#[inline]
fn drop_unused(unused: Option<UpcallHandler>) {
    if unused.is_some() {
        to_end(|| drop(unused));
    }
}

/// Runs the handler of an upcall.
#[inline]
fn run(core: &Arc<LinksCore>, upcall: &mut Upcall) {
    let handling = &mut upcall.handling;
    match (&mut upcall.what, &mut upcall.run) {
        (UpcallKind::Message { from, arrived }, run @ Some(UpcallHandler::Shared(..))) => {
            if let Some(UpcallHandler::Shared(handler, _)) = run.take() {
                // The last of a handler goes here, where no lock is held.
                call(core, move |request| handler(request), *from, arrived, handling);
            }
        }
        (UpcallKind::Message { from, arrived }, Some(UpcallHandler::Handler(handler))) => {
            call(core, handler, *from, arrived, handling);
        }
        _ => tell(core, upcall),
    }
}

/// Runs the handler of an upcall that is not a message.
#[cold]
fn tell(core: &Arc<LinksCore>, upcall: &mut Upcall) {
    match (&mut upcall.what, &mut upcall.run) {
        (UpcallKind::Answer { link, arrived, .. }, Some(UpcallHandler::Handler(handler))) => {
            let from = ReplyAddress { link: *link, slot: upcall.endpoint, request: None };
            call(core, handler, from, arrived, &mut upcall.handling);
        }
        (UpcallKind::Answer { link, arrived, .. }, Some(UpcallHandler::Shared(handler, _))) => {
            let from = ReplyAddress { link: *link, slot: upcall.endpoint, request: None };
            let handler = Arc::clone(handler);
            call(core, move |request| handler(request), from, arrived, &mut upcall.handling);
        }
        (UpcallKind::Returned { arrived, .. }, Some(UpcallHandler::OnError(handler))) => {
            as_handler(|| handler(Undelivered::of_returned(arrived)));
        }
        (UpcallKind::Undelivered(_), Some(UpcallHandler::OnError(handler))) => {
            if let UpcallKind::Undelivered(undelivered) = std::mem::take(&mut upcall.what) {
                as_handler(|| handler(*undelivered));
            }
        }
        (UpcallKind::Ended(_), Some(UpcallHandler::OnEnd(handler))) => {
            if let UpcallKind::Ended(ended) = std::mem::take(&mut upcall.what) {
                as_handler(|| handler(*ended));
            }
        }
        (UpcallKind::Path { peer, bytes, .. }, Some(UpcallHandler::Path(handler))) => {
            as_handler(|| handler(peer, bytes));
        }
        (UpcallKind::Closed, run @ Some(UpcallHandler::Drop(_))) => {
            if let Some(UpcallHandler::Drop(table)) = run.take() {
                to_end(|| drop(table));
            }
        }
        _ => {}
    }
}

/// Calls a handler.
#[inline]
fn call(
    core: &Arc<LinksCore>,
    handler: impl FnOnce(Request<'_>),
    from: ReplyAddress,
    arrived: &mut ArrivedFrame,
    handling: &mut Handling,
) {
    let mut words = [0; FrameHead::WORDS_MAX];
    let count = arrived.read_words(&mut words);
    let words = &words[..count];
    let request = Request { core, from, words, arrived, handling: &mut *handling };
    if !as_handler(|| handler(request)) && handling.answer == AnswerState::Missing {
        handling.answer = AnswerState::Panicked;
    }
}

/// Handlers that a thread runs in a row before it receives again.
const JOBS_MAX: u32 = 64;
