//! Which connections of a nic are read directly, because they were busy lately; epoll reports the others.

use super::connection::ConnectionPoll;
use super::driver::Driver;
use super::send::Flushed;
use crate::fabric::After;
use crate::vi::Wait;

#[derive(Debug)]
pub(super) struct ActiveConnection {
    pub id: u64,
    /// Polls in a row that found nothing.
    idle: u32,
}

/// Connections read directly.
const ACTIVE_MAX: usize = 4;
/// Polls that found nothing after which one of several connections is left to epoll.
const IDLE_MAX: u32 = 128;

impl Driver {
    /// Reads the connections that were busy lately.
    #[inline]
    pub(super) fn poll_active(&mut self, after: &mut After) {
        let mut at = 0;
        while let Some(&ActiveConnection { id, .. }) = self.active.get(at) {
            let polled = self.poll_connection(id, after);
            let Some(ActiveConnection { idle, .. }) = self.active.get_mut(at) else { return };
            match polled {
                // The connection is no longer in the list.
                ConnectionPoll::Gone => continue,
                ConnectionPoll::Something => *idle = 0,
                ConnectionPoll::Nothing => *idle = idle.saturating_add(1),
            }
            if *idle > IDLE_MAX && self.active.len() > 1 {
                // A connection that is left to epoll is not visited: it sends first what it owes the peer.
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

    /// Has a connection read directly, if there is room in the list.
    pub(super) fn activate(&mut self, id: u64) {
        // An event for a connection that is read directly counts as read: otherwise the connection would
        // be left to epoll as idle, with acknowledgements that it owes.
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
        // A nic that never sleeps does not need epoll for it, which costs the sender of the bytes.
        if self.wait == Wait::Spin {
            link.unwatch(&self.fixed);
        }
        self.active.push(ActiveConnection { id, idle: 0 });
    }

    pub(super) fn deactivate(&mut self, at: usize) {
        let ActiveConnection { id, .. } = self.active.swap_remove(at);
        let link = self.links.open.get_mut(&id);
        if self.wait == Wait::Spin && link.is_some_and(|link| link.watch(&self.fixed).is_err()) {
            // A connection that epoll cannot watch stays in the list.
            self.active.push(ActiveConnection { id, idle: 0 });
        }
    }
}
