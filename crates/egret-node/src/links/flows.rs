//! Notices of flows, between the frames of links and the ends of flows.

use super::state::LinksState;
use crate::am::MappingPhase;
use crate::flow::{FlowId, FlowName, InflowKey, ReceiverNotice, SenderNotice};
use crate::link::control::LinkControl;
use crate::slots::SlotKey;

impl LinksState {
    /// Handles a notice of the sender of a flow to this side.
    ///
    /// # Errors
    ///
    /// What no honest peer says.
    pub(crate) fn asked(
        &mut self,
        link: SlotKey,
        flow: FlowName,
        ask: SenderNotice,
    ) -> Result<(), &'static str> {
        let line = self.links.get(link).ok_or("no link")?;
        let id = match flow {
            FlowName::Requests(slot) => Some(line.am.incoming.at(slot).ok_or(NOT_MAPPED)?.flow),
            // The answer has gone without its bytes, and overtook the question on another lane. The
            // peer will hear that the mapping was given up before it hears anything else of it.
            FlowName::Replies(number) => {
                let outgoing = line.am.outgoing.at(number).ok_or(NOT_MAPPED)?;
                Some(outgoing.flow).filter(|_| outgoing.phase != MappingPhase::Gone)
            }
            FlowName::Channel(number) => self.channels.inflow(link, number),
        };
        let Some(id) = id else { return Ok(()) };
        self.inflows.hear(id, ask)?;
        if let (SenderNotice::Unused { bytes }, Some((_, place))) = (ask, self.inflows.place(id)) {
            line.lands.revoke(place, bytes);
        }
        self.tell_flows();
        if matches!(flow, FlowName::Replies(_)) {
            self.give_way();
        }
        Ok(())
    }

    /// Handles a notice of the receiver of a flow from this side.
    ///
    /// # Errors
    ///
    /// What no honest peer says.
    pub(crate) fn told(
        &mut self,
        link: SlotKey,
        flow: FlowName,
        tell: ReceiverNotice,
    ) -> Result<(), &'static str> {
        match flow {
            FlowName::Requests(number) => self.told_of_data(link, number, tell),
            FlowName::Replies(slot) => self.told_of_replies(link, slot, tell),
            FlowName::Channel(number) => {
                let told = self.channels.told(link, number, tell);
                self.drain_channels();
                told
            }
        }
    }

    /// Sends the notices that are due to the senders of flows.
    pub(crate) fn tell_flows(&mut self) {
        while let Some((id, tell)) = self.inflows.poll() {
            let Some((link, place)) = self.inflows.place(id) else { continue };
            let Some(line) = self.links.get(link).filter(|line| line.ended.is_none()) else {
                continue;
            };
            if let ReceiverNotice::Grant { bytes } = tell {
                line.lands.grant(place, bytes);
            }
            let am = &mut line.am;
            let flow = match place {
                InflowKey::Requests(slot) => {
                    am.incoming.at(slot).map(|it| FlowName::Requests(it.number))
                }
                InflowKey::Replies(number) => {
                    am.outgoing.at(number).and_then(|it| it.known_slot()).map(FlowName::Replies)
                }
                InflowKey::Channel(slot) => {
                    Some(FlowName::Channel(self.channels.reader(slot).number))
                }
            };
            if let Some(flow) = flow {
                line.control(&LinkControl::Tell { flow, tell });
                self.pump(link);
            }
        }
    }

    /// Ends a flow to this side.
    pub(crate) fn close_flow(&mut self, id: FlowId) {
        if let Some((link, place)) = self.inflows.place(id)
            && let Some(line) = self.links.get(link)
        {
            line.lands.close(place);
        }
        self.inflows.close(id);
        self.tell_flows();
    }
}

const NOT_MAPPED: &str = "a message about credit for a mapping that does not exist";
