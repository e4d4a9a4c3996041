//! Whether a thread runs a handler.

use std::cell::Cell;

use egret_net::vi::contained;

/// Whether the calling thread runs a handler: of a message or an answer, of an endpoint's errors
/// or ends, or of a [signature](crate::am::Signature).
///
/// Other messages wait for a handler, so it must not wait itself. On its thread, for the links
/// of any nic, these answer `InHandler`, whatever their deadline:
///
/// | call | inside a handler |
/// |---|---|
/// | [`RemoteEndpoint::wait_call`](crate::am::RemoteEndpoint::wait_call), [`wait_call_with`](crate::am::RemoteEndpoint::wait_call_with), [`try_call_with`](crate::am::RemoteEndpoint::try_call_with), [`wait_ask`](crate::am::RemoteEndpoint::wait_ask), [`Endpoint::wait_move_to`](crate::am::Endpoint::wait_move_to) | `InHandler` always, and nothing is sent or moved |
/// | [`RemoteEndpoint::wait_send`](crate::am::RemoteEndpoint::wait_send), [`wait_request`](crate::am::RemoteEndpoint::wait_request), [`wait_room`](crate::am::RemoteEndpoint::wait_room) | done if the window has room now, else `InHandler`, and nothing is sent |
/// | [`Call::wait`](crate::am::Call::wait), [`wait_reply`](crate::am::Call::wait_reply), [`RemoteEndpoint::wait_get`](crate::am::RemoteEndpoint::wait_get), [`wait_put`](crate::am::RemoteEndpoint::wait_put) | the answer if it is there now, else `InHandler`; a get or put has been sent then |
/// | [`Endpoint::wait_map`](crate::am::Endpoint::wait_map), [`wait_map_with`](crate::am::Endpoint::wait_map_with), [`Links::wait_connect`](crate::Links::wait_connect), [`Links::wait_channel`](crate::Links::wait_channel), [`Links::wait_path`](crate::Links::wait_path) | `InHandler`, unless there is a link and nothing to ask for |
/// | the waits of channels: listeners, writers, readers, messages | what can be done now, else `InHandler` |
/// | [`Links::drive`](crate::Links::drive), [`serve`](crate::Links::serve) | returns at once what `done` says |
/// | [`Links::block_on`](crate::Links::block_on) | panics, unless the future is ready |
/// | [`Links::close_because`](crate::Links::close_because) | begins, and the driving thread goes on |
///
/// What a handler does instead: it waits [outside](crate::am::Request::outside), or answers [later](crate::am::Request::later) from a thread
/// that may wait; it sends by `try_request` and `try_send`, and has the answer
/// [name a handler](crate::am::Request::reply_with) or its [`Call`](crate::am::Call) awaited elsewhere.
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
pub(crate) fn in_outermost_handler() -> bool {
    HANDLERS.get() == 1
}

/// Runs a handler, or other code of the program in which waits fail with `InHandler`. Returns whether
/// it came to its end.
#[inline]
pub(crate) fn as_handler(handler: impl FnOnce()) -> bool {
    let before = HANDLERS.get();
    HANDLERS.set(before + 1);
    let _inside = HandlerDepth(before);
    to_end(handler)
}

/// Restores the thread's count of running handlers when it is dropped.
pub(crate) struct HandlerDepth(u32);

impl HandlerDepth {
    /// Sets the count to 0: the thread is [outside](crate::am::outside_handler) of its handlers.
    #[inline]
    pub(crate) fn none() -> Self {
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
