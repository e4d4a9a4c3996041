//! What a node knows of a channel that is read here.

use std::task::Waker;

use super::error::ChannelError;
use super::inflow::{ChannelInflow, MessageBegin, NextPart, PartMemory};
use crate::flow::cost;
use crate::link::LinkError;
use crate::slots::SlotKey;
use crate::wakers::WakerList;

/// A channel that is read here.
#[derive(Debug)]
pub(crate) struct ReaderState {
    pub(crate) link: SlotKey,
    pub(crate) number: u64,
    /// The host that writes it.
    pub(crate) host: String,
    pub(super) incoming: ChannelInflow,
    died: Option<LinkError>,
    abandoned: bool,
    waiters: WakerList,
    /// What was taken of a message that is read whole.
    whole: Option<PartialChannelMessage>,
}

/// Parts of a message that is not whole yet.
#[derive(Debug, Default)]
struct PartialChannelMessage {
    parts: Vec<PartMemory>,
    bytes: u64,
    cost: u64,
}

impl ReaderState {
    pub(super) fn new((link, peer): (SlotKey, &str), number: u64, incoming: ChannelInflow) -> Self {
        let host = peer.to_owned();
        let (died, abandoned, waiters, whole) = (None, false, WakerList::default(), None);
        Self { link, number, host, incoming, died, abandoned, waiters, whole }
    }

    /// Whether there is a message to read; nothing, if that is not known yet.
    pub(crate) fn poll_begin(&mut self, waker: Option<&Waker>) -> Option<Result<bool, LinkError>> {
        match self.incoming.begin() {
            MessageBegin::Message => Some(Ok(true)),
            MessageBegin::Ended => Some(Ok(false)),
            MessageBegin::Nothing => self.nothing(waker),
        }
    }

    /// Drops what was taken of a message that was to be read whole, with the rest of the message.
    /// Whether there was such.
    pub(crate) fn drop_whole(&mut self) -> bool {
        let is_dropped = self.whole.take().is_some();
        if is_dropped {
            self.incoming.skip();
        }
        is_dropped
    }

    /// What comes next of the message that is read.
    pub(crate) fn poll_next(
        &mut self,
        waker: Option<&Waker>,
    ) -> Option<Result<NextPart, LinkError>> {
        match self.incoming.next() {
            NextPart::Nothing => self.nothing(waker),
            next => Some(Ok(next)),
        }
    }

    /// The next message, when all of it has come. `None`: there will be no other.
    pub(crate) fn poll_whole(
        &mut self,
        most: u64,
        waker: Option<&Waker>,
    ) -> Option<Result<Option<Vec<PartMemory>>, ChannelError>> {
        loop {
            if self.whole.is_none() {
                match self.poll_begin(waker)? {
                    Ok(true) => self.whole = Some(PartialChannelMessage::default()),
                    Ok(false) => return Some(Ok(None)),
                    Err(why) => return Some(Err(why.into())),
                }
            }
            let (memory, is_last) = match self.poll_next(waker)? {
                Ok(NextPart::Part(memory)) => (memory, false),
                Ok(NextPart::Last(memory)) => (memory, true),
                Ok(NextPart::Aborted | NextPart::Nothing) => {
                    self.whole = None;
                    continue;
                }
                Err(why) => return Some(Err(why.into())),
            };
            let whole = self.whole.get_or_insert_default();
            whole.push(memory);
            let bytes = whole.bytes;
            if bytes > most || whole.cost > most.saturating_add(cost(0)).saturating_mul(2) {
                self.whole = None;
                self.incoming.skip();
                return Some(Err(ChannelError::MessageTooLarge { bytes, most }));
            }
            if is_last {
                return Some(Ok(self.whole.take().map(|whole| whole.parts)));
            }
        }
    }

    fn nothing<T>(&mut self, waker: Option<&Waker>) -> Option<Result<T, LinkError>> {
        if let Some(why) = &self.died {
            return Some(Err(why.clone()));
        }
        self.waiters.wait(waker);
        None
    }

    /// The rest of the message that is read is not wanted.
    pub(crate) fn skip(&mut self) {
        self.incoming.skip();
    }

    /// Whether it is one of this link, and that lives.
    pub(super) fn is_of(&self, link: SlotKey) -> bool {
        self.link == link && self.is_live()
    }

    pub(super) const fn is_live(&self) -> bool {
        self.died.is_none()
    }

    pub(super) fn died(&mut self, why: &LinkError) {
        if !self.incoming.is_ended() {
            self.died = Some(why.clone());
            self.incoming.cut();
        }
        self.wake();
    }

    /// Its handle is gone. Whether the writer is to be told.
    pub(super) fn abandon(&mut self) -> bool {
        self.abandoned = true;
        self.incoming.stop() && self.is_live()
    }

    /// Whether no handle can ask for anything of it, and nothing comes for it, any more.
    pub(super) const fn is_done(&self) -> bool {
        self.abandoned && (self.incoming.is_ended() || self.died.is_some())
    }

    pub(super) fn wake(&mut self) {
        self.waiters.wake();
    }
}

impl PartialChannelMessage {
    fn push(&mut self, memory: PartMemory) {
        let bytes = memory.len() as u64;
        self.bytes += bytes;
        self.cost += cost(bytes);
        if bytes > 0 {
            self.parts.push(memory);
        }
    }
}
