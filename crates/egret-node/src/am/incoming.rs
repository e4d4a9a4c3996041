//! A mapping as the receiving side sees it.

use std::collections::VecDeque;

use egret_net::vi::Descriptor;

use super::gather::data_bytes;
use crate::flow::FlowId;
use crate::link::control::Map;
use crate::links::slots::Key;

/// An endpoint of this side, as one of the peer has mapped it.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Of the mapping at the peer.
    pub(crate) number: u32,
    pub(crate) endpoint: Key,
    /// What the peer takes for the endpoint's tag.
    pub(crate) tag: u64,
    window: u32,
    /// Messages that have come and not been given back.
    used: u32,
    /// Messages that are done and not given back.
    owed: u32,
    /// It is given up once all are given back, which is to be at once.
    leaving: bool,
    /// By which its data comes.
    pub(crate) flow: FlowId,
    /// What the data of answers may cost now.
    reply_bytes: u64,
    /// Answers with data that wait for bytes.
    replies: VecDeque<Descriptor>,
    /// Whether they wait for the link to have sent others.
    pub(super) stalled: bool,
    /// Answers with data that were asked for, and gave way before the peer had answered that.
    gave_way: u32,
}

impl Incoming {
    pub(crate) fn new(map: &Map, endpoint: Key, window: u32, flow: FlowId) -> Self {
        let (number, tag, reply_bytes) = (map.number, map.tag, map.bytes);
        let replies = VecDeque::new();
        Self {
            number,
            endpoint,
            tag,
            window,
            used: 0,
            owed: 0,
            leaving: false,
            flow,
            reply_bytes,
            replies,
            stalled: false,
            gave_way: 0,
        }
    }

    /// Puts an answer with data behind those that wait. Whether it is the first.
    pub(crate) fn push_reply(&mut self, frame: Descriptor) -> bool {
        self.replies.push_back(frame);
        self.replies.len() == 1
    }

    /// Whether answers with data wait for bytes.
    pub(crate) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// The peer takes so much more.
    pub(crate) fn grant_replies(&mut self, bytes: u64) {
        self.reply_bytes = self.reply_bytes.saturating_add(bytes);
    }

    /// The next answer that may be sent.
    pub(crate) fn pop_reply(&mut self) -> Option<Descriptor> {
        self.reply_bytes = self.reply_bytes.checked_sub(data_bytes(self.replies.front()?))?;
        self.replies.pop_front()
    }

    /// What the next answer costs, and what of that is lacking.
    pub(crate) fn lacks(&self) -> Option<(u64, u64)> {
        let bytes = data_bytes(self.replies.front()?);
        Some((bytes, bytes.saturating_sub(self.reply_bytes)))
    }

    /// The next answer with data that waits.
    pub(crate) fn next_reply(&self) -> Option<&Descriptor> {
        self.replies.front()
    }

    /// Takes out the next answer, which cannot be sent.
    pub(crate) fn drop_reply(&mut self) -> Option<Descriptor> {
        self.replies.pop_front()
    }

    /// The next answer with data gives way, though the peer was asked to take it.
    pub(crate) fn give_way(&mut self) -> Option<Descriptor> {
        let reply = self.replies.pop_front()?;
        self.gave_way += 1;
        self.answered();
        Some(reply)
    }

    /// Whether the peer, which will not take something that costs so much, means an answer that
    /// gave way.
    pub(crate) fn is_of_one_gone(&mut self, bytes: u64) -> bool {
        let is_next = self.lacks().is_some_and(|(next, _)| next == bytes);
        let is_gone = !is_next && self.gave_way > 0;
        self.gave_way -= u32::from(is_gone);
        is_gone
    }

    /// A message has come.
    ///
    /// # Errors
    ///
    /// If the peer may not send one.
    #[inline]
    pub(crate) fn take(&mut self) -> Result<(), &'static str> {
        if self.used >= self.window {
            return Err("more messages than its window allows");
        }
        self.used += 1;
        Ok(())
    }

    /// A message was answered, which gives its credit back.
    #[inline]
    pub(crate) fn answered(&mut self) {
        self.used -= 1;
    }

    /// A message that is not answered was served. Credits to give back, if it is time.
    #[inline]
    pub(crate) fn served(&mut self) -> Option<u32> {
        self.owed += 1;
        if self.owed * 4 < self.window && !self.leaving {
            return None;
        }
        Some(self.settle())
    }

    /// The peer gives the mapping up. Credits to give back now.
    pub(crate) fn leave(&mut self) -> u32 {
        self.leaving = true;
        self.settle()
    }

    fn settle(&mut self) -> u32 {
        self.used -= self.owed;
        std::mem::take(&mut self.owed)
    }

    /// Whether nothing of it is under way.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.used == 0
    }
}
