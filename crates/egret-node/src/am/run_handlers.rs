//! Running handlers.

use std::cell::Cell;
use std::sync::Arc;

use egret_net::vi::contained;

use super::Undelivered;
use super::bundle::{Handling, Upcall, UpcallHandler, UpcallKind};
use super::request::{ReplyAddress, Request};
use crate::links::FrameHead;
use crate::links::core::LinksCore;
use crate::links::frame::ArrivedFrame;
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
    /// The answer is a few words, which are sent when the handler has ended.
    Few,
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

/// Whether the calling thread runs a handler: of a message or an answer, of an endpoint's errors
/// or ends, or of a [signature](super::Signature).
///
/// Other messages wait for a handler, so it must not wait itself. On its thread, for the links
/// of any nic, these answer `InHandler`, whatever their deadline:
///
/// | call | inside a handler |
/// |---|---|
/// | [`RemoteEndpoint::wait_call`](super::RemoteEndpoint::wait_call), [`wait_call_with`](super::RemoteEndpoint::wait_call_with), [`try_call_with`](super::RemoteEndpoint::try_call_with), [`wait_ask`](super::RemoteEndpoint::wait_ask), [`Endpoint::wait_move_to`](super::Endpoint::wait_move_to) | `InHandler` always, and nothing is sent or moved |
/// | [`RemoteEndpoint::wait_send`](super::RemoteEndpoint::wait_send), [`wait_request`](super::RemoteEndpoint::wait_request), [`wait_room`](super::RemoteEndpoint::wait_room) | done if the window has room now, else `InHandler`, and nothing is sent |
/// | [`Call::wait`](super::Call::wait), [`wait_reply`](super::Call::wait_reply), [`RemoteEndpoint::wait_get`](super::RemoteEndpoint::wait_get), [`wait_put`](super::RemoteEndpoint::wait_put) | the answer if it is there now, else `InHandler`; a get or put has been sent then |
/// | [`Endpoint::wait_map`](super::Endpoint::wait_map), [`wait_map_with`](super::Endpoint::wait_map_with), [`Links::wait_connect`](crate::Links::wait_connect), [`Links::wait_channel`](crate::Links::wait_channel), [`Links::wait_path`](crate::Links::wait_path) | `InHandler`, unless there is a link and nothing to ask for |
/// | the waits of channels: listeners, writers, readers, messages | what can be done now, else `InHandler` |
/// | [`Links::drive`](crate::Links::drive), [`serve`](crate::Links::serve) | returns at once what `done` says |
/// | [`Links::block_on`](crate::Links::block_on) | panics, unless the future is ready |
/// | [`Links::close_because`](crate::Links::close_because) | begins, and whoever drives goes on |
///
/// What a handler does instead: it waits [outside](super::Request::outside), or answers [later](super::Request::later) from a thread
/// that may wait; it sends by `try_request` and `try_send`, and has the answer
/// [name a handler](super::Request::reply_with) or its [`Call`](super::Call) awaited elsewhere.
///
/// ```
/// assert!(!egret_node::am::in_handler(), "this thread runs no handler, and may wait");
/// ```
#[must_use]
#[inline]
pub fn in_handler() -> bool {
    HANDLERS.get() > 0
}

/// Whether the calling thread runs one handler, which no other handler of that thread has caused.
#[inline]
pub(super) fn in_outermost_handler() -> bool {
    HANDLERS.get() == 1
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
            guarded(|| handler(Undelivered::of_returned(arrived)));
        }
        (UpcallKind::Undelivered(_), Some(UpcallHandler::OnError(handler))) => {
            if let UpcallKind::Undelivered(undelivered) = std::mem::take(&mut upcall.what) {
                guarded(|| handler(*undelivered));
            }
        }
        (UpcallKind::Ended(_), Some(UpcallHandler::OnEnd(handler))) => {
            if let UpcallKind::Ended(ended) = std::mem::take(&mut upcall.what) {
                guarded(|| handler(*ended));
            }
        }
        (UpcallKind::Path { peer, bytes, .. }, Some(UpcallHandler::Path(handler))) => {
            guarded(|| handler(peer, bytes));
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
    if !guarded(|| handler(request)) && handling.answer == AnswerState::Missing {
        handling.answer = AnswerState::Panicked;
    }
}

/// Runs code of the program as a handler: waits in it fail with `InHandler`.
pub(crate) fn as_handler(does: impl FnOnce()) {
    guarded(does);
}

/// Runs a handler; whether it came to its end.
#[inline]
fn guarded(handler: impl FnOnce()) -> bool {
    let before = HANDLERS.get();
    HANDLERS.set(before + 1);
    let _inside = HandlerDepth(before);
    to_end(handler)
}

/// Restores the thread's count of running handlers when it is dropped.
pub(super) struct HandlerDepth(u32);

impl HandlerDepth {
    /// Sets the count to 0: the thread is [outside](super::outside_handler) of its handlers.
    #[inline]
    pub(super) fn none() -> Self {
        Self(HANDLERS.replace(0))
    }
}

impl Drop for HandlerDepth {
    #[inline]
    fn drop(&mut self) {
        HANDLERS.set(self.0);
    }
}

/// Runs code of the program, and contains its panics. Returns whether it came to its end.
#[inline]
pub(crate) fn to_end(does: impl FnOnce()) -> bool {
    let ended = contained(does).is_some();
    if !ended {
        tracing::error!("a handler panicked");
    }
    ended
}

thread_local! {
    /// Handlers that run on the thread, each inside of the one before.
    static HANDLERS: Cell<u32> = const { Cell::new(0) };
}

/// Handlers that a thread runs in a row before it receives again.
const JOBS_MAX: u32 = 64;
