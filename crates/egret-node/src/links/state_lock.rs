//! The lock of the links, behind which the wakers of a step are woken.

use egret_net::sync::DrivingRole;
use egret_net::vi::{Nic, NicLocked};

use super::state::LinksState;
use crate::wakers::AfterLock;

/// The state of the links, behind the lock of their nic.
pub(crate) struct StateLock(NicLocked<LinksState>);

impl StateLock {
    pub(crate) fn new(nic: &Nic, state: LinksState) -> Self {
        Self(nic.lock_with(state))
    }

    /// The role of driving them, which is known under the same lock.
    pub(crate) fn role(&self) -> DrivingRole {
        self.0.role()
    }

    /// Runs `body` on the state under the lock; then wakes the tasks that `body` has woken.
    #[inline]
    pub(crate) fn with<T>(&self, body: impl FnOnce(&mut LinksState) -> T) -> T {
        // Told last, also if the body panics.
        let _tell = NotifyNic(&self.0);
        let _behind = AfterLock::begin();
        self.0.with_untold(body)
    }
}

/// Delivers what calls of the nic have caused, when it is dropped.
struct NotifyNic<'a>(&'a NicLocked<LinksState>);

impl Drop for NotifyNic<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.tell();
    }
}
