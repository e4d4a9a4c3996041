//! Which connections of a nic are read directly, because they were busy lately.

use super::driver::Driver;
use super::link::Polled;
use super::send::Flushed;
use crate::fabric::After;
use crate::vi::Wait;

#[derive(Debug)]
pub(super) struct Active {
    pub id: u64,
    /// Polls in a row that found nothing.
    idle: u32,
}

/// Connections read directly.
const ACTIVE_MAX: usize = 4;
/// Polls in vain after which one of several is left to the set.
const IDLE_MAX: u32 = 128;

impl Driver {
    /// Reads those that were busy lately.
    #[inline]
    pub(super) fn poll_active(&mut self, after: &mut After) {
        let mut at = 0;
        while let Some(&Active { id, .. }) = self.active.get(at) {
            let polled = self.poll_link(id, after);
            let Some(Active { idle, .. }) = self.active.get_mut(at) else { return };
            match polled {
                // It is no longer among them.
                Polled::Gone => continue,
                Polled::Something => *idle = 0,
                Polled::Nothing => *idle = idle.saturating_add(1),
            }
            if *idle > IDLE_MAX && self.active.len() > 1 {
                // Nobody comes by one that is left to the set: it tells first what it owes.
                match self.push(id, after, true) {
                    None => continue,
                    Some(Flushed::All) => {
                        self.deactivate(at);
                        continue;
                    }
                    Some(Flushed::More | Flushed::Full) => {}
                }
            }
            at += 1;
        }
    }

    pub(super) fn is_active(&self, id: u64) -> bool {
        self.active.iter().any(|active| active.id == id)
    }

    /// Has a connection read directly, if there is a place.
    pub(super) fn activate(&mut self, id: u64) {
        // What the set said of one that is read directly counts as read: if it went for idle it
        // would be left to the set with what it owes untold.
        if let Some(active) = self.active.iter_mut().find(|active| active.id == id) {
            active.idle = 0;
            return;
        }
        if self.active.len() >= ACTIVE_MAX {
            let idlest = (0..ACTIVE_MAX).max_by_key(|at| self.active[*at].idle);
            let Some(at) = idlest.filter(|at| self.active[*at].idle > 0) else { return };
            self.deactivate(at);
        }
        let Some(link) = self.links.open.get_mut(&id) else { return };
        // Who never sleeps need not hear of it by the set too, which costs the sender.
        if self.wait == Wait::Spin {
            link.unwatch(&self.fixed);
        }
        self.active.push(Active { id, idle: 0 });
    }

    pub(super) fn deactivate(&mut self, at: usize) {
        let Active { id, .. } = self.active.swap_remove(at);
        let link = self.links.open.get_mut(&id);
        if self.wait == Wait::Spin && link.is_some_and(|link| link.watch(&self.fixed).is_err()) {
            // One that the set cannot watch stays where it is.
            self.active.push(Active { id, idle: 0 });
        }
    }
}
