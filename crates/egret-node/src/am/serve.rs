//! Running handlers.

use std::cell::Cell;
use std::sync::Arc;

use egret_net::vi::contained;

use super::Undelivered;
use super::bundle::{Handling, Run, Upcall, What};
use super::request::{From, Request};
use crate::link::Head;
use crate::link::arrived::Arrived;
use crate::links::core::Core;
use crate::links::state::State;

/// What a handler has done about its answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing yet.
    #[default]
    Missing,
    /// There is none.
    NoHandler,
    /// It panicked.
    Panicked,
    /// It will answer, or has.
    Sent,
    /// A few words, which go when the handler has ended.
    Few,
}

/// Runs an upcall, and then those that are due: until `leave` says so, which is asked after each
/// of them, and no more than [`JOBS_MAX`]. Whether some are left, for the thread that drives next.
#[inline]
pub(crate) fn run_jobs(
    core: &Arc<Core>,
    mut job: Box<Upcall>,
    mut leave: impl FnMut(&mut State) -> bool,
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

/// Drops what has run and is not needed any more, without any lock: it may own what takes one.
#[inline]
fn drop_unused(unused: Option<Run>) {
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
/// | [`Remote::wait_call`](super::Remote::wait_call), [`wait_call_with`](super::Remote::wait_call_with), [`try_call_with`](super::Remote::try_call_with), [`wait_ask`](super::Remote::wait_ask), [`Endpoint::wait_move_to`](super::Endpoint::wait_move_to) | `InHandler` always, and nothing is sent or moved |
/// | [`Remote::wait_send`](super::Remote::wait_send), [`wait_request`](super::Remote::wait_request), [`wait_room`](super::Remote::wait_room) | done if the window has room now, else `InHandler`, and nothing is sent |
/// | [`Call::wait`](super::Call::wait), [`wait_reply`](super::Call::wait_reply), [`Remote::wait_get`](super::Remote::wait_get), [`wait_put`](super::Remote::wait_put) | the answer if it is there now, else `InHandler`; a get or put has been sent then |
/// | [`Endpoint::wait_map`](super::Endpoint::wait_map), [`wait_map_with`](super::Endpoint::wait_map_with), [`Links::wait_connect`](crate::Links::wait_connect), [`Links::wait_channel`](crate::Links::wait_channel), [`Links::wait_path`](crate::Links::wait_path) | `InHandler`, unless there is a link and nothing to ask for |
/// | the waits of channels: listeners, writers, readers, messages | what can be done now, else `InHandler` |
/// | [`Links::drive`](crate::Links::drive), [`serve`](crate::Links::serve) | returns at once what `done` says |
/// | [`Links::block_on`](crate::Links::block_on) | panics, unless the future is ready |
/// | [`Links::close_because`](crate::Links::close_because) | begins, and whoever drives goes on |
///
/// What a handler does instead: it waits [outside](super::Request::outside), or answers [later](super::Request::later) from a thread
/// that may wait; it sends by `try_request` and `try_send`, and has the answer
/// [name a handler](super::Request::reply_with) or its [`Call`](super::Call) awaited elsewhere.
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

/// Runs what there is to run.
#[inline]
fn run(core: &Arc<Core>, upcall: &mut Upcall) {
    let handling = &mut upcall.handling;
    match (&mut upcall.what, &mut upcall.run) {
        (What::Message { from, arrived }, run @ Some(Run::Shared(..))) => {
            if let Some(Run::Shared(handler, _)) = run.take() {
                // The last of a handler goes here, where no lock is held.
                call(core, move |request| handler(request), *from, arrived, handling);
            }
        }
        (What::Message { from, arrived }, Some(Run::Handler(handler))) => {
            call(core, handler, *from, arrived, handling);
        }
        _ => tell(core, upcall),
    }
}

/// Runs what is told to an endpoint.
#[cold]
fn tell(core: &Arc<Core>, upcall: &mut Upcall) {
    match (&mut upcall.what, &mut upcall.run) {
        (What::Answer { link, arrived, .. }, Some(Run::Handler(handler))) => {
            let from = From { link: *link, slot: upcall.endpoint, request: None };
            call(core, handler, from, arrived, &mut upcall.handling);
        }
        (What::Answer { link, arrived, .. }, Some(Run::Shared(handler, _))) => {
            let from = From { link: *link, slot: upcall.endpoint, request: None };
            let handler = Arc::clone(handler);
            call(core, move |request| handler(request), from, arrived, &mut upcall.handling);
        }
        (What::Returned { arrived, .. }, Some(Run::OnError(handler))) => {
            guarded(|| handler(Undelivered::of_returned(arrived)));
        }
        (What::Undelivered(_), Some(Run::OnError(handler))) => {
            if let What::Undelivered(undelivered) = std::mem::take(&mut upcall.what) {
                guarded(|| handler(*undelivered));
            }
        }
        (What::Ended(_), Some(Run::OnEnd(handler))) => {
            if let What::Ended(ended) = std::mem::take(&mut upcall.what) {
                guarded(|| handler(*ended));
            }
        }
        (What::Path { peer, bytes, .. }, Some(Run::Path(handler))) => {
            guarded(|| handler(peer, bytes));
        }
        (What::Closed, run @ Some(Run::Drop(_))) => {
            if let Some(Run::Drop(table)) = run.take() {
                to_end(|| drop(table));
            }
        }
        _ => {}
    }
}

/// Calls a handler.
#[inline]
fn call(
    core: &Arc<Core>,
    handler: impl FnOnce(Request<'_>),
    from: From,
    arrived: &mut Arrived,
    handling: &mut Handling,
) {
    let mut words = [0; Head::WORDS_MAX];
    let count = arrived.read_words(&mut words);
    let words = &words[..count];
    let request = Request { core, from, words, arrived, handling: &mut *handling };
    if !guarded(|| handler(request)) && handling.answer == Answer::Missing {
        handling.answer = Answer::Panicked;
    }
}

/// Runs something of the program's on a thread that must not wait.
pub(crate) fn as_handler(does: impl FnOnce()) {
    guarded(does);
}

/// Runs a handler; whether it came to its end.
#[inline]
fn guarded(handler: impl FnOnce()) -> bool {
    let before = HANDLERS.get();
    HANDLERS.set(before + 1);
    let _inside = Inside(before);
    to_end(handler)
}

/// A handler runs, or none does [outside](super::outside) of it; with how many ran before, which is
/// so again when this is dropped.
pub(super) struct Inside(u32);

impl Inside {
    /// None runs from now on.
    #[inline]
    pub(super) fn none() -> Self {
        Self(HANDLERS.replace(0))
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        HANDLERS.set(self.0);
    }
}

/// Does what is the program's; whether that came to its end. Whoever drives goes on.
#[inline]
pub(crate) fn to_end(does: impl FnOnce()) -> bool {
    let ended = contained(does).is_some();
    if !ended {
        tracing::error!("a handler panicked");
    }
    ended
}

thread_local! {
    /// Handlers that run: one may do what runs another.
    static HANDLERS: Cell<u32> = const { Cell::new(0) };
}

/// Handlers that a thread runs in a row before it looks at what has arrived.
const JOBS_MAX: u32 = 64;
