//! What cooperating connections have and isolated ones have not: buffers that change hands
//! (`lent.rs`, `received.rs`, `returns.rs`, `reaper.rs`), and memory under keys that a peer writes
//! by itself (`gate.rs`, `exposed.rs` at the owner, `direct_write.rs` at the writer).

pub(super) mod direct_write;
pub(super) mod exposed;
pub(super) mod gate;
pub(super) mod lent;
pub(super) mod reaper;
pub(super) mod received;
pub(super) mod returns;

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use self::direct_write::{DirectTarget, DirectWrites};
use self::exposed::{ConnectionGates, ExposedBuffer, GateGrant};
use self::gate::{GateEntrant, GateKeeper, GatePass};
use self::lent::{BufferTicket, LentBuffers};
use self::received::ReceivedBuffers;
use self::returns::{REGION_MASK, SlotPlace};
use super::block;
use super::doorbell::DoorbellRinger;
use super::fault::{Fault, planted};
use super::foreign::ForeignMemory;
use super::layout::{GATES, REGION_MAX, RETURNS};
use super::memory::OwnMemory;
use super::rendezvous::ControlMessage;
use crate::buf::{Buf, Region};
use crate::vi::{Keys, ViError};

#[derive(Debug)]
pub(super) struct CooperatingSegments {
    /// Buffers of this process that the peer has.
    lent: LentBuffers,
    /// Buffers of the peer that this process has.
    received: ReceivedBuffers,
    /// Regions announced to the peer, with their numbers. They stay mapped, so
    /// that no other region can have their address.
    regions: BTreeMap<usize, (u16, Region)>,
    /// The gates to memory of this process under keys.
    gates: ConnectionGates,
    /// The ways to memory of the peer under keys.
    pub(super) direct: DirectWrites,
}

/// A buffer on its way to its new owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HandedBuffer {
    pub ticket: BufferTicket,
    /// Whether it goes back to where it came from.
    pub back: bool,
}

impl CooperatingSegments {
    /// `None` if there is no way to know when the peer's process ends, or to
    /// wake it.
    pub(super) fn new(
        own: &OwnMemory,
        foreign: &ForeignMemory,
        process: BorrowedFd<'_>,
        ringer: &DoorbellRinger,
    ) -> Option<Self> {
        let process = process.try_clone_to_owned().ok()?;
        let keeper = GateKeeper::new(own.clone(), foreign.clone(), GATES, gate::GATES)?;
        let gates = ConnectionGates::new(keeper, process.try_clone().ok()?);
        let direct =
            DirectWrites::new(GateEntrant::new(own.clone(), foreign.clone(), GATES, gate::GATES)?);
        let lent = LentBuffers::new(process, foreign.clone(), RETURNS as u64).ok()?;
        let ringer = Mutex::new(ringer.another().ok()?);
        let received = ReceivedBuffers::new(own.clone(), RETURNS, move || ring(&ringer));
        Some(Self { lent, received, regions: BTreeMap::new(), gates, direct })
    }

    /// Makes a buffer the peer's; `tell` announces its region if the peer does
    /// not know it. A buffer that cannot change hands comes back.
    pub(super) fn give(
        &mut self,
        buf: Buf,
        tell: impl FnOnce(&ControlMessage, BorrowedFd<'_>) -> bool,
    ) -> Result<HandedBuffer, Buf> {
        if self.received.has(&buf) {
            let given = self.received.give_back(buf).map_err(|(buf, _)| buf)?;
            return Ok(HandedBuffer { ticket: given, back: true });
        }
        let plan = || LentBuffers::announcement(&buf).map(|(_, plan)| plan);
        let Some(region) = announced(&mut self.regions, buf.region(), plan, tell) else {
            return Err(buf);
        };
        let ticket = self.lent.lend(region, buf).map_err(|(buf, _)| buf)?;
        Ok(HandedBuffer { ticket, back: false })
    }

    /// The peer has written by a key: from now on it may without us, if the memory
    /// is for that.
    pub(super) fn open(
        &mut self,
        keys: &Keys,
        secret: u64,
        tell: impl Fn(&ControlMessage, &[BorrowedFd<'_>]) -> bool,
    ) {
        let Self { regions, gates, .. } = self;
        keys.open(secret, ExposedBuffer::new, |opened: &mut ExposedBuffer| {
            if opened.has_gate(gates) {
                return;
            }
            let (region, plan) = (opened.region(), || Some(opened.plan().to_vec()));
            let number = announced(regions, region, plan, |message, fd| tell(message, &[fd]));
            let Some(number) = number else { return };
            opened.invite(
                gates,
                number,
                |GateGrant { pass: GatePass { gate, number }, ticket }| {
                    let (place, len) = (ticket.place.encode(), ticket.len);
                    tell(&ControlMessage::DirectWrite { secret, gate, number, place, len }, &[])
                },
            );
        });
    }

    /// The peer says that this end may write by a key without it.
    pub(super) fn learn(
        &mut self,
        secret: u64,
        pass: GatePass,
        (place, len): (u64, u64),
    ) -> Result<(), Box<ViError>> {
        let nothing = ViError::Protocol("a buffer that the peer does not hold");
        let place = SlotPlace::decode(place)
            .and_then(|place| self.received.away(BufferTicket { place, len }));
        let (region, at) = place.ok_or(nothing.clone())?;
        let way = DirectTarget { pass, region: region.clone(), at, len };
        Ok(self.direct.learn(secret, way).then_some(()).ok_or(nothing)?)
    }

    /// The peer announces a region of its.
    pub(super) fn add(
        &mut self,
        number: u16,
        fd: &OwnedFd,
        plan: &[u64],
    ) -> Result<(), Box<ViError>> {
        let added = self.received.announced(number, fd, plan, REGION_MAX);
        Ok(added.map_err(|_| ViError::Protocol("buffers that cannot be had safely"))?)
    }

    /// Whether the peer has said where such a buffer lies.
    pub(super) fn knows(&self, handed: &HandedBuffer) -> bool {
        handed.back || self.received.knows(handed.ticket.place.region)
    }

    /// A buffer has arrived, or is back.
    pub(super) fn take(&mut self, handed: HandedBuffer) -> Result<Buf, Box<ViError>> {
        let nothing = ViError::Protocol("a buffer that the peer does not hold");
        let buf = if is_ours(&handed) {
            self.lent.came_back(handed.ticket).ok_or(nothing)?
        } else {
            self.received.arrived(handed.ticket).map_err(|_| nothing)?
        };
        // The peer has written it last, and the program is about to look: meanwhile it comes.
        block::claim(buf.bytes().as_ptr());
        Ok(buf)
    }

    /// Takes back the buffers that the peer has dropped. Whether there were any.
    #[inline]
    pub(super) fn poll(&mut self) -> bool {
        self.has_lent() && self.lent.poll()
    }

    /// Whether the peer has buffers of this side.
    #[inline]
    pub(super) fn has_lent(&self) -> bool {
        self.lent.count() > 0
    }
}

/// The number of a region, which the peer is told of by `tell` if it does not know
/// it.
fn announced(
    regions: &mut BTreeMap<usize, (u16, Region)>,
    region: &Region,
    plan: impl FnOnce() -> Option<Vec<u64>>,
    tell: impl FnOnce(&ControlMessage, BorrowedFd<'_>) -> bool,
) -> Option<u16> {
    if let Some((number, _)) = regions.get(&region.id()) {
        return Some(*number);
    }
    let number = u16::try_from(regions.len()).ok().filter(|n| *n <= REGION_MASK)?;
    if !tell(&ControlMessage::CooperatingRegion { number, plan: plan()? }, region.cooperating_fd()?)
    {
        return None;
    }
    regions.insert(region.id(), (number, region.clone()));
    Some(number)
}

/// Wakes the peer. One that cannot be woken is gone, and takes nothing back.
fn ring(ringer: &Mutex<DoorbellRinger>) {
    if !planted(Fault::ReturnSilent) {
        let _ = ringer.lock().unwrap_or_else(PoisonError::into_inner).ring();
    }
}

/// Whether a buffer that the peer hands over was lent by this side.
fn is_ours(handed: &HandedBuffer) -> bool {
    handed.back && !planted(Fault::BackIgnored)
}
