//! Remote endpoints, as an endpoint has mapped them.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::Deadline;

use super::serve::in_handler;
use super::{Call, CallError, Message, Reply, SendError, Unsent};
use crate::links::core::{Core, Stopped};
use crate::links::driver::Clock;
use crate::links::line::Line;
use crate::links::slots::Key;
use crate::links::state::{State, remember};

/// A remote endpoint that a local one has mapped.
///
/// Dropping it gives the mapping up; messages that were sent are delivered first.
#[derive(Debug)]
pub struct Remote {
    pub(super) core: Arc<Core>,
    pub(super) link: Key,
    pub(super) number: Key,
    pub(super) index: usize,
    /// Whether the mapping ends with this handle.
    pub(super) owned: bool,
    pub(super) handlers: Vec<(String, u8)>,
}

impl Remote {
    pub(super) fn known(core: &Arc<Core>, link: Key, number: Key, index: usize) -> Self {
        let core = Arc::clone(core);
        let handlers = core.state.with(|state| {
            let outgoing = state.links.get(link)?.am.outgoing.get(number)?;
            Some(outgoing.handlers.clone())
        });
        let handlers = handlers.unwrap_or_default();
        Self { core, link, number, index, owned: false, handlers }
    }

    /// Its link.
    #[cfg(test)]
    pub(crate) const fn link(&self) -> Key {
        self.link
    }

    /// Its place in the endpoint's translation table.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
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
        let message = message.into();
        let key = match self.at_once(&message, Line::request_at_once) {
            Some(key) => key,
            None => self.send_with(message, Line::request)?,
        };
        Ok(Call::new(Arc::clone(&self.core), self.link, key))
    }

    /// Sends a message that is not answered, if the window has room.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`] if not, with the message; or why there is nobody to send it to.
    #[inline]
    pub fn try_send<'a>(&self, message: impl Into<Message<'a>>) -> Result<(), Unsent<'a>> {
        let message = message.into();
        match self.at_once(&message, Line::one_way_at_once) {
            Some(()) => Ok(()),
            None => self.send_with(message, Line::one_way),
        }
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
        let key = self.request_when_room(message.into(), &mut Clock::of(deadline.into()))?;
        Ok(Call::new(Arc::clone(&self.core), self.link, key))
    }

    #[inline]
    pub(super) fn request_when_room(
        &self,
        message: Message<'_>,
        clock: &mut Clock,
    ) -> Result<Key, SendError> {
        match self.at_once(&message, Line::request_at_once) {
            Some(key) => Ok(key),
            None => self.send_later(message, clock, Line::request),
        }
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
        waker.into_iter().for_each(|waker| remember(&mut outgoing.wakers, waker));
        Poll::Pending
    }

    /// Sends a message that is not answered, and waits for the window to have room.
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
        let message = message.into();
        match self.at_once(&message, Line::one_way_at_once) {
            Some(()) => Ok(()),
            None => self.send_later(message, &mut Clock::of(deadline.into()), Line::one_way),
        }
    }

    /// Sends data that is not answered, and does not wait: the call is done, with an empty
    /// answer, when the memory is free, which is inside: AM-II's asynchronous transfer.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`] if the window has no room, with the message; or why there is
    /// nobody to send it to.
    pub fn try_transfer<'a>(&self, message: impl Into<Message<'a>>) -> Result<Call, Unsent<'a>> {
        let key = self.send_with(message.into(), Line::transfer)?;
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
        let key = self.request_when_room(message.into(), &mut clock)?;
        Call::wait_for(&self.core, self.link, key, &mut clock)
    }

    /// Sends a short message that nothing is against.
    #[inline]
    fn at_once<T>(
        &self,
        message: &Message<'_>,
        send: impl FnOnce(&mut Line, Key, &Message<'_>) -> Option<T>,
    ) -> Option<T> {
        self.core.state.with(|state| {
            let line = state.links.get(self.link).filter(|line| line.ended.is_none())?;
            let sent = send(line, self.number, message)?;
            if line.has_more() {
                state.pump(self.link);
            }
            Some(sent)
        })
    }

    pub(super) fn send_with<'a, T>(
        &self,
        message: Message<'a>,
        send: impl FnOnce(&mut Line, Key, Message<'a>) -> Result<T, Unsent<'a>>,
    ) -> Result<T, Unsent<'a>> {
        self.core.state.with(|state| {
            let sent = match state.live(self.link) {
                Ok(line) => send(line, self.number, message),
                Err(why) => Err(Unsent { reason: why.into(), message }),
            };
            state.pump(self.link);
            sent
        })
    }

    /// Sends a message about which there is something to see to: when the window has room, as a
    /// rule.
    #[cold]
    fn send_later<'a, T>(
        &self,
        message: Message<'a>,
        clock: &mut Clock,
        send: impl Fn(&mut Line, Key, Message<'a>) -> Result<T, Unsent<'a>>,
    ) -> Result<T, SendError> {
        let mut message = Some(message);
        self.when_room(clock, |state, waker| {
            let line = match state.live_mapping(self.link, self.number) {
                Ok(line) => line,
                Err(why) => return Some(Err(why)),
            };
            match send(line, self.number, message.take()?) {
                Ok(sent) => {
                    state.pump(self.link);
                    Some(Ok(sent))
                }
                Err(Unsent { reason: SendError::Full { .. }, message: unsent }) => {
                    message = Some(unsent);
                    let outgoing = line.am.outgoing.get(self.number)?;
                    if let Some(waker) = waker {
                        remember(&mut outgoing.wakers, waker);
                    }
                    None
                }
                Err(unsent) => Some(Err(unsent.reason)),
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
        if self.owned {
            self.core.state.with(|state| state.unmap(self.link, self.number));
            self.core.leave_handlers();
        }
    }
}
