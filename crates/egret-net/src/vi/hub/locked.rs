//! What stands on a nic, and shares its lock.

use std::fmt;
use std::sync::Arc;

use super::{Hub, TellLater};
use crate::atomics::BiasedLock;
use crate::sync::DrivingRole;
use crate::vi::Nic;

/// A value behind the lock of a nic; made by [`Nic::lock_with`].
///
/// A layer above a nic has state of its own: links, for one. A thread that has such state under
/// this lock sends, posts, drains and closes on the same nic without taking another. Whom that
/// concerns (a waker, the handler of a completion queue) is told when the thread leaves, so that
/// no code of the program runs under the lock. The nic makes no [progress](Nic::poll) meanwhile, and
/// a thread must not wait for it there.
///
/// ```
/// use egret_net::fabric::sim::Sim;
///
/// let nic = Sim::new(1).nic("a");
/// let sent = nic.lock_with(0);
/// assert_eq!(sent.with(|sent| std::mem::replace(sent, 1)), 0);
/// ```
#[doc(hidden)]
pub struct NicLocked<T> {
    hub: Arc<Hub>,
    value: BiasedLock<T>,
}

impl<T> NicLocked<T> {
    /// Runs `body` with the value, alone.
    ///
    /// # Panics
    ///
    /// If the calling thread has the value already.
    #[inline]
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let _tell = TellLater(&self.hub);
        self.value.with(body)
    }

    /// The same, for a caller that has something of its own to end behind the lock, and then
    /// [tells](Self::tell) at once.
    #[inline]
    pub fn with_untold<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.value.with(body)
    }

    /// Delivers what calls under the lock have caused.
    #[inline]
    pub fn tell(&self) {
        self.hub.tell_if_left();
    }

    /// A role that is known under the same lock.
    #[must_use]
    pub fn role(&self) -> DrivingRole {
        DrivingRole::behind(&self.value)
    }
}

impl Nic {
    /// A value behind the lock of the nic.
    #[must_use]
    #[doc(hidden)]
    pub fn lock_with<T>(&self, value: T) -> NicLocked<T> {
        NicLocked { hub: Arc::clone(&self.hub), value: self.hub.inside.sharing(value) }
    }
}

impl<T: fmt::Debug> fmt::Debug for NicLocked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
