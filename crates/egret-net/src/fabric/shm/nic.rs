//! The nic.

use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::bell::Habit;
use super::driver::{Driver, Fixed};
use super::layout::{DEPTH, TRANSFER_MAX};
use super::rendezvous::{Door, DoorError, Stance};
use super::token::{DOOR, SOCKETS};
use crate::fabric::OpenError;
use crate::fabric::hub::set::{self, token};
use crate::vi::{Limits, NicOptions, Wait};

/// A nic of this machine's shared memory.
pub(super) fn open(options: &NicOptions) -> Result<Driver, OpenError> {
    let host = options.host.clone();
    let secret = options.checked_secret().map_err(OpenError::secret(options))?;
    let stance = Stance { trust: options.trust, secret };
    let refused = |why: String| OpenError::Refused { host: host.clone(), why };
    let door = Door::open(&host, stance.clone()).map_err(|why| match why {
        DoorError::Taken { host } => OpenError::Taken { host },
        why => refused(why.to_string()),
    })?;
    let habit = if options.wait == Wait::Spin { Habit::Spins } else { Habit::Sleeps };
    let system = |errno: Errno| refused(errno.to_string());
    let (sockets, bells) = (set::create().map_err(system)?, set::create().map_err(system)?);
    set::watch(&sockets, door.fd(), token(DOOR, 0), EventFlags::IN).map_err(system)?;
    set::watch(&bells, &sockets, token(SOCKETS, 0), EventFlags::IN).map_err(system)?;
    let (keys, set) = (Arc::default(), Arc::new(bells));
    let fixed = Fixed { host, keys, sockets, set, habit, stance };
    Ok(Driver::new(fixed, door))
}

/// What a nic allows.
pub(super) fn limits() -> Limits {
    let mut limits = Limits::least();
    limits.queue_depth = DEPTH;
    limits.transfer_max = TRANSFER_MAX;
    limits.segments_max = 64;
    limits.registrable_max = 1 << 34;
    limits
}
