//! A message as its handler gets it.

use std::fmt;
use std::sync::Arc;

use egret_net::rt::Instant;

use super::bundle::Handling;
use super::message::{FewWords, ReceivedPayload};
use super::outside_handler::{BackgroundThread, DrivingThread, go_outside, server};
use super::run_handlers::AnswerState;
use super::{HeldPayload, LinkPeer, Message};
use crate::frame::{ArrivedFrame, FrameKind};
use crate::in_handler::in_outermost_handler;
use crate::links::core::LinksCore;
use crate::slots::SlotKey;

/// A message that has arrived, as its handler gets it: the handler reads it, keeps its data, and
/// answers once. The [module](super) has an example.
///
/// Nothing here waits, and a handler must not: other messages wait for it. What would wait
/// answers `InHandler`; [`in_handler`](super::in_handler) has the list. One that is
/// [shared](super::Endpoint::on_shared) can wait [outside](Self::outside).
pub struct Request<'a> {
    pub(crate) core: &'a Arc<LinksCore>,
    pub(crate) from: ReplyAddress,
    pub(crate) words: &'a [u64],
    pub(crate) arrived: &'a mut ArrivedFrame,
    pub(crate) handling: &'a mut Handling,
}

/// The mapping and the request that an answer is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyAddress {
    pub(crate) link: SlotKey,
    pub(crate) slot: SlotKey,
    /// The request that it answers; none if it is not answered.
    pub(crate) request: Option<u32>,
}

impl<'a> Request<'a> {
    /// The words of the message.
    #[must_use]
    #[inline]
    pub const fn words(&self) -> &'a [u64] {
        self.words
    }

    /// The bytes or data of the message, where they arrived.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.arrived.parts().map_or(&[], |parts| parts.1)
    }

    /// The host of the sender, as the sender says itself.
    #[must_use]
    pub fn host(&self) -> String {
        let link = self.from.link;
        self.core
            .state
            .with(|state| state.links.get(link).map(|line| line.peer.clone()))
            .unwrap_or_default()
    }

    /// The peer whose link the message came by.
    #[must_use]
    #[inline]
    pub fn peer(&self) -> LinkPeer {
        LinkPeer { links: self.core.number, link: self.from.link }
    }

    /// The mapping that the message came by.
    #[inline]
    pub(crate) fn mapping(&self) -> (LinkPeer, SlotKey) {
        (LinkPeer { links: self.core.number, link: self.from.link }, self.from.slot)
    }

    /// When the message was received, which may be long before its handler ran. Messages that were
    /// received together have the same moment.
    #[must_use]
    #[inline]
    pub const fn came(&self) -> Instant {
        self.handling.came
    }

    /// The number of the request, which its [`Call`](super::Call) has at the other side: no
    /// other of this peer has it while this one is under way. None if no answer is waited
    /// for.
    #[must_use]
    #[inline]
    pub const fn number(&self) -> Option<u32> {
        self.from.request
    }

    /// Whether the thread can run something [outside](Self::outside), and may take its time for that:
    /// it [serves](crate::Links::serve), or drives in the background and another stands by.
    #[must_use]
    #[inline]
    pub fn may_last(&self) -> bool {
        let (server, number) = server();
        let is_free = number == self.core.number && self.can_go_outside();
        match server {
            DrivingThread::Lent => is_free,
            DrivingThread::OnDuty => is_free && self.core.crew.has_standby(self.core),
            DrivingThread::No | DrivingThread::Relieved | DrivingThread::Leaves => false,
        }
    }

    /// Whether other messages had arrived and waited for a thread when the handler of this one was begun.
    #[must_use]
    #[inline]
    pub const fn has_more(&self) -> bool {
        self.handling.has_more
    }

    /// Whether the thread can run something [outside](Self::outside). If it may not take its time for
    /// that, it waits for something of its own, and hears of that no sooner.
    #[must_use]
    #[inline]
    pub fn can_go_outside(&self) -> bool {
        self.handling.is_shared && in_outermost_handler() && server().0 != DrivingThread::Leaves
    }

    /// The thread in the background, if it has nothing to do: for a handler whose own thread [may not take
    /// its time](Self::may_last).
    #[must_use]
    pub fn background(&self) -> Option<BackgroundThread> {
        let is_other = server() != (DrivingThread::OnDuty, self.core.number);
        let is_at_hand = is_other && self.core.crew.is_at_hand(self.core);
        is_at_hand.then(|| BackgroundThread { core: Arc::clone(self.core) })
    }

    /// Runs `body` with the bytes or data of the message, outside of the handler: it may wait and
    /// call. Others serve the bundle and drive meanwhile. Who drives then is another thread that waits;
    /// or the background, when no thread has driven for a moment; or, if the thread is that of the
    /// background, its standby. The data stays where it landed, and the peer may send as much again.
    ///
    /// ```
    /// # fn serve(endpoint: &egret_node::am::Endpoint) {
    /// // Reads a file, which may take long.
    /// endpoint.on_shared(1, |mut request| {
    ///     fn read(path: &[u8]) -> u64 {
    ///         let path = String::from_utf8_lossy(path);
    ///         std::fs::read(&*path).map_or(0, |bytes| bytes.len() as u64)
    ///     }
    ///     if request.may_last() {
    ///         let len = request.outside(read);
    ///         request.reply(&[len]);
    ///     } else {
    ///         // The thread waits for something of its own: another is to read.
    ///         let (path, slot) = (request.hold(), request.later());
    ///         std::thread::spawn(move || slot.reply(&[read(&path)]));
    ///     }
    /// });
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the thread [cannot](Self::can_go_outside): the handler is not
    /// [shared](super::Endpoint::on_shared), runs inside another, or the thread is about to return to
    /// its caller.
    #[inline]
    #[track_caller]
    pub fn outside<R>(&mut self, body: impl FnOnce(&[u8]) -> R) -> R {
        assert!(
            self.can_go_outside(),
            "`Request::outside` is for handlers set by `Endpoint::on_shared`, inside of no other \
             handler, on a thread that is not about to return: ask `can_go_outside`"
        );
        let core = self.core;
        let has_data = self.arrived.head.kind == FrameKind::Bulk && !self.handling.is_granted;
        if has_data || !self.handling.is_apart {
            core.state.with(|state| {
                // What comes back while this waits may need as much.
                if has_data {
                    state.used_bytes(self.from, self.arrived.data_len());
                }
                if !self.handling.is_apart {
                    self.handling.has_more = state.leave_bundle(self.handling.home.bundle);
                }
            });
            (self.handling.is_apart, self.handling.is_granted) = (true, true);
        }
        // Who drives, and may sleep, is to look: this thread will not.
        if self.handling.has_more {
            core.nic.wake();
        }
        go_outside(core, || body(self.bytes()))
    }

    /// Whether the sender waits for an answer.
    #[must_use]
    pub const fn wants_reply(&self) -> bool {
        self.from.request.is_some()
    }

    /// Keeps the bytes or data of the message. Bulk data stays in the buffer that was supplied for it,
    /// unless its pool runs low; then, and if there is little of it, it is copied.
    #[must_use]
    pub fn hold(&mut self) -> HeldPayload {
        let at = self.arrived.parts().map_or(0, |parts| {
            if self.arrived.head.kind == FrameKind::Bulk { 0 } else { parts.0.len() }
        });
        match self.arrived.take_landed() {
            Some(buf) => ReceivedPayload::Buf(buf, at).hold(),
            None => ReceivedPayload::Copied(self.bytes().to_vec()).hold(),
        }
    }

    /// Keeps the message, for a reader that has it later. Until the value is dropped, the message counts among
    /// those that its sender [may have under way](super::RemoteEndpoint::window), and its data among what the sender may
    /// send: so messages that nobody takes hold up their sender, and nobody else.
    ///
    /// ```
    /// # fn serve(endpoint: &egret_node::am::Endpoint) {
    /// use std::sync::mpsc;
    ///
    /// let (queue, messages) = mpsc::channel();
    /// endpoint.on(4, move |mut request| drop(queue.send(request.keep())));
    /// // Elsewhere, when there is time:
    /// let reader = std::thread::spawn(move || messages.iter().map(|it| it.bytes().len()).sum::<usize>());
    /// # drop(reader);
    /// # }
    /// ```
    /// What is left of the request has no bytes, and its answer goes nowhere.
    #[must_use = "dropped, the message has been kept for nothing"]
    #[inline]
    pub fn keep(&mut self) -> KeptMessage {
        let handling = &mut *self.handling;
        (handling.answer, handling.is_granted) = (AnswerState::Kept, true);
        KeptMessage {
            core: Arc::clone(self.core),
            from: self.from,
            arrived: self.arrived.take(),
            came: self.handling.came,
        }
    }

    /// Answers with words. Up to six go when the handler has ended, for the cost of its end
    /// alone, and so behind what the handler sends. An answer that is to go before, as that of a
    /// handler which then closes the links or ends the process, is
    /// [`reply_with`](Self::reply_with)'s. The answer to a message that wants none goes nowhere.
    ///
    /// # Panics
    ///
    /// If there are more than 16.
    #[inline]
    pub fn reply(self, words: &[u64]) {
        if words.len() > FewWords::MAX {
            return self.reply_with(Message::answer().words(words));
        }
        if !self.handling.answer.is_over() {
            self.handling.few.set(words);
            self.handling.answer = AnswerState::Few;
        }
    }

    /// Answers with words and bytes or data, now.
    ///
    /// [`Message::answer`] is for the call. A message [to](Message::to) a handler runs that at the
    /// endpoint that asked, with the words and the bytes, and the call has an empty answer, also if
    /// there is no such handler.
    ///
    /// ```
    /// # fn serve(endpoint: &egret_node::am::Endpoint) {
    /// use egret_node::am::Message;
    ///
    /// endpoint.on(3, |request| {
    ///     let text = format!("{:?}", request.words());
    ///     request.reply_with(Message::answer().words(&[1]).bytes(text.as_bytes()));
    /// });
    /// # }
    /// ```
    pub fn reply_with(mut self, message: Message<'_>) {
        self.reply_now(message);
    }

    /// Answers like [`reply_with`](Self::reply_with), and the handler goes on. Answers after that are
    /// dropped.
    pub fn reply_now(&mut self, message: Message<'_>) {
        if self.wants_reply() && !self.handling.answer.is_over() {
            self.handling.answer = AnswerState::Sent;
            self.core.state.with(|state| state.reply(self.from, message));
        }
    }

    /// Answers later, from any thread.
    #[must_use = "dropped, it answers that there is no answer"]
    pub fn later(self) -> ReplySlot {
        let done = self.handling.answer.is_over();
        if !done {
            self.handling.answer = AnswerState::Sent;
        }
        ReplySlot { core: Arc::clone(self.core), from: self.from, done }
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("handler", &self.arrived.head.handler)
            .field("words", &self.words)
            .finish_non_exhaustive()
    }
}

/// A message that its handler [has kept](Request::keep).
pub struct KeptMessage {
    core: Arc<LinksCore>,
    from: ReplyAddress,
    arrived: ArrivedFrame,
    came: Instant,
}

impl KeptMessage {
    /// The number of the handler.
    #[must_use]
    #[inline]
    pub const fn handler(&self) -> u8 {
        self.arrived.head.handler
    }

    /// The words of the message: how many there are, in the front of `to`.
    #[inline]
    pub fn words(&self, to: &mut [u64; 16]) -> usize {
        self.arrived.read_words(to)
    }

    /// The bytes or data of the message, where they arrived.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.arrived.parts().map_or(&[], |parts| parts.1)
    }

    /// The peer whose link the message came by.
    #[must_use]
    pub fn peer(&self) -> LinkPeer {
        LinkPeer { links: self.core.number, link: self.from.link }
    }

    /// When the message was received.
    #[must_use]
    pub const fn came(&self) -> Instant {
        self.came
    }
}

impl Drop for KeptMessage {
    #[inline]
    fn drop(&mut self) {
        let (from, arrived) = (self.from, self.arrived.take());
        self.core.state.with(|state| state.kept_is_dropped(from, arrived));
    }
}

impl fmt::Debug for KeptMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (handler, bytes) = (self.handler(), self.bytes().len());
        f.debug_struct("KeptMessage").field("handler", &handler).field("bytes", &bytes).finish()
    }
}

/// The right to answer a request once, from any thread ([`Request::later`]). Dropping it answers that
/// there is no answer.
///
/// ```
/// use egret_node::am::Endpoint;
///
/// fn answer_elsewhere(endpoint: &Endpoint) {
///     endpoint.on(3, |request| {
///         let (number, slot) = (request.words()[0], request.later());
///         std::thread::spawn(move || slot.reply(&[number + 1]));
///     });
/// }
/// ```
#[derive(Debug)]
pub struct ReplySlot {
    core: Arc<LinksCore>,
    from: ReplyAddress,
    done: bool,
}

impl ReplySlot {
    /// The number of the request, as [`Request::number`].
    #[must_use]
    pub const fn number(&self) -> Option<u32> {
        self.from.request
    }

    /// Answers with words.
    ///
    /// # Panics
    ///
    /// If there are more than 16.
    pub fn reply(self, words: &[u64]) {
        self.reply_with(Message::answer().words(words));
    }

    /// Answers with words and bytes or data.
    pub fn reply_with(mut self, message: Message<'_>) {
        if !std::mem::replace(&mut self.done, true) {
            self.core.state.with(|state| state.reply_later(self.from, message));
        }
    }
}

impl Drop for ReplySlot {
    fn drop(&mut self) {
        if !self.done {
            self.core.state.with(|state| state.no_reply_later(self.from));
        }
    }
}

/// The handler of an answer that names none.
pub(crate) const PLAIN: u8 = u8::MAX;
