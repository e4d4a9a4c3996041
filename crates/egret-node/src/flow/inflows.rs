//! The receiver's end of all flows, without I/O: what their senders may still send, and what they
//! are told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::fault::{Fault, planted};
use super::{FlowBudget, FlowId, FlowNoRoom, PeerId, ReceiverNotice, SenderNotice, cost};
use crate::slots::SlotKey;

/// All flows that come to a node.
///
/// What a flow holds of the budget is always `granted - arrived`, and what arrived and was not
/// [taken](Self::taken).
#[derive(Debug)]
pub(crate) struct Inflows {
    pub(crate) budget: FlowBudget,
    flows: BTreeMap<FlowId, Inflow>,
    /// Flows that were granted something: all whose senders may send more than the guarantee.
    above: BTreeSet<FlowId>,
    /// What senders are to be told.
    out: VecDeque<(FlowId, ReceiverNotice)>,
}

/// A flow to this side, by the number that this side gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InflowKey {
    /// Bulk messages for an endpoint of this side, by the slot of the mapping.
    Requests(u32),
    /// Bulk replies to an endpoint of this side, by the number of its mapping.
    Replies(u32),
    /// A channel that is read here, by its slot.
    Channel(u32),
}

#[derive(Debug, Default)]
struct Inflow {
    /// The link and the place at its end that its bytes come to.
    place: Option<(SlotKey, InflowKey)>,
    granted: u64,
    arrived: u64,
    /// Taken since credit was granted last.
    used: u64,
    /// The sender was asked for what it does not use, and granted nothing since.
    recalled: bool,
    /// The flow was granted what a piece needs, and nothing has come since. That is not asked back: what
    /// is asked back as soon as it is granted crosses what the sender asks for next, and neither
    /// piece would ever be sent.
    promised: bool,
    /// The flow is granted nothing any more.
    stopped: bool,
}

// How a peer breaks the rules of flows: the texts that it is sent.

/// The peer sends without credit.
pub(crate) const NO_CREDIT: &str = "it sent more than its credit";
/// The peer asks for a place in the flow that it cannot have reached.
pub(crate) const WANTS_TOO_FAR: &str = "it asked for credit beyond what it can have sent";
/// The peer returns more credit than it has.
pub(crate) const NOT_UNUSED: &str = "it returned more credit than it had";

impl Inflows {
    pub(crate) const fn new(budget: FlowBudget) -> Self {
        Self { budget, flows: BTreeMap::new(), above: BTreeSet::new(), out: VecDeque::new() }
    }

    /// A flow of a peer, and what its sender may send at first.
    pub(crate) fn open(&mut self, peer: PeerId) -> Result<(FlowId, u64), FlowNoRoom> {
        let id = self.budget.open(peer)?;
        let granted = self.budget.held(id);
        self.flows.insert(id, Inflow { granted, ..Inflow::default() });
        Ok((id, granted))
    }

    /// Notes the link that a flow comes by, and what it is there.
    pub(crate) fn put(&mut self, id: FlowId, link: SlotKey, flow: InflowKey) {
        self.flow(id).place = Some((link, flow));
    }

    /// The link that a flow comes by, and what it is there.
    pub(crate) fn place(&self, id: FlowId) -> Option<(SlotKey, InflowKey)> {
        self.flows.get(&id)?.place
    }

    /// Bytes have come that cost so much.
    ///
    /// # Errors
    ///
    /// If the peer may not send so much.
    pub(crate) fn arrive(&mut self, id: FlowId, bytes: u64) -> Result<(), &'static str> {
        let flow = self.flow(id);
        if !flow.may_send(bytes) {
            return Err(NO_CREDIT);
        }
        flow.arrived += bytes;
        flow.promised = false;
        // It may have been asked back while there was a piece to send, which is here now.
        flow.recalled &= bytes == 0;
        Ok(())
    }

    /// What has come is the program's now, or dropped: its sender may send as much again, in time.
    /// `all`: nothing else waits to be taken.
    pub(crate) fn taken(&mut self, id: FlowId, bytes: u64, all: bool) {
        let flow = self.flow(id);
        flow.used += bytes;
        let keen = all && flow.left() < 2 * flow.used;
        if bytes == 0 {
            return;
        }
        if flow.stopped {
            return self.budget.retire(id, bytes);
        }
        let more = self.budget.taken(id, bytes, keen);
        self.grant(id, more, false);
    }

    /// The sender of a flow says something.
    ///
    /// # Errors
    ///
    /// What no honest peer says.
    pub(crate) fn hear(&mut self, id: FlowId, ask: SenderNotice) -> Result<(), &'static str> {
        let flow = self.flow(id);
        match ask {
            SenderNotice::Want { upto, len } => return self.want(id, upto, len),
            SenderNotice::Unused { bytes } if bytes > flow.left() => return Err(NOT_UNUSED),
            SenderNotice::Unused { bytes } => {
                flow.granted -= bytes;
                self.budget.unused(id, bytes);
            }
            SenderNotice::Withdraw => {
                flow.promised = false;
                self.budget.withdraw(id);
            }
        }
        Ok(())
    }

    fn want(&mut self, id: FlowId, upto: u64, len: u64) -> Result<(), &'static str> {
        let (flow, bytes) = (self.flow(id), cost(len));
        if upto.checked_sub(bytes).is_none_or(|start| start > flow.granted) {
            return Err(WANTS_TOO_FAR);
        }
        let lacking = upto.saturating_sub(flow.granted);
        if lacking == 0 || !flow.may_want() {
            return Ok(());
        }
        match self.budget.want(id, bytes, lacking) {
            // What was granted before is not enough, and may be needed elsewhere.
            Ok(0) => self.flow(id).promised = false,
            Ok(more) => self.grant(id, more, true),
            Err(never) => {
                self.flow(id).promised = false;
                self.out.push_back((id, ReceiverNotice::Refuse { upto, most: never.most }));
            }
        }
        Ok(())
    }

    fn grant(&mut self, id: FlowId, bytes: u64, is_promise: bool) {
        if bytes == 0 {
            return;
        }
        let flow = self.flow(id);
        flow.granted += bytes;
        (flow.used, flow.recalled) = (0, false);
        flow.promise(is_promise);
        self.above.insert(id);
        self.out.push_back((id, ReceiverNotice::Grant { bytes }));
    }

    /// Stops a flow whose data is not taken: no more is granted.
    pub(crate) fn stop(&mut self, id: FlowId) {
        if !std::mem::replace(&mut self.flow(id).stopped, true) {
            self.budget.retire(id, 0);
        }
    }

    /// Nothing comes any more: what was granted and not used will never be.
    pub(crate) fn cut(&mut self, id: FlowId) {
        let flow = self.flow(id);
        let left = flow.left();
        flow.granted = flow.arrived;
        flow.stopped = true;
        self.budget.retire(id, left);
    }

    /// Ends a flow. All that it held is free.
    pub(crate) fn close(&mut self, id: FlowId) {
        self.flows.remove(&id);
        self.above.remove(&id);
        self.out.retain(|(told, _)| *told != id);
        self.budget.close(id);
    }

    /// What the sender of a flow is to be told.
    pub(crate) fn poll(&mut self) -> Option<(FlowId, ReceiverNotice)> {
        while let Some((id, bytes)) = self.budget.poll_granted() {
            self.grant(id, bytes, true);
        }
        if self.out.is_empty() {
            self.recall();
        }
        self.out.pop_front()
    }

    /// Asks the senders for what they do not use beyond the guarantee, if others wait for it.
    fn recall(&mut self) {
        let Some(first) = self.budget.first_waiting() else { return };
        let keep = self.budget.terms().guarantee;
        self.above.retain(|id| {
            let flow = self.flows.get_mut(id).expect("an open flow");
            if *id != first && flow.may_be_recalled(keep) {
                flow.recalled = true;
                self.out.push_back((*id, ReceiverNotice::Recall { keep }));
            }
            flow.left() > keep
        });
    }

    /// What the sender may still send.
    #[cfg(test)]
    pub(crate) fn left(&mut self, id: FlowId) -> u64 {
        self.flow(id).left()
    }

    fn flow(&mut self, id: FlowId) -> &mut Inflow {
        self.flows.get_mut(&id).expect("an open flow")
    }
}

impl Inflow {
    const fn left(&self) -> u64 {
        self.granted - self.arrived
    }

    /// Whether the sender has credit for so many bytes.
    fn may_send(&self, bytes: u64) -> bool {
        bytes <= self.left() || planted(Fault::Unchecked)
    }

    /// Whether the sender may be granted more.
    fn may_want(&self) -> bool {
        !self.stopped && !planted(Fault::WantForgotten)
    }

    /// Notes whether what was granted is for a piece that the sender has.
    fn promise(&mut self, is_promise: bool) {
        self.promised |= is_promise && !planted(Fault::AskedBack);
    }

    /// Whether the sender has more than this, and may be asked to give it back.
    fn may_be_recalled(&self, keep: u64) -> bool {
        let stays = self.recalled || self.promised || self.stopped;
        self.left() > keep && !stays && !planted(Fault::NotRecalled)
    }
}
