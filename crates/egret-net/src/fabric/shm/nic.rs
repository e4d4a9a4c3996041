//! The nic.

use std::sync::Arc;

use rustix::io::Errno;

use super::bell::{Habit, Sleeper};
use super::driver::{Doorbell, Driver, Fixed};
use super::layout::{BELL, BELL_BYTES, DEPTH, TRANSFER_MAX};
use super::memory::Own;
use super::rendezvous::{Door, DoorError, Stance};
use super::token::Token;
use crate::fabric::OpenError;
use crate::fabric::hub::{Hub, HubNic, Sleep, set};
use crate::vi::{Limits, NicOptions, Wait};

/// What a nic, its listeners and its connections share.
pub(super) type Inner = Hub<Driver>;

/// A nic of this machine's shared memory.
pub(super) fn open(options: &NicOptions) -> Result<HubNic<Driver>, OpenError> {
    let host = options.host.clone();
    let secret = options.checked_secret().map_err(OpenError::secret(options))?;
    let stance = Stance { trust: options.trust, secret };
    let refused = |why: String| OpenError::Refused { host: host.clone(), why };
    let door = Door::open(&host, stance.clone()).map_err(|why| match why {
        DoorError::Taken { host } => OpenError::Taken { host },
        why => refused(why.to_string()),
    })?;
    let bell_page = Own::new(BELL_BYTES).map_err(|why| refused(why.to_string()))?;
    let habit = if options.wait == Wait::Spin { Habit::Spins } else { Habit::Sleeps };
    let sleeper = Sleeper::new(bell_page.clone(), BELL, habit);
    let doubt = Arc::default();
    let bell = Doorbell { sleeper, doubt: Arc::clone(&doubt) };
    let system = |errno: Errno| refused(errno.to_string());
    let sleep = Sleep::new(bell).map_err(system)?;
    let (sockets, bells) = (set::create().map_err(system)?, set::create().map_err(system)?);
    Token::Door.watch(&sockets, door.fd()).map_err(system)?;
    Token::Sockets.watch(&bells, &sockets).map_err(system)?;
    Token::Wake.watch(&bells, sleep.fd()).map_err(system)?;
    let fixed = Fixed { host, keys: Arc::default(), sockets, bells, bell_page, doubt, stance };
    Ok(HubNic(Hub::new(fixed, options.wait, sleep, Driver::new(door))))
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
