//! One link: its machine, and what carries its frames.

use crate::link::carrier::Carrier;
use crate::link::machine::Machine;
use crate::link::{Lane, LinkError};

/// A link: its machine, and what carries its frames.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) machine: Machine,
    pub(crate) carrier: Carrier,
    /// Which of the peer's lives it is with, once that is known.
    pub(crate) incarnation: Option<u64>,
    /// Which of all links it is.
    pub(crate) made: u64,
    /// Whether this side called.
    pub(crate) called: bool,
    /// Whether this side has said why it closes it.
    pub(crate) parts: bool,
    /// Why it is no more, if it is not.
    pub(crate) ended: Option<LinkError>,
}

impl Line {
    pub(crate) const fn new(machine: Machine, carrier: Carrier, called: bool) -> Self {
        let (incarnation, ended, parts, made) = (None, None, false, 0);
        Self { machine, carrier, incarnation, made, called, parts, ended }
    }

    /// Whether the peer called, and nothing is mapped by either side.
    pub(crate) fn is_unused(&self) -> bool {
        !self.called && self.machine.am.incoming.len() + self.machine.am.outgoing.len() == 0
    }

    /// Whether the peer has everything that was sent.
    pub(crate) fn is_through(&self) -> bool {
        self.machine.is_idle() && !self.machine.has_waiting() && self.carrier.is_through()
    }

    /// Sends what there is room for. Whether short frames wait for more.
    #[inline]
    pub(crate) fn pump(&mut self) -> bool {
        let mut waits = false;
        for lane in Lane::ALL {
            while let Some(frame) = self.machine.pop(lane) {
                match self.carrier.post(lane, frame) {
                    Ok(None) => {}
                    Ok(Some(spare)) => self.machine.recycle(spare),
                    Err(frame) => {
                        self.machine.unpop(lane, frame);
                        waits |= lane != Lane::Bulk;
                        break;
                    }
                }
            }
        }
        while let Some(spare) = self.carrier.next_arrived() {
            self.machine.recycle(spare);
        }
        waits
    }
}
