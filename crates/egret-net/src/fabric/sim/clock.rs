//! The time of a world, as one nic knows it: what waits at the nic are for happens at its node.

use std::time::Duration;

use super::SimFabric;
use super::wire::SimNodeId;
use crate::fabric::{EventCount, VirtualTime};
use crate::rt::Instant;

/// The world of a nic.
#[derive(Debug)]
pub(super) struct SimClock {
    pub fabric: SimFabric,
    pub node: SimNodeId,
}

/// All that happens to a machine happens when a thread looks or waits here.
impl VirtualTime for SimClock {
    fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// Looking takes time: carries out what is due now, or moves the clock a little.
    fn look(&self) -> EventCount {
        self.fabric.with(|world| {
            world.threads.look();
            let now = world.now;
            if !world.step(Some(now)) {
                let next = now + LOOK;
                world.now = world.next_at().map_or(next, |at| next.min(at));
            }
        });
        self.fabric.look_in(|world| world.happened_at(self.node))
    }

    fn wait(&self, seen: EventCount, until: Option<Instant>) -> EventCount {
        self.fabric.step(Some((self.node, seen)), until);
        self.look()
    }

    fn wake(&self) {
        self.fabric.look_in(|world| world.count(Some(self.node)));
    }
}

/// What one poll of a nic takes.
const LOOK: Duration = Duration::from_nanos(100);
