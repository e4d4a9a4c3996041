//! What this process has of a peer's buffers.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use thiserror::Error;

use super::fault::{Fault, planted, step};
use super::loans::Ticket;
use super::memory::Own;
use super::returns::{LENT_MAX, Place, REGION_MASK, Returner};
use crate::buf::{AdoptError, Buf, Host, NotHere, NotLent, Plan, PlanError, Region, Visit};

/// The buffers of one peer that were handed to this process. They may outlive
/// it, as they may outlive the connection.
#[derive(Debug)]
pub(super) struct Visiting {
    /// By the numbers that the peer gave.
    visits: BTreeMap<u16, Visit>,
    returns: Arc<Returns>,
    /// How many came, less those that were given back.
    met: u64,
}

/// What a peer said about its buffers, and cannot be.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(super) enum Wrong {
    /// A region by a number that it has used, or that cannot be.
    #[error("the peer announces another region {region}")]
    Number { region: u16 },
    /// Its memory cannot be mapped.
    #[error(transparent)]
    Memory(#[from] AdoptError),
    /// Its pool cannot be cut like this.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A region that it has not announced.
    #[error("the peer hands over a buffer of region {region}, which it has not announced")]
    NoRegion { region: u16 },
    /// A slot that is not there, or is here.
    #[error("the peer's region {region}: {why}")]
    Slot { region: u16, why: NotHere },
    /// More than it can lend.
    #[error("the peer hands over more than {LENT_MAX} buffers")]
    TooMany,
}

/// Where dropped buffers go: home by the returns, and then the home may want to
/// know.
struct Returns {
    returner: Returner<Own>,
    ring: Box<dyn Fn() + Send + Sync>,
}

/// The same for the buffers of one region.
#[derive(Debug)]
struct Way {
    region: u16,
    returns: Arc<Returns>,
}

impl Visiting {
    /// Nothing is here yet. The returns are at byte `offset` of this process's
    /// memory for the peer, still zero; `ring` is called after each, by whoever
    /// dropped the buffer.
    pub(super) fn new(memory: Own, offset: usize, ring: impl Fn() + Send + Sync + 'static) -> Self {
        let returner = Returner::new(memory, offset, LENT_MAX);
        let returns = Arc::new(Returns { returner, ring: Box::new(ring) });
        Self { visits: BTreeMap::new(), returns, met: 0 }
    }

    /// The peer announces a region, of at most `max` bytes, and how its pool is
    /// cut.
    pub(super) fn announced(
        &mut self,
        region: u16,
        fd: &OwnedFd,
        plan: &[u64],
        max: u64,
    ) -> Result<(), Wrong> {
        if region > REGION_MASK || self.visits.contains_key(&region) {
            return Err(Wrong::Number { region });
        }
        let memory = Region::adopt(fd, max)?;
        let plan = Plan::read(plan, memory.len())?;
        let way = Way { region, returns: Arc::clone(&self.returns) };
        self.visits.insert(region, Visit::new(memory, &plan, Box::new(way)));
        Ok(())
    }

    /// The peer hands over a buffer.
    pub(super) fn arrived(&mut self, ticket: Ticket) -> Result<Buf, Wrong> {
        if self.met - self.returns.returner.count() >= LENT_MAX as u64 {
            return Err(Wrong::TooMany);
        }
        step();
        self.take(ticket)
    }

    /// Gives a buffer back to the peer that it came from. The caller then tells
    /// the peer; if it cannot, it [undoes](Self::undo) this. A buffer of another,
    /// or that cannot change hands, stays.
    pub(super) fn give_back(&mut self, buf: Buf) -> Result<Ticket, (Buf, NotLent)> {
        let Some((region, visit)) = self.visits.iter_mut().find(|(_, visit)| visit.has(&buf))
        else {
            return Err((buf, NotLent::Visiting));
        };
        let (class, number, len) = visit.give_back(buf)?;
        self.met -= 1;
        step();
        Ok(Ticket { place: Place { region: *region, class, number }, len })
    }

    /// Whether the buffer came from this peer over this connection.
    pub(super) fn has(&self, buf: &Buf) -> bool {
        self.visits.values().any(|visit| visit.has(buf))
    }

    /// Where a buffer of the peer's lies that is not here.
    pub(super) fn away(&self, Ticket { place, len }: Ticket) -> Option<(&Region, usize)> {
        self.visits.get(&place.region)?.away(place.class, place.number, len)
    }

    /// Whether the peer has announced a region by this number.
    pub(super) fn knows(&self, region: u16) -> bool {
        self.visits.contains_key(&region)
    }

    /// Takes back what was given back and the peer was not told of.
    ///
    /// # Panics
    ///
    /// If that is not so.
    #[cfg(test)]
    pub(super) fn undo(&mut self, ticket: Ticket) -> Buf {
        self.take(ticket).expect("it was here and the peer does not know")
    }

    fn take(&mut self, Ticket { place, len }: Ticket) -> Result<Buf, Wrong> {
        let Place { region, class, number } = place;
        let visit = self.visits.get_mut(&region).ok_or(Wrong::NoRegion { region })?;
        let arrived = visit.arrived(class, number, len);
        let buf = arrived.map_err(|why| Wrong::Slot { region, why })?;
        self.met += 1;
        step();
        Ok(buf)
    }
}

impl Drop for Visiting {
    fn drop(&mut self) {
        let held = self.visits.iter().flat_map(|(region, visit)| {
            visit.here().map(|(class, number)| Place { region: *region, class, number })
        });
        let forget = usize::from(planted(Fault::HeldForgotten));
        self.returns.returner.leave(held.skip(forget));
        (self.returns.ring)();
    }
}

impl Host for Way {
    fn dropped(&self, class: u16, number: u32) {
        step();
        if planted(Fault::ReturnForgotten) {
            return;
        }
        self.returns.returner.put(Place { region: self.region, class, number });
        (self.returns.ring)();
    }
}

impl fmt::Debug for Returns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.returner.fmt(f)
    }
}
