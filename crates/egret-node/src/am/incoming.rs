//! A mapping as the receiving side sees it.

use super::fault::{Fault, planted};
use super::request_order::RequestOrder;
use crate::flow::{FlowId, Outflow};
use crate::link::control::MapRequest;
use crate::slots::SlotKey;

/// An endpoint of this side, as one of the peer has mapped it.
#[derive(Debug)]
pub(crate) struct IncomingMapping {
    /// The number of the mapping at the peer.
    pub(crate) number: u32,
    pub(crate) endpoint: SlotKey,
    /// The endpoint's tag when the peer mapped it.
    pub(crate) tag: u64,
    window: u32,
    /// The share of the admitted messages that the window takes.
    pub(crate) admitted: FlowId,
    /// Messages that have arrived and whose credit was not given back.
    used: u32,
    /// Messages that were served and whose credit was not given back.
    owed: u32,
    /// Whether the peer gives the mapping up, so that credit goes back at once.
    leaving: bool,
    /// The flow of its data.
    pub(crate) flow: FlowId,
    /// Requests that wait for data that was sent before them.
    pub(super) places: RequestOrder,
    /// Answers with data.
    pub(super) replies: Outflow,
    /// Whether the answers wait until the link has sent others.
    pub(super) stalled: bool,
}

impl IncomingMapping {
    pub(crate) fn new(
        map: &MapRequest,
        endpoint: SlotKey,
        (window, admitted): (u32, FlowId),
        flow: FlowId,
    ) -> Self {
        let (number, tag, replies) = (map.number, map.tag, Outflow::new(map.bytes));
        let (used, owed, leaving, stalled) = (0, 0, false, false);
        Self {
            number,
            endpoint,
            tag,
            window,
            admitted,
            used,
            owed,
            leaving,
            flow,
            places: RequestOrder::default(),
            replies,
            stalled,
        }
    }

    /// How many messages may be under way.
    pub(super) const fn window(&self) -> u32 {
        self.window
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
        let is_due = self.owed * 4 >= self.window || self.leaving;
        (is_due && !planted(Fault::CreditKept)).then(|| self.settle())
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
