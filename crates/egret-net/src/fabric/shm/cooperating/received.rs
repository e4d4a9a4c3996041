//! Hand-over, the receiving side: buffers of a peer that this process has.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use thiserror::Error;

use super::super::fault::{self, Fault, planted, step};
use super::super::memory::OwnMemory;
use super::lent::BufferTicket;
use super::returns::{LENT_MAX, REGION_MASK, ReturnsWriter, SlotPlace};
use crate::buf::{
    AdoptError, Buf, LendError, PlanError, PoolPlan, PoolVisit, Region, VisitError, VisitHost,
};

/// The buffers of one peer that were handed to this process. They may outlive
/// this table, as they may outlive the connection.
#[derive(Debug)]
pub(in super::super) struct ReceivedBuffers {
    /// By the numbers that the peer gave.
    visits: BTreeMap<u16, PoolVisit>,
    returns: Arc<ReturnRoute>,
    /// Buffers received, less those that were given back.
    net_received: u64,
}

/// A protocol error of a peer about its buffers.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(in super::super) enum HandOverError {
    /// A region by a number that it has used, or that cannot be.
    #[error("the peer announces another region {region}")]
    Number { region: u16 },
    /// Its memory cannot be mapped.
    #[error(transparent)]
    Memory(#[from] AdoptError),
    /// Its pool cannot be cut like this.
    #[error(transparent)]
    PoolPlan(#[from] PlanError),
    /// A region that it has not announced.
    #[error("the peer hands over a buffer of region {region}, which it has not announced")]
    NoRegion { region: u16 },
    /// A slot that is not there, or is here.
    #[error("the peer's region {region}: {why}")]
    Slot { region: u16, why: VisitError },
    /// More than it can lend.
    #[error("the peer hands over more than {LENT_MAX} buffers")]
    TooMany,
}

/// How dropped buffers return to their owner, and how the owner is woken for that.
struct ReturnRoute {
    returner: ReturnsWriter<OwnMemory>,
    ring: Box<dyn Fn() + Send + Sync>,
}

/// The same for the buffers of one region.
#[derive(Debug)]
struct RegionReturnRoute {
    region: u16,
    returns: Arc<ReturnRoute>,
}

impl ReceivedBuffers {
    /// Nothing is here yet. The returns are at byte `offset` of this process's
    /// memory for the peer, still zero; the thread that drops a buffer calls `ring`.
    pub(in super::super) fn new(
        memory: OwnMemory,
        offset: usize,
        ring: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let returner = ReturnsWriter::new(memory, offset, LENT_MAX);
        let returns = Arc::new(ReturnRoute { returner, ring: Box::new(ring) });
        Self { visits: BTreeMap::new(), returns, net_received: 0 }
    }

    /// The peer announces a region, of at most `max` bytes, and how its pool is
    /// cut.
    pub(in super::super) fn announced(
        &mut self,
        region: u16,
        fd: &OwnedFd,
        plan: &[u64],
        max: u64,
    ) -> Result<(), HandOverError> {
        if region > REGION_MASK || self.visits.contains_key(&region) {
            return Err(HandOverError::Number { region });
        }
        let memory = Region::adopt(fd, max)?;
        let plan = PoolPlan::read(plan, memory.len())?;
        let way = RegionReturnRoute { region, returns: Arc::clone(&self.returns) };
        self.visits.insert(region, PoolVisit::new(memory, &plan, Box::new(way)));
        Ok(())
    }

    /// The peer hands over a buffer.
    pub(in super::super) fn arrived(&mut self, ticket: BufferTicket) -> Result<Buf, HandOverError> {
        if self.net_received - self.returns.returner.count() >= LENT_MAX as u64 {
            return Err(HandOverError::TooMany);
        }
        step();
        self.take(ticket)
    }

    /// Gives a buffer back to the peer that it came from. The caller then tells
    /// the peer; if it cannot, it [undoes](Self::undo) this. A buffer of another,
    /// or that cannot change hands, stays.
    pub(in super::super) fn give_back(
        &mut self,
        buf: Buf,
    ) -> Result<BufferTicket, (Buf, LendError)> {
        let Some((region, visit)) = self.visits.iter_mut().find(|(_, visit)| visit.has(&buf))
        else {
            return Err((buf, LendError::Visiting));
        };
        let (class, number, len) = visit.give_back(buf)?;
        self.net_received -= 1;
        step();
        Ok(BufferTicket { place: SlotPlace { region: *region, class, number }, len })
    }

    /// Whether the buffer came from this peer over this connection.
    pub(in super::super) fn has(&self, buf: &Buf) -> bool {
        self.visits.values().any(|visit| visit.has(buf))
    }

    /// Where a buffer of the peer's lies that is not here.
    pub(in super::super) fn away(
        &self,
        BufferTicket { place, len }: BufferTicket,
    ) -> Option<(&Region, usize)> {
        self.visits.get(&place.region)?.away(place.class, place.number, len)
    }

    /// Whether the peer has announced a region by this number.
    pub(in super::super) fn knows(&self, region: u16) -> bool {
        self.visits.contains_key(&region)
    }

    /// Takes back what was given back and the peer was not told of.
    ///
    /// # Panics
    ///
    /// If that is not so.
    #[cfg(test)]
    pub(in super::super) fn undo(&mut self, ticket: BufferTicket) -> Buf {
        self.take(ticket).expect("it was here and the peer does not know")
    }

    fn take(&mut self, BufferTicket { place, len }: BufferTicket) -> Result<Buf, HandOverError> {
        let SlotPlace { region, class, number } = place;
        let visit = self.visits.get_mut(&region).ok_or(HandOverError::NoRegion { region })?;
        let arrived = visit.arrived(class, number, len);
        let buf = arrived.map_err(|why| HandOverError::Slot { region, why })?;
        self.net_received += 1;
        step();
        Ok(buf)
    }
}

impl Drop for ReceivedBuffers {
    fn drop(&mut self) {
        let held = self.visits.iter().flat_map(|(region, visit)| {
            visit.here().map(|(class, number)| SlotPlace { region: *region, class, number })
        });
        self.returns.returner.leave(fault::held(held));
        (self.returns.ring)();
    }
}

impl VisitHost for RegionReturnRoute {
    fn dropped(&self, class: u16, number: u32) {
        step();
        if planted(Fault::ReturnForgotten) {
            return;
        }
        self.returns.returner.put(SlotPlace { region: self.region, class, number });
        (self.returns.ring)();
    }
}

impl fmt::Debug for ReturnRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.returner.fmt(f)
    }
}
