//! Remote endpoints, as an endpoint has mapped them.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use egret_net::rt::{Deadline, GivenBack};

use super::{Call, CallReply, LinkPeer, Message, MessageError};
use crate::in_handler::in_handler;
use crate::links::clock::DeadlineClock;
use crate::links::core::{LinksCore, WaitStopped};
use crate::links::link_side::LinkSide;
use crate::links::state::LinksState;
use crate::slots::SlotKey;

/// A remote endpoint that a local one has mapped ([`Endpoint::map`](super::Endpoint::map)). The
/// [module](super) has an example.
///
/// Dropping it gives the mapping up; messages that were sent are delivered first. When its link has
/// ended it is of no use any more, also if the host is there again: map the endpoint once more.
#[derive(Debug)]
pub struct RemoteEndpoint {
    pub(super) core: Arc<LinksCore>,
    pub(super) link: SlotKey,
    pub(super) number: SlotKey,
    pub(super) handlers: Vec<(String, u8)>,
}

impl RemoteEndpoint {
    /// The link of the mapping.
    #[cfg(test)]
    pub(crate) const fn link(&self) -> SlotKey {
        self.link
    }

    /// The peer at the other end of the mapping's link: the [end handler](super::Endpoint::on_end) of that
    /// link gets the same value.
    #[must_use]
    pub fn peer(&self) -> LinkPeer {
        LinkPeer { links: self.core.number, link: self.link }
    }

    /// The number of the handler of this name, if the endpoint was mapped
    /// [with it](super::Endpoint::wait_map_with).
    #[must_use]
    pub fn handler(&self, name: &str) -> Option<u8> {
        self.handlers.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    /// The host of the remote endpoint.
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

    /// Sends a request, if the window has room. The call has its answer.
    ///
    /// # Errors
    ///
    /// [`MessageError::Full`] if not, with the message; or why the link or the mapping has ended.
    pub fn try_request<'a>(
        &self,
        message: impl Into<Message<'a>>,
    ) -> Result<Call, GivenBack<Message<'a>, MessageError>> {
        let key = self.send_or_return(message.into(), LinkSide::request)?;
        Ok(Call::new(Arc::clone(&self.core), self.link, key))
    }

    /// Sends a message that is not answered, if the window has room.
    ///
    /// # Errors
    ///
    /// [`MessageError::Full`] if not, with the message; or why the link or the mapping has ended.
    #[inline]
    pub fn try_send<'a>(
        &self,
        message: impl Into<Message<'a>>,
    ) -> Result<(), GivenBack<Message<'a>, MessageError>> {
        self.send_or_return(message.into(), LinkSide::one_way)
    }

    /// Sends a request, and waits for the window to have room.
    ///
    /// # Errors
    ///
    /// If the window has no room within the deadline, or the link or the mapping has ended.
    #[track_caller]
    pub fn wait_request<'a>(
        &self,
        message: impl Into<Message<'a>>,
        deadline: impl Into<Deadline>,
    ) -> Result<Call, MessageError> {
        let _waits = self.core.waits("room", Some(self.link));
        let mut clock = DeadlineClock::of(deadline.into());
        let key = self.send_when_room(&mut message.into(), &mut clock, LinkSide::request)?;
        Ok(Call::new(Arc::clone(&self.core), self.link, key))
    }

    /// Waits until the window has room for a message. Another thread may take the room first.
    ///
    /// # Errors
    ///
    /// If the window has no room within the deadline, or the link or the mapping has ended.
    #[track_caller]
    pub fn wait_room(&self, deadline: impl Into<Deadline>) -> Result<(), MessageError> {
        let _waits = self.core.waits("room", Some(self.link));
        let mut clock = DeadlineClock::of(deadline.into());
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
    /// Why the link or the mapping has ended.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<(), MessageError>> {
        self.core.poll();
        self.core.state.with(|state| self.has_room(state, Some(context.waker())))
    }

    fn has_room(
        &self,
        state: &mut LinksState,
        waker: Option<&Waker>,
    ) -> Poll<Result<(), MessageError>> {
        let line = state.links.live_mapping(self.link, self.number)?;
        let outgoing = line.am.outgoing.get(self.number).ok_or(MessageError::Unmapped)?;
        if outgoing.has_room()? {
            return Poll::Ready(Ok(()));
        }
        outgoing.waiters.wait(waker);
        Poll::Pending
    }

    /// Sends a message that is not answered, and waits for the window to have room, not for anything
    /// behind that: what cannot be delivered comes back to [`Endpoint::on_error`](super::Endpoint::on_error),
    /// and that a handler panicked is not reported here.
    ///
    /// # Errors
    ///
    /// If the window has no room within the deadline, or the link or the mapping has ended.
    #[inline]
    #[track_caller]
    pub fn wait_send<'a>(
        &self,
        message: impl Into<Message<'a>>,
        deadline: impl Into<Deadline>,
    ) -> Result<(), MessageError> {
        let _waits = self.core.waits("room", Some(self.link));
        let mut clock = DeadlineClock::of(deadline.into());
        self.send_when_room(&mut message.into(), &mut clock, LinkSide::one_way)
    }

    /// Sends data that is not answered, and does not wait: the call is done, with an empty
    /// answer, when the memory is free, which is inside: AM-II's asynchronous transfer.
    ///
    /// # Errors
    ///
    /// [`MessageError::Full`] if the window has no room, with the message; or why there is
    /// nobody to send it to.
    pub fn try_transfer<'a>(
        &self,
        message: impl Into<Message<'a>>,
    ) -> Result<Call, GivenBack<Message<'a>, MessageError>> {
        let key = self.send_or_return(message.into(), LinkSide::transfer)?;
        Ok(Call::new(Arc::clone(&self.core), self.link, key))
    }

    /// Sends a request and waits for its answer, both within the deadline.
    ///
    /// # Errors
    ///
    /// If it was not sent, or has no answer within the deadline. [`MessageError::InHandler`] inside
    /// a handler, always: nothing is sent then; see [`in_handler`](super::in_handler) for what to
    /// do instead. The memory of data is dropped with the error; who wants it back sends by
    /// [`try_request`](Self::try_request), and [waits](Call::wait_reply) for the call.
    #[track_caller]
    pub fn wait_call<'a>(
        &self,
        message: impl Into<Message<'a>>,
        deadline: impl Into<Deadline>,
    ) -> Result<CallReply, MessageError> {
        let _waits = self.core.waits("answer", Some(self.link));
        if in_handler() {
            return Err(MessageError::InHandler);
        }
        let mut clock = DeadlineClock::of(deadline.into());
        let key = self.send_when_room(&mut message.into(), &mut clock, LinkSide::request)?;
        Call::wait_for(&self.core, self.link, key, &mut clock)
    }

    /// Sends a message, if the window has room.
    #[inline]
    pub(super) fn send_now<T>(
        &self,
        message: &mut Message<'_>,
        send: impl FnOnce(&mut LinkSide, SlotKey, &mut Message<'_>) -> Result<T, MessageError>,
    ) -> Result<T, MessageError> {
        self.core.state.with(|state| {
            let line = state.links.live(self.link)?;
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
        send: impl FnOnce(&mut LinkSide, SlotKey, &mut Message<'_>) -> Result<T, MessageError>,
    ) -> Result<T, GivenBack<Message<'a>, MessageError>> {
        match self.send_now(&mut message, send) {
            Ok(sent) => Ok(sent),
            Err(why) => Err(GivenBack { why, what: message }),
        }
    }

    /// Sends a message when the window has room.
    #[inline]
    pub(super) fn send_when_room<T>(
        &self,
        message: &mut Message<'_>,
        clock: &mut DeadlineClock,
        send: impl Fn(&mut LinkSide, SlotKey, &mut Message<'_>) -> Result<T, MessageError>,
    ) -> Result<T, MessageError> {
        match self.send_now(message, &send) {
            Ok(sent) => Ok(sent),
            Err(MessageError::Full { .. }) => self.send_later(message, clock, send),
            Err(why) => Err(why),
        }
    }

    #[cold]
    fn send_later<T>(
        &self,
        message: &mut Message<'_>,
        clock: &mut DeadlineClock,
        send: impl Fn(&mut LinkSide, SlotKey, &mut Message<'_>) -> Result<T, MessageError>,
    ) -> Result<T, MessageError> {
        self.when_room(clock, |state, waker| {
            let line = match state.links.live_mapping(self.link, self.number) {
                Ok(line) => line,
                Err(why) => return Some(Err(why)),
            };
            match send(line, self.number, message) {
                Err(MessageError::Full { .. }) => {
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

    /// Waits until `ready` returns a result, which needs room in the window.
    fn when_room<T>(
        &self,
        clock: &mut DeadlineClock,
        mut ready: impl FnMut(&mut LinksState, Option<&Waker>) -> Option<Result<T, MessageError>>,
    ) -> Result<T, MessageError> {
        match self.core.wait_by(clock, &mut ready) {
            Ok(ended) => ended,
            Err(WaitStopped::TimedOut { waited }) => {
                Err(MessageError::NoRoomInTime { window: self.window(), waited })
            }
            Err(WaitStopped::InHandler) => Err(MessageError::InHandler),
        }
    }
}

impl Drop for RemoteEndpoint {
    fn drop(&mut self) {
        self.core.state.with(|state| state.unmap(self.link, self.number));
        self.core.leave_handlers();
        self.core.wake_if_last();
    }
}
