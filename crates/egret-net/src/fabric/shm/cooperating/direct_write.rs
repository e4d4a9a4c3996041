//! Memory under a key of a cooperating peer that this process writes by itself: the side
//! that writes.

use std::collections::BTreeMap;

use super::super::copy;
use super::super::fault::step;
use super::gate::{GATES, GateEntrant, GatePass};
use crate::buf::Region;
use crate::vi::{Descriptor, RemoteSlice};

/// The ways into one peer's memory.
#[derive(Debug)]
pub(in super::super) struct DirectWrites {
    entrant: GateEntrant,
    /// By the secrets of the keys.
    ways: BTreeMap<u64, DirectTarget>,
}

/// Where the memory under a key lies.
#[derive(Debug)]
pub(in super::super) struct DirectTarget {
    pub(in super::super) pass: GatePass,
    /// The peer's region, mapped here.
    pub(in super::super) region: Region,
    /// Where a slot begins there that no buffer of this process is.
    pub(in super::super) at: usize,
    /// Not more than the slot has.
    pub(in super::super) len: u64,
}

impl DirectWrites {
    pub(in super::super) const fn new(entrant: GateEntrant) -> Self {
        Self { entrant, ways: BTreeMap::new() }
    }

    /// The peer opened a gate. `false`: it cannot have.
    pub(in super::super) fn learn(&mut self, secret: u64, way: DirectTarget) -> bool {
        let GatePass { gate, number } = way.pass;
        if gate >= GATES || number == 0 {
            return false;
        }
        let entrant = &self.entrant;
        self.ways.retain(|_, way| way.pass.gate != gate && entrant.is_open(way.pass));
        self.ways.insert(secret, way);
        true
    }

    /// Whether there is a way to these bytes.
    #[inline]
    pub(in super::super) fn leads_to(&self, to: &RemoteSlice, len: u64) -> bool {
        !self.ways.is_empty() && self.way(to, len).is_some()
    }

    fn way(&self, to: &RemoteSlice, len: u64) -> Option<&DirectTarget> {
        let end = to.offset.checked_add(len)?;
        self.ways.get(&to.key.secret()).filter(|way| end <= way.len)
    }

    /// Copies a descriptor's bytes to the peer's memory. Whether they are there;
    /// if not the peer must be asked why.
    pub(in super::super) fn write(&mut self, to: &RemoteSlice, descriptor: &Descriptor) -> bool {
        let Some(DirectTarget { pass, region, at, len }) = self.way(to, descriptor.len()) else {
            return false;
        };
        debug_assert!(*at as u64 + len <= region.len() as u64, "a slot of the region");
        let offset = usize::try_from(to.offset).expect("inside the peer's memory");
        let mut place = region.base().as_ptr().wrapping_add(at + offset);
        let went = self.entrant.enter(*pass, || {
            for segment in descriptor.segments() {
                let bytes = segment.bytes();
                // SAFETY: all the descriptor's bytes fit into the slot, which is mapped with the
                // whole words around them. In this process no buffer is there: the peer has the
                // slot and keeps it as long as it sees us inside, which we said before the gate
                // was found open.
                unsafe { copy::copy_in(bytes, place) };
                place = place.wrapping_add(bytes.len());
                step();
            }
        });
        if !went {
            self.ways.remove(&to.key.secret());
        }
        went
    }
}
