//! Flows of bytes among everything else that a link carries: what their ends tell each other.

use super::slots::Key;
use super::state::State;
use crate::am::Phase;
use crate::flow::{Ask, FlowId, Name, Tell};
use crate::link::control::Control;
use crate::link::lands::Flow;

impl State {
    /// The sender of a flow to this side says something.
    ///
    /// # Errors
    ///
    /// What no honest peer says.
    pub(crate) fn asked(&mut self, link: Key, flow: Name, ask: Ask) -> Result<(), &'static str> {
        let line = self.links.get(link).ok_or("no link")?;
        let id = match flow {
            Name::Requests(slot) => Some(line.am.incoming.at(slot).ok_or(NOT_MAPPED)?.flow),
            // The answer has gone without its bytes, and overtook the question on another lane. The
            // peer will hear that the mapping was given up before it hears anything else of it.
            Name::Replies(number) => {
                let outgoing = line.am.outgoing.at(number).ok_or(NOT_MAPPED)?;
                Some(outgoing.flow).filter(|_| outgoing.phase != Phase::Gone)
            }
            Name::Channel(number) => self.channels.inflow(link, number),
        };
        let Some(id) = id else { return Ok(()) };
        self.inflows.hear(id, ask)?;
        if let (Ask::Unused { bytes }, Some((_, place))) = (ask, self.inflows.place(id)) {
            line.lands.revoke(place, bytes);
        }
        self.tell_flows();
        if matches!(flow, Name::Replies(_)) {
            self.give_way();
        }
        Ok(())
    }

    /// The receiver of a flow of this side says something.
    ///
    /// # Errors
    ///
    /// What no honest peer says.
    pub(crate) fn told(&mut self, link: Key, flow: Name, tell: Tell) -> Result<(), &'static str> {
        match flow {
            Name::Requests(number) => self.told_of_data(link, number, tell),
            Name::Replies(slot) => self.told_of_replies(link, slot, tell),
            Name::Channel(number) => {
                let told = self.channels.told(link, number, tell);
                self.drain_channels();
                told
            }
        }
    }

    /// Tells the senders of flows what they are to be told.
    pub(crate) fn tell_flows(&mut self) {
        while let Some((id, tell)) = self.inflows.poll() {
            let Some((link, place)) = self.inflows.place(id) else { continue };
            let Some(line) = self.links.get(link).filter(|line| line.ended.is_none()) else {
                continue;
            };
            if let Tell::Grant { bytes } = tell {
                line.lands.grant(place, bytes);
            }
            let am = &mut line.am;
            let flow = match place {
                Flow::Requests(slot) => am.incoming.at(slot).map(|it| Name::Requests(it.number)),
                Flow::Replies(number) => {
                    am.outgoing.at(number).and_then(|it| it.known_slot()).map(Name::Replies)
                }
                Flow::Channel(slot) => Some(Name::Channel(self.channels.reader(slot).number)),
            };
            if let Some(flow) = flow {
                line.control(&Control::Tell { flow, tell });
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

const NOT_MAPPED: &str = "it wants what is not mapped";
