//! Remote endpoints, as an endpoint has mapped them.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::Deadline;

use super::serve::in_handler;
use super::{Call, CallError, Message, Peer, Reply, SendError, Unsent};
use crate::links::clock::Clock;
use crate::links::core::{Core, Stopped};
use crate::links::line::Line;
use crate::links::slots::Key;
use crate::links::state::State;

/// A remote endpoint that a local one has mapped.
///
/// Dropping it gives the mapping up; messages that were sent are delivered first. When its link has
/// ended it is of no use any more, also if the host is there again: map the endpoint once more.
#[derive(Debug)]
pub struct Remote {
    pub(super) core: Arc<Core>,
    pub(super) link: Key,
    pub(super) number: Key,
    pub(super) handlers: Vec<(String, u8)>,
}

impl Remote {
    /// Its link.
    #[cfg(test)]
    pub(crate) const fn link(&self) -> Key {
        self.link
    }

    /// By whose link it is mapped: what is [told](super::Endpoint::on_end) of the end of that has the same.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer { links: self.core.number, link: self.link }
    }

    /// The number of the handler of this name, which the mapping
    /// [needs](super::Endpoint::wait_map_with).
    #[must_use]
    pub fn handler(&self, name: &str) -> Option<u8> {
        self.handlers.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    /// Where the remote endpoint is.
    #[must_use]
    pub fn host(&self) -> String {
        self.core
            .state
            .with(|state| state.links.get(self.link).map(|line| line.peer.clone()))
            .unwrap_or_default()
    }

    /// Messages that may be under way at the same time.
    #[must_use]
    pub fn window(&self) -> u32 {
        self.core
            .state
            .with(|state| {
                let line = state.links.get(self.link)?;
                line.am.outgoing.get(self.number).map(|outgoing| outgoing.window())
            })
            .unwrap_or(0)
    }

    /// Sends a request, if the window has room. The answer is the call's.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`] if not, with the message; or why there is nobody to send it to.
    pub fn try_request<'a>(&self, message: impl Into<Message<'a>>) -> Result<Call, Unsent<'a>> {
        let key = self.send_or_return(message.into(), Line::request)?;
        Ok(Call::new(Arc::clone(&self.core), self.link, key))
    }

    /// Sends a message that is not answered, if the window has room.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`] if not, with the message; or why there is nobody to send it to.
    #[inline]
    pub fn try_send<'a>(&self, message: impl Into<Message<'a>>) -> Result<(), Unsent<'a>> {
        self.send_or_return(message.into(), Line::one_way)
    }

    /// Sends a request, and waits for the window to have room.
    ///
    /// # Errors
    ///
    /// If it has none within the deadline, or there is nobody to send it to.
    pub fn wait_request<'a>(
        &self,
        message: impl Into<Message<'a>>,
        deadline: impl Into<Deadline>,
    ) -> Result<Call, SendError> {
        let mut clock = Clock::of(deadline.into());
        let key = self.send_when_room(&mut message.into(), &mut clock, Line::request)?;
        Ok(Call::new(Arc::clone(&self.core), self.link, key))
    }

    /// Waits until the window has room, so that a message may be tried. Another thread may
    /// take the room first.
    ///
    /// # Errors
    ///
    /// If it has none within the deadline, or there is nobody to send to.
    pub fn wait_room(&self, deadline: impl Into<Deadline>) -> Result<(), SendError> {
        let mut clock = Clock::of(deadline.into());
        self.when_room(&mut clock, |state, waker| match self.has_room(state, waker) {
            Poll::Ready(room) => Some(room),
            Poll::Pending => None,
        })
    }

    /// Whether the window has room, so that a message may be tried again; if not, the
    /// context's waker is woken when that may have changed.
    ///
    /// # Errors
    ///
    /// Why there is nobody to send to.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.core.poll();
        self.core.state.with(|state| self.has_room(state, Some(context.waker())))
    }

    fn has_room(&self, state: &mut State, waker: Option<&Waker>) -> Poll<Result<(), SendError>> {
        let line = state.live_mapping(self.link, self.number)?;
        let outgoing = line.am.outgoing.get(self.number).ok_or(SendError::Unmapped)?;
        if outgoing.has_room()? {
            return Poll::Ready(Ok(()));
        }
        outgoing.waiters.wait(waker);
        Poll::Pending
    }

    /// Sends a message that is not answered, and waits for the window to have room, not for anything
    /// behind that: what cannot be delivered comes back to [`Endpoint::on_error`](super::Endpoint::on_error),
    /// and that a handler panicked nobody is told here.
    ///
    /// # Errors
    ///
    /// If it has none within the deadline, or there is nobody to send it to.
    #[inline]
    pub fn wait_send<'a>(
        &self,
        message: impl Into<Message<'a>>,
        deadline: impl Into<Deadline>,
    ) -> Result<(), SendError> {
        let mut clock = Clock::of(deadline.into());
        self.send_when_room(&mut message.into(), &mut clock, Line::one_way)
    }

    /// Sends data that is not answered, and does not wait: the call is done, with an empty
    /// answer, when the memory is free, which is inside: AM-II's asynchronous transfer.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`] if the window has no room, with the message; or why there is
    /// nobody to send it to.
    pub fn try_transfer<'a>(&self, message: impl Into<Message<'a>>) -> Result<Call, Unsent<'a>> {
        let key = self.send_or_return(message.into(), Line::transfer)?;
        Ok(Call::new(Arc::clone(&self.core), self.link, key))
    }

    /// Sends a request and waits for its answer, both within the deadline.
    ///
    /// # Errors
    ///
    /// If it was not sent, or has no answer within the deadline. [`CallError::InHandler`] inside
    /// a handler, always: nothing is sent then; see [`in_handler`](super::in_handler) for what to
    /// do instead. The memory of data is dropped with the error; who wants it back sends by
    /// [`try_request`](Self::try_request), and [waits](Call::wait_reply) for the call.
    pub fn wait_call<'a>(
        &self,
        message: impl Into<Message<'a>>,
        deadline: impl Into<Deadline>,
    ) -> Result<Reply, CallError> {
        if in_handler() {
            return Err(CallError::InHandler);
        }
        let mut clock = Clock::of(deadline.into());
        let key = self.send_when_room(&mut message.into(), &mut clock, Line::request)?;
        Call::wait_for(&self.core, self.link, key, &mut clock)
    }

    /// Sends a message, if the window has room.
    #[inline]
    pub(super) fn send_now<T>(
        &self,
        message: &mut Message<'_>,
        send: impl FnOnce(&mut Line, Key, &mut Message<'_>) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        self.core.state.with(|state| {
            let line = state.live(self.link)?;
            let sent = send(line, self.number, message)?;
            if line.has_more() {
                state.pump(self.link);
            }
            Ok(sent)
        })
    }

    #[inline]
    fn send_or_return<'a, T>(
        &self,
        mut message: Message<'a>,
        send: impl FnOnce(&mut Line, Key, &mut Message<'_>) -> Result<T, SendError>,
    ) -> Result<T, Unsent<'a>> {
        match self.send_now(&mut message, send) {
            Ok(sent) => Ok(sent),
            Err(reason) => Err(Unsent { reason, message }),
        }
    }

    /// Sends a message when the window has room.
    #[inline]
    pub(super) fn send_when_room<T>(
        &self,
        message: &mut Message<'_>,
        clock: &mut Clock,
        send: impl Fn(&mut Line, Key, &mut Message<'_>) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        match self.send_now(message, &send) {
            Ok(sent) => Ok(sent),
            Err(SendError::Full { .. }) => self.send_later(message, clock, send),
            Err(why) => Err(why),
        }
    }

    #[cold]
    fn send_later<T>(
        &self,
        message: &mut Message<'_>,
        clock: &mut Clock,
        send: impl Fn(&mut Line, Key, &mut Message<'_>) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        self.when_room(clock, |state, waker| {
            let line = match state.live_mapping(self.link, self.number) {
                Ok(line) => line,
                Err(why) => return Some(Err(why)),
            };
            match send(line, self.number, message) {
                Err(SendError::Full { .. }) => {
                    let outgoing = line.am.outgoing.get(self.number)?;
                    outgoing.waiters.wait(waker);
                    None
                }
                sent => {
                    state.pump(self.link);
                    Some(sent)
                }
            }
        })
    }

    /// Waits for something that needs room.
    fn when_room<T>(
        &self,
        clock: &mut Clock,
        mut ready: impl FnMut(&mut State, Option<&Waker>) -> Option<Result<T, SendError>>,
    ) -> Result<T, SendError> {
        match self.core.wait_by(clock, &mut ready) {
            Ok(ended) => ended,
            Err(Stopped::TimedOut { waited }) => {
                Err(SendError::TimedOut { window: self.window(), waited })
            }
            Err(Stopped::InHandler) => Err(SendError::InHandler),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.core.state.with(|state| state.unmap(self.link, self.number));
        self.core.leave_handlers();
        self.core.wake_if_last();
    }
}
