//! The sender's end of a flow, without I/O: what may be sent, what waits, and what was asked for.

use std::collections::VecDeque;

use egret_net::vi::Descriptor;

use super::fault::{Fault, planted};
use super::{NeverFits, ReceiverNotice, SenderNotice, cost};
use crate::frame::{FrameHead, FrameKind};

/// The sender's end of one flow: frames go in their order, each when there is credit for it.
#[derive(Debug, Default)]
pub(crate) struct Outflow {
    /// What may still be sent, and what was, both as [`cost`] reckons.
    credit: u64,
    sent: u64,
    queue: VecDeque<Descriptor>,
    /// The first of the queue was asked for.
    asked: bool,
    /// Wants that may still be refused, and how far the furthest of them reaches.
    wants: u32,
    wants_upto: u64,
    /// Credit to give back, and whether what was asked for is not needed.
    unused: u64,
    withdrawn: bool,
}

impl Outflow {
    /// Of a flow whose receiver takes so much.
    pub(crate) fn new(credit: u64) -> Self {
        Self { credit, ..Self::default() }
    }

    /// Puts a frame behind those that wait.
    pub(crate) fn push(&mut self, frame: Descriptor) {
        self.queue.push_back(frame);
    }

    /// Puts a frame that is free before those that wait.
    pub(crate) fn push_free(&mut self, frame: Descriptor) {
        self.queue.push_front(frame);
    }

    /// The first frame that waits.
    pub(crate) fn first(&self) -> Option<&Descriptor> {
        self.queue.front()
    }

    /// Whether there is a frame, and credit for it.
    pub(crate) fn is_ready(&self) -> bool {
        self.first().is_some_and(|first| price(first) <= self.credit || planted(Fault::Spendthrift))
    }

    /// The next frame, if there is credit for it.
    pub(crate) fn poll_frame(&mut self) -> Option<Descriptor> {
        let frame = if self.is_ready() { self.queue.pop_front()? } else { return None };
        self.credit = self.credit.saturating_sub(price(&frame));
        self.sent += price(&frame);
        self.asked = false;
        Some(frame)
    }

    /// What the receiver must be told, if anything.
    pub(crate) fn poll_ask(&mut self) -> Option<SenderNotice> {
        if self.unused > 0 {
            return Some(SenderNotice::Unused { bytes: std::mem::take(&mut self.unused) });
        }
        if std::mem::take(&mut self.withdrawn) {
            return Some(SenderNotice::Withdraw);
        }
        let len = data_len(self.first()?)?;
        if self.asked || cost(len) <= self.credit {
            return None;
        }
        self.asked = true;
        let upto = self.sent + cost(len);
        self.wants = self.wants.saturating_add(1);
        self.wants_upto = self.wants_upto.max(upto);
        Some(SenderNotice::Want { upto, len })
    }

    /// The receiver says something. What the first frame needs and can never have, if that was
    /// refused: the frame is still there, and is to be taken out.
    ///
    /// # Errors
    ///
    /// If it refuses what was not asked for.
    pub(crate) fn hear(&mut self, tell: ReceiverNotice) -> Result<Option<NeverFits>, &'static str> {
        match tell {
            ReceiverNotice::Grant { bytes } => {
                self.credit = self.credit.saturating_add(bytes);
                // What is refused is refused before anything is granted that would do for it.
                if self.sent.saturating_add(self.credit) >= self.wants_upto {
                    self.wants = 0;
                }
                Ok(None)
            }
            ReceiverNotice::Refuse { upto, most } => {
                self.wants = self.wants.checked_sub(1).ok_or(NOT_ASKED)?;
                let bytes = self.first().map_or(0, price);
                // Otherwise that frame was given up meanwhile.
                let is_first = self.asked && self.sent + bytes == upto;
                self.asked &= !is_first;
                Ok(is_first.then_some(NeverFits { bytes, most }))
            }
            ReceiverNotice::Recall { keep } => {
                self.recall(keep);
                Ok(None)
            }
        }
    }

    /// The receiver needs what this end does not, or does not as long as it waits for more: then
    /// it asks again.
    fn recall(&mut self, keep: u64) {
        let idle = self.first().is_none_or(|first| price(first) > self.credit);
        if idle && self.credit > keep {
            self.unused = self.unused.saturating_add(self.credit - keep);
            self.credit = keep;
            self.asked = false;
        }
    }

    /// Takes out the first frame, which will not be sent.
    pub(crate) fn give_up(&mut self) -> Option<Descriptor> {
        self.withdraw();
        self.queue.pop_front()
    }

    /// Drops all frames that cost something.
    pub(crate) fn drop_charged(&mut self) {
        self.queue.retain(|frame| price(frame) == 0);
    }

    /// What was asked for is not needed.
    pub(crate) fn withdraw(&mut self) {
        self.withdrawn |= std::mem::take(&mut self.asked);
    }

    /// Takes out everything that waits.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Descriptor> {
        self.asked = false;
        self.queue.drain(..)
    }

    /// Everything that waits.
    pub(crate) fn frames(&mut self) -> impl Iterator<Item = &mut Descriptor> {
        self.queue.iter_mut()
    }

    /// How many frames wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether frames wait that cost something.
    pub(crate) fn has_charged(&self) -> bool {
        self.queue.iter().any(|frame| price(frame) > 0)
    }

    /// What was sent, and what that will be when all that waits has gone: a place in the flow.
    pub(crate) fn sent(&self) -> (u64, u64) {
        (self.sent, self.sent + self.queue.iter().map(price).sum::<u64>())
    }

    /// What may be sent now.
    pub(crate) const fn credit(&self) -> u64 {
        self.credit
    }
}

/// The bytes of a frame that its receiver needs memory for. The end of a channel, and of a message
/// that is no more, are free: there is at most one for each, and it takes the place of what it ends.
fn data_len(frame: &Descriptor) -> Option<u64> {
    let head = FrameHead::from_bits(frame.tag()).expect("of this side");
    let is_free = matches!(head.kind, FrameKind::Abort | FrameKind::End);
    (!is_free).then(|| frame.len() - u64::from(head.words) * 8)
}

fn price(frame: &Descriptor) -> u64 {
    data_len(frame).map_or(0, cost)
}

const NOT_ASKED: &str = "it refused a piece that was not sent";

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(len: usize) -> Descriptor {
        Descriptor::new(vec![0_u8; len]).with_tag(FrameHead::of(FrameKind::Bulk, 0).to_bits())
    }

    #[test]
    fn a_refusal_of_what_was_given_up_is_no_lie_and_hits_nobody_else() {
        let mut flow = Outflow::new(1000);
        flow.push(bulk(100_000));
        let upto = cost(100_000);
        assert_eq!(flow.poll_ask(), Some(SenderNotice::Want { upto, len: 100_000 }));
        assert!(flow.give_up().is_some());
        flow.push(bulk(5_000));
        assert_eq!(flow.poll_ask(), Some(SenderNotice::Withdraw));
        assert_eq!(flow.poll_ask(), Some(SenderNotice::Want { upto: cost(5_000), len: 5_000 }));
        assert_eq!(flow.hear(ReceiverNotice::Refuse { upto, most: 9_000 }), Ok(None));
        assert_eq!(flow.hear(ReceiverNotice::Grant { bytes: upto }), Ok(None));
        assert_eq!(flow.poll_frame().map(|frame| frame.len()), Some(5_000));
        assert_eq!(
            flow.hear(ReceiverNotice::Refuse { upto, most: 9_000 }),
            Err(NOT_ASKED),
            "it was granted"
        );
    }

    #[test]
    fn a_recalled_flow_returns_credit_and_asks_again() {
        let mut flow = Outflow::new(1000);
        flow.push(bulk(5_000));
        let want = SenderNotice::Want { upto: cost(5_000), len: 5_000 };
        assert_eq!(flow.poll_ask(), Some(want));
        assert_eq!(flow.hear(ReceiverNotice::Recall { keep: 300 }), Ok(None));
        assert_eq!(flow.poll_ask(), Some(SenderNotice::Unused { bytes: 700 }));
        assert_eq!(flow.poll_ask(), Some(want));
        assert_eq!(flow.hear(ReceiverNotice::Grant { bytes: cost(5_000) - 300 }), Ok(None));
        assert!(flow.is_ready());
        assert_eq!(flow.hear(ReceiverNotice::Recall { keep: 0 }), Ok(None), "it is needed");
        assert_eq!((flow.poll_ask(), flow.is_ready()), (None, true));
    }
}
