//! Running handlers.

use std::cell::Cell;
use std::sync::Arc;

use egret_net::vi::contained;

use super::Undelivered;
use super::bundle::{Handler, Job, Run, Upcall, What};
use super::request::{From, Request};
use crate::link::Head;
use crate::link::arrived::Arrived;
use crate::links::core::Core;
use crate::links::slots::Key;
use crate::links::state::State;

/// What a handler has done about its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing yet.
    Missing,
    /// It panicked.
    Panicked,
    /// It will answer, or has.
    Sent,
}

/// Runs a job, then what other threads have left to its bundle meanwhile, and then the
/// other jobs that are due: until `leave` says so, which is asked after each of them, and no
/// more than [`JOBS_MAX`]. What is left belongs to the thread that drives next.
#[inline]
pub(crate) fn run_jobs(core: &Arc<Core>, mut job: Job, mut leave: impl FnMut(&mut State) -> bool) {
    for left in (0..JOBS_MAX).rev() {
        let Job { bundle, table, mut upcall, run: what } = job;
        let (ran, done) = run(core, &mut upcall, what);
        let (next, unused) = core.state.with(|state| {
            state.keep_box(upcall);
            state.done(done);
            let stays = !leave(state) && left > 0;
            state.end_job((bundle, table), ran, stays)
        });
        // Without any lock: it may own what takes one.
        if unused.is_some() {
            to_end(|| drop(unused));
        }
        let Some(next) = next else { return };
        job = next;
    }
}

/// What is left to do when a handler has run.
#[derive(Debug)]
pub(crate) enum Done {
    Served(From, Key, Arrived, Answer),
    NoHandler(From, Key, Arrived),
    Answered {
        link: Key,
        endpoint: Key,
        number: Key,
        arrived: Arrived,
    },
    /// What this endpoint was to be told it was told.
    Told(Key),
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
/// | [`Endpoint::wait_map`](super::Endpoint::wait_map), [`wait_map_with`](super::Endpoint::wait_map_with), [`Links::wait_connect`](crate::Links::wait_connect), [`Links::wait_channel`](crate::Links::wait_channel) | `InHandler`, unless there is a link and nothing to ask for |
/// | the waits of channels: listeners, writers, readers, messages | what can be done now, else `InHandler` |
/// | [`Links::drive`](crate::Links::drive) | returns at once what `done` says |
/// | [`Links::close_because`](crate::Links::close_because) | begins, and whoever drives goes on |
///
/// What a handler does instead: it answers [later](super::Request::later), from a thread that may
/// wait; it sends by `try_request` and `try_send`, and has the answer
/// [name a handler](super::Request::reply_with) or its [`Call`](super::Call) awaited elsewhere.
#[must_use]
pub fn in_handler() -> bool {
    IN_HANDLER.get()
}

#[inline]
fn run(core: &Arc<Core>, upcall: &mut Upcall, run: Option<Run>) -> (Option<Run>, Done) {
    let endpoint = upcall.endpoint;
    match (std::mem::replace(&mut upcall.what, What::Nothing), run) {
        (What::Message { from, mut arrived }, Some(Run::Handler(number, mut handler))) => {
            let answer = call(core, &mut handler, from, &mut arrived);
            let done = Done::Served(from, endpoint, arrived, answer);
            (Some(Run::Handler(number, handler)), done)
        }
        (What::Message { from, arrived }, other) => {
            (other, Done::NoHandler(from, endpoint, arrived))
        }
        (What::Answer { link, number, mut arrived }, Some(Run::Handler(at, mut handler))) => {
            let from = From { link, slot: endpoint, request: None };
            call(core, &mut handler, from, &mut arrived);
            (Some(Run::Handler(at, handler)), Done::Answered { link, endpoint, number, arrived })
        }
        (What::Answer { link, number, arrived }, other) => {
            (other, Done::Answered { link, endpoint, number, arrived })
        }
        (What::Undelivered(undelivered), Some(Run::OnError(mut handler))) => {
            guarded(|| handler(*undelivered));
            (Some(Run::OnError(handler)), Done::Told(endpoint))
        }
        (What::Returned { link, number, arrived }, other) => {
            let other = other.map(|run| match run {
                Run::OnError(mut handler) => {
                    guarded(|| handler(Undelivered::of_returned(&arrived)));
                    Run::OnError(handler)
                }
                other => other,
            });
            (other, Done::Answered { link, endpoint, number, arrived })
        }
        (What::Ended(ended), Some(Run::OnEnd(mut handler))) => {
            guarded(|| handler(*ended));
            (Some(Run::OnEnd(handler)), Done::Told(endpoint))
        }
        (What::Closed, Some(Run::Drop(table))) => {
            to_end(|| drop(table));
            (None, Done::Told(endpoint))
        }
        (_, other) => (other, Done::Told(endpoint)),
    }
}

/// Calls a handler; what it answers.
#[inline]
fn call(core: &Arc<Core>, handler: &mut Handler, from: From, arrived: &mut Arrived) -> Answer {
    let mut answer = Answer::Missing;
    let mut words = [0; Head::WORDS_MAX];
    let count = arrived.read_words(&mut words);
    let request = Request { core, from, words: &words[..count], arrived, answer: &mut answer };
    let ended = guarded(|| handler(request));
    match answer {
        Answer::Missing if !ended => Answer::Panicked,
        answer => answer,
    }
}

/// Runs a handler; whether it came to its end.
#[inline]
fn guarded(handler: impl FnOnce()) -> bool {
    let _inside = Inside(IN_HANDLER.replace(true));
    to_end(handler)
}

/// A handler runs; with whether one ran before, which is so again when this is dropped.
struct Inside(bool);

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        IN_HANDLER.set(self.0);
    }
}

/// Does what is the program's; whether that came to its end. Whoever drives goes on.
#[inline]
fn to_end(does: impl FnOnce()) -> bool {
    let ended = contained(does).is_some();
    if !ended {
        tracing::error!("a handler panicked");
    }
    ended
}

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Handlers that a thread runs in a row before it looks at what has arrived.
const JOBS_MAX: u32 = 64;
