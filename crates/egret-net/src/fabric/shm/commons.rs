//! What the two ends of a cooperating connection have beside an isolated one:
//! buffers that change hands, and memory under keys that peers write themselves.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use super::bell::Ringer;
use super::block;
use super::direct::{Direct, Way};
use super::fault::{Fault, planted};
use super::foreign::Foreign;
use super::gate::{self, Entrant, Keeper, Pass};
use super::layout::{GATES, RETURNS};
use super::loans::{Loans, Ticket};
use super::memory::Own;
use super::open::{Gates, Invitation, Opened};
use super::rendezvous::Message;
use super::returns::{Place, REGION_MASK};
use super::visiting::Visiting;
use crate::buf::{Buf, Region};
use crate::vi::{Keys, ViError};

#[derive(Debug)]
pub(super) struct Commons {
    /// Of ours, what the peer has.
    loans: Loans,
    /// Of the peer's, what is here.
    visiting: Visiting,
    /// Regions the peer was told of, with their numbers. They stay mapped, so
    /// that no other can have their place.
    regions: BTreeMap<usize, (u16, Region)>,
    /// To our memory under keys.
    gates: Gates,
    /// To the peer's.
    pub(super) direct: Direct,
}

/// A buffer on its way to its new owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handed {
    pub ticket: Ticket,
    /// Whether it goes back to where it came from.
    pub back: bool,
}

/// Largest region of a peer's that is mapped here.
const REGION_MAX: u64 = 1 << 38;

impl Commons {
    /// `None` if there is no way to know when the peer's process ends, or to
    /// wake it.
    pub(super) fn new(
        own: &Own,
        foreign: &Foreign,
        process: BorrowedFd<'_>,
        ringer: &Ringer,
    ) -> Option<Self> {
        let process = process.try_clone_to_owned().ok()?;
        let keeper = Keeper::new(own.clone(), foreign.clone(), GATES, gate::GATES)?;
        let gates = Gates::new(keeper, process.try_clone().ok()?);
        let direct = Direct::new(Entrant::new(own.clone(), foreign.clone(), GATES, gate::GATES)?);
        let loans = Loans::new(process, foreign.clone(), RETURNS as u64).ok()?;
        let ringer = Mutex::new(ringer.another().ok()?);
        let visiting = Visiting::new(own.clone(), RETURNS, move || {
            if planted(Fault::ReturnSilent) {
                return;
            }
            // A peer that cannot be woken is gone, and takes nothing back.
            let _ = ringer.lock().unwrap_or_else(PoisonError::into_inner).ring();
        });
        Some(Self { loans, visiting, regions: BTreeMap::new(), gates, direct })
    }

    /// Makes a buffer the peer's; `tell` announces its region if the peer does
    /// not know it. A buffer that cannot change hands comes back.
    pub(super) fn give(
        &mut self,
        buf: Buf,
        tell: impl FnOnce(&Message, BorrowedFd<'_>) -> bool,
    ) -> Result<Handed, Buf> {
        if self.visiting.has(&buf) {
            let given = self.visiting.give_back(buf).map_err(|(buf, _)| buf)?;
            return Ok(Handed { ticket: given, back: true });
        }
        let plan = || Loans::announcement(&buf).map(|(_, plan)| plan);
        let Some(region) = announced(&mut self.regions, buf.region(), plan, tell) else {
            return Err(buf);
        };
        let ticket = self.loans.lend(region, buf).map_err(|(buf, _)| buf)?;
        Ok(Handed { ticket, back: false })
    }

    /// The peer has written by a key: from now on it may without us, if the memory
    /// is for that.
    pub(super) fn open(
        &mut self,
        keys: &Keys,
        secret: u64,
        tell: impl Fn(&Message, &[BorrowedFd<'_>]) -> bool,
    ) {
        let Self { regions, gates, .. } = self;
        keys.open(secret, Opened::new, |opened: &mut Opened| {
            if opened.is_told(gates) {
                return;
            }
            let (region, plan) = (opened.region(), || Some(opened.plan().to_vec()));
            let number = announced(regions, region, plan, |message, fd| tell(message, &[fd]));
            let Some(number) = number else { return };
            opened.invite(gates, number, |Invitation { pass: Pass { gate, number }, ticket }| {
                let (place, len) = (ticket.place.encode(), ticket.len);
                tell(&Message::Direct { secret, gate, number, place, len }, &[])
            });
        });
    }

    /// The peer says that this end may write by a key without it.
    pub(super) fn learn(
        &mut self,
        secret: u64,
        pass: Pass,
        (place, len): (u64, u64),
    ) -> Result<(), Box<ViError>> {
        let nothing = ViError::Protocol("a buffer it does not have");
        let place =
            Place::decode(place).and_then(|place| self.visiting.away(Ticket { place, len }));
        let (region, at) = place.ok_or(nothing.clone())?;
        let way = Way { pass, region: region.clone(), at, len };
        Ok(self.direct.learn(secret, way).then_some(()).ok_or(nothing)?)
    }

    /// The peer announces a region of its.
    pub(super) fn add(
        &mut self,
        number: u16,
        fd: &OwnedFd,
        plan: &[u64],
    ) -> Result<(), Box<ViError>> {
        let added = self.visiting.announced(number, fd, plan, REGION_MAX);
        Ok(added.map_err(|_| ViError::Protocol("buffers that cannot be had safely"))?)
    }

    /// Whether the peer has said where such a buffer lies.
    pub(super) fn knows(&self, handed: &Handed) -> bool {
        handed.back || self.visiting.knows(handed.ticket.place.region)
    }

    /// A buffer has arrived, or is back.
    pub(super) fn take(&mut self, handed: Handed) -> Result<Buf, Box<ViError>> {
        let nothing = ViError::Protocol("a buffer it does not have");
        let buf = if handed.back && !planted(Fault::BackIgnored) {
            self.loans.came_back(handed.ticket).ok_or(nothing)?
        } else {
            self.visiting.arrived(handed.ticket).map_err(|_| nothing)?
        };
        // The peer has written it last, and the program is about to look: meanwhile it comes.
        block::claim(buf.bytes().as_ptr());
        Ok(buf)
    }

    /// Takes home what the peer has dropped. Whether that was something.
    #[inline]
    pub(super) fn poll(&mut self) -> bool {
        self.has_lent() && self.loans.poll()
    }

    /// Whether the peer has buffers of this side.
    #[inline]
    pub(super) fn has_lent(&self) -> bool {
        self.loans.count() > 0
    }
}

/// The number of a region, which the peer is told of by `tell` if it does not know
/// it.
fn announced(
    regions: &mut BTreeMap<usize, (u16, Region)>,
    region: &Region,
    plan: impl FnOnce() -> Option<Vec<u64>>,
    tell: impl FnOnce(&Message, BorrowedFd<'_>) -> bool,
) -> Option<u16> {
    if let Some((number, _)) = regions.get(&region.id()) {
        return Some(*number);
    }
    let number = u16::try_from(regions.len()).ok().filter(|n| *n <= REGION_MASK)?;
    if !tell(&Message::Commons { number, plan: plan()? }, region.cooperating_fd()?) {
        return None;
    }
    regions.insert(region.id(), (number, region.clone()));
    Some(number)
}
