//! How mappings come and go.

use std::sync::Arc;

use egret_net::vi::RemoteKey;

use super::call::{CallOutcome, PendingParts};
use super::fault::{self, Fault, planted};
use super::outgoing::MappingPhase;
use super::{EndpointState, HandlerTable, IncomingMapping, MessageError};
use crate::flow::InflowKey;
use crate::link::control::{LinkControl, MapRequest, Mapped, NotMapped, RequiredHandler};
use crate::link::{Fate, LinkError};
use crate::links::state::LinksState;
use crate::slots::SlotKey;

impl LinksState {
    /// The peer wants to map an endpoint of this side.
    pub(crate) fn asked_to_map(
        &mut self,
        link: SlotKey,
        map: &MapRequest,
    ) -> Result<(), &'static str> {
        if map.number >= crate::frame::FrameHead::SLOTS {
            return Err("a mapping with an invalid slot or window");
        }
        let answer = match self.consider(map) {
            Ok((endpoint, handlers)) => self.let_map(link, map, endpoint, handlers),
            Err(why) => LinkControl::NotMapped { number: map.number, why },
        };
        if let Ok(line) = self.links.live(link) {
            line.control(&answer);
        }
        self.pump(link);
        Ok(())
    }

    /// The endpoint that is asked for, and the numbers of its handlers.
    fn consider(&mut self, map: &MapRequest) -> Result<(SlotKey, Vec<u8>), NotMapped> {
        let key = self.names.get(&map.name).copied().ok_or(NotMapped::NoSuchEndpoint)?;
        let endpoint = self.endpoints.get(key).ok_or(NotMapped::NoSuchEndpoint)?;
        if endpoint.tag != map.tag {
            return Err(NotMapped::WrongTag);
        }
        let handlers = map.needs.iter().map(|need| endpoint.handler_for(need));
        Ok((key, handlers.collect::<Result<_, _>>()?))
    }

    fn let_map(
        &mut self,
        link: SlotKey,
        map: &MapRequest,
        endpoint: SlotKey,
        handlers: Vec<u8>,
    ) -> LinkControl {
        let number = map.number;
        let no_room = |why: &str| NotMapped::NoRoom { why: why.to_owned() };
        let Ok(line) = self.links.live(link) else {
            return LinkControl::NotMapped { number, why: no_room("the link has ended") };
        };
        if line.am.incoming.len() >= MAPPINGS_MAX {
            let why = format!("a link has at most {MAPPINGS_MAX} mappings");
            return LinkControl::NotMapped { number, why: no_room(&why) };
        }
        let lands = Arc::clone(&line.lands);
        let state = self.endpoints.get(endpoint).expect("just looked at");
        let (window, supply) = (state.window, Arc::clone(&state.supply));
        let Ok(admitted) = self.admitted.open_with(link.into(), u64::from(window)) else {
            let (mappings, messages) = (self.admitted.flows(), self.admitted.terms().bytes);
            let why = format!(
                "{mappings} mappings have all {messages} messages that it admits \
                 (LinksOptions::messages)"
            );
            return LinkControl::NotMapped { number, why: no_room(&why) };
        };
        let held = u32::try_from(self.admitted.held(admitted)).unwrap_or(u32::MAX);
        let window = window.min(held);
        let (flow, bytes) = match self.inflows.open(link.into()) {
            Ok(opened) => opened,
            Err(why) => {
                self.admitted.close(admitted);
                return LinkControl::NotMapped { number, why: no_room(&why.to_string()) };
            }
        };
        let state = self.endpoints.get(endpoint).expect("just looked at");
        let segment = state.segment.as_ref().map(|segment| segment.key().to_bytes());
        let window = fault::window_granted(window);
        let line = self.links.live(link).expect("just looked at");
        let slot = line
            .am
            .incoming
            .insert(IncomingMapping::new(map, endpoint, (window, admitted), flow))
            .index;
        lands.open(InflowKey::Requests(slot), bytes, Some(supply));
        self.inflows.put(flow, link, InflowKey::Requests(slot));
        self.meets(link, endpoint);
        LinkControl::Mapped(Mapped { number, slot, window, bytes, handlers, segment })
    }

    /// The peer has mapped its endpoint for this side.
    pub(crate) fn mapped(&mut self, link: SlotKey, mapped: Mapped) -> Result<(), &'static str> {
        let Mapped { number, slot, window, bytes, handlers, segment } = mapped;
        let line = self.links.live(link).map_err(|_| "no link")?;
        let outgoing =
            line.am.outgoing.at(number).ok_or("it confirmed a mapping that was not requested")?;
        if slot >= crate::frame::FrameHead::SLOTS || window == 0 {
            return Err("a mapping with an invalid slot or window");
        }
        match outgoing.phase {
            MappingPhase::Asked => {
                if handlers.len() != outgoing.handlers.len() {
                    return Err("other handlers than were asked for");
                }
                for ((_, number), known) in outgoing.handlers.iter_mut().zip(handlers) {
                    *number = known;
                }
                outgoing.segment = segment.map(|key| RemoteKey::from_bytes(&key));
                outgoing.mapped(slot, window, bytes);
                outgoing.waiters.wake();
                let endpoint = outgoing.endpoint;
                if self.endpoints.get(endpoint).is_some() {
                    self.meets(link, endpoint);
                }
            }
            MappingPhase::Unmapped => {
                outgoing.mapped(slot, window, bytes);
                outgoing.phase = MappingPhase::Unmapped;
                self.unmap_if_quiet(link, number);
            }
            _ => return Err("it confirmed a mapping twice"),
        }
        Ok(())
    }

    pub(crate) fn not_mapped(
        &mut self,
        link: SlotKey,
        number: u32,
        why: NotMapped,
    ) -> Result<(), &'static str> {
        let line = self.links.live(link).map_err(|_| "no link")?;
        let key = line.am.outgoing.key_at(number).ok_or("a refusal of nothing")?;
        let outgoing = line.am.outgoing.get(key).expect("just looked at");
        match outgoing.phase {
            MappingPhase::Asked => {
                outgoing.phase = MappingPhase::Refused(why);
                outgoing.waiters.wake();
                Ok(())
            }
            MappingPhase::Unmapped => {
                self.remove_outgoing(link, key);
                Ok(())
            }
            _ => Err("it refused a mapping it had confirmed"),
        }
    }

    /// This side gives a mapping up.
    pub(crate) fn unmap(&mut self, link: SlotKey, number: SlotKey) {
        let Some(line) = self.links.get(link) else { return };
        let (is_dead, is_quiet) = (line.ended.is_some(), line.carrier.is_quiet());
        let Some(outgoing) = line.am.outgoing.get(number) else { return };
        if is_dead && is_quiet || matches!(outgoing.phase, MappingPhase::Refused(_)) {
            self.remove_outgoing(link, number);
            self.forget_if_done(link);
            return;
        }
        let was_mapped = outgoing.phase == MappingPhase::Mapped;
        outgoing.phase = MappingPhase::Unmapped;
        if was_mapped && !is_dead {
            self.leave(link, number);
        }
    }

    /// A mapping ends, at once or when what is under way has come back.
    fn leave(&mut self, link: SlotKey, number: SlotKey) {
        let Ok(line) = self.links.live(link) else { return };
        let Some(outgoing) = line.am.outgoing.get(number) else { return };
        if outgoing.is_quiet() {
            return self.unmap_if_quiet(link, number.index);
        }
        let slot = outgoing.slot();
        line.control(&LinkControl::Leave { slot });
        self.pump(link);
    }

    /// The peer will give a mapping up.
    pub(crate) fn leaves(&mut self, link: SlotKey, slot: u32) -> Result<(), &'static str> {
        let line = self.links.live(link).map_err(|_| "no link")?;
        let incoming = line
            .am
            .incoming
            .at(slot)
            .ok_or("it announced the release of a mapping it does not have")?;
        let (number, messages) = (incoming.number, incoming.leave());
        if messages > 0 {
            line.control(&LinkControl::Credit { number, messages });
            self.pump(link);
        }
        Ok(())
    }

    /// Forgets the mappings of a dead link that were given up.
    pub(crate) fn remove_unmapped(&mut self, link: SlotKey) {
        let Some(line) = self.links.get(link) else { return };
        for key in line.am.outgoing.keys() {
            let outgoing = self.links.get(link).and_then(|line| line.am.outgoing.get(key));
            let given_up = [MappingPhase::Unmapped, MappingPhase::Gone];
            if outgoing.is_some_and(|outgoing| given_up.contains(&outgoing.phase)) {
                self.remove_outgoing(link, key);
            }
        }
    }

    /// Tells the peer that a mapping is given up, once nothing of it is under way.
    pub(crate) fn unmap_if_quiet(&mut self, link: SlotKey, number: u32) {
        let Ok(line) = self.links.live(link) else { return };
        let Some(key) = line.am.outgoing.key_at(number) else { return };
        let outgoing = line.am.outgoing.get(key).expect("just looked at");
        if outgoing.phase != MappingPhase::Unmapped || !outgoing.is_quiet() {
            return;
        }
        outgoing.phase = MappingPhase::Gone;
        let slot = outgoing.slot();
        fault::keep_number(&mut line.am.outgoing, key);
        line.control(&LinkControl::Unmap { slot });
        self.pump(link);
    }

    /// The peer knows that a mapping is given up.
    pub(crate) fn unmap_known(&mut self, link: SlotKey, number: u32) -> Result<(), &'static str> {
        let line = self.links.live(link).map_err(|_| "no link")?;
        let key =
            line.am.outgoing.key_at(number).ok_or("it ended a mapping that was not requested")?;
        let outgoing = line.am.outgoing.get(key).expect("just looked at");
        if outgoing.phase != MappingPhase::Gone {
            return Err("it ended a mapping in use");
        }
        self.remove_outgoing(link, key);
        Ok(())
    }

    fn remove_outgoing(&mut self, link: SlotKey, key: SlotKey) {
        let Some(line) = self.links.get(link) else { return };
        if let Some(outgoing) = line.am.outgoing.remove(key)
            && !planted(Fault::Leaky)
        {
            self.close_flow(outgoing.flow);
        }
    }

    /// The peer gives a mapping up.
    pub(crate) fn unmapped(&mut self, link: SlotKey, slot: u32) -> Result<(), &'static str> {
        let line = self.links.live(link).map_err(|_| "no link")?;
        let key = line.am.incoming.key_at(slot).ok_or("it released a mapping it does not have")?;
        let incoming = line.am.incoming.remove(key).expect("just looked at");
        let (is_quiet, number) = (incoming.is_quiet(), incoming.number);
        self.admitted.close(incoming.admitted);
        self.close_flow(incoming.flow);
        for waiting in incoming.places.into_waiting() {
            self.take_back_memory(incoming.endpoint, waiting.arrived);
        }
        if !is_quiet {
            return Err("it released a mapping with messages under way");
        }
        if let Ok(line) = self.links.live(link) {
            line.control(&LinkControl::Unmapped { number });
        }
        self.pump(link);
        Ok(())
    }

    /// Closes an endpoint. What is left of it is to be dropped without a lock.
    pub(crate) fn close_endpoint(
        &mut self,
        key: SlotKey,
    ) -> Option<(EndpointState, Option<HandlerTable>)> {
        let closed = self.endpoints.remove(key)?;
        if let Some(name) = &closed.name {
            self.names.remove(name);
        }
        self.meets_nobody(key);
        let bundle = self.bundles.get(closed.bundle);
        let table = bundle.and_then(|bundle| bundle.tables.remove(closed.table));
        self.forget_bundle(closed.bundle);
        Some((closed, table))
    }

    /// Serves what arrived while an endpoint moved.
    pub(crate) fn unpark(&mut self, key: SlotKey) {
        let Some(endpoint) = self.endpoints.get(key) else { return };
        for upcall in fault::as_arrived(endpoint.parked.take().unwrap_or_default()) {
            endpoint.under_way += 1;
            self.upcalls.push_back(upcall.at(endpoint.home()));
        }
    }

    /// Ends everything of active messages on a link that died.
    pub(crate) fn end_tables(&mut self, link: SlotKey, why: &LinkError) {
        let Some(line) = self.links.get(link) else { return };
        let mut flows = Vec::new();
        for (_, outgoing) in line.am.outgoing.iter_mut() {
            outgoing.waiters.wake();
            flows.push(outgoing.flow);
        }
        for key in line.am.calls.keys() {
            let call = line.am.calls.get(key).expect("just listed");
            if call.awaits.answer {
                let fate = fault::fate_told(Fate::Unknown);
                let reason = MessageError::LinkLost { fate, why: why.clone() };
                call.outcome = CallOutcome::Failed(Box::new(reason));
                call.awaits = PendingParts { answer: false, ..call.awaits };
            }
            line.settle(key);
        }
        for key in line.am.incoming.keys() {
            let line = self.links.get(link).expect("just looked at");
            let incoming = line.am.incoming.remove(key).expect("just listed");
            self.admitted.close(incoming.admitted);
            self.close_flow(incoming.flow);
            for waiting in incoming.places.into_waiting() {
                self.take_back_memory(incoming.endpoint, waiting.arrived);
            }
        }
        // No answer comes any more, though its mapping stays until the program gives it up.
        flows.into_iter().for_each(|flow| self.inflows.cut(flow));
        self.tell_flows();
        self.tell_ended(link, why);
    }
}

impl EndpointState {
    /// The number of the handler with these types.
    fn handler_for(&self, need: &RequiredHandler) -> Result<u8, NotMapped> {
        let known = self.typed.iter().find(|(known, _)| known.name == need.name);
        let name = || need.name.clone();
        let (known, number) = known.ok_or_else(|| NotMapped::NoSuchHandler { name: name() })?;
        let has = (known.takes.fingerprint, known.answers.fingerprint);
        if has == (need.takes, need.answers) {
            Ok(*number)
        } else {
            Err(NotMapped::OtherTypes { have: known.clone() })
        }
    }
}

/// Mappings that a peer may have on one link.
const MAPPINGS_MAX: usize = 1 << 16;
