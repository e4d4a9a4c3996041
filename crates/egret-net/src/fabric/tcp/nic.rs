//! The nic.

use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::door::Door;
use super::driver::{Driver, Fixed};
use super::token::DOOR;
use super::{DEPTH, SEGMENTS_MAX, TRANSFER_MAX};
use crate::fabric::OpenError;
use crate::fabric::greet::Stance;
use crate::fabric::hub::set::{self, token};
use crate::fabric::place::Place;
use crate::vi::{Limits, NicOptions};

/// A nic that listens at an address of this machine.
pub(super) fn open(options: &NicOptions) -> Result<Driver, OpenError> {
    let host = || options.host.clone();
    let refused = |why: String| OpenError::Refused { host: host(), why };
    let system = |errno: Errno| refused(errno.to_string());
    let place = Place::of(&options.host).map_err(|why| refused(why.to_string()))?;
    let secret = options.checked_secret_at(place.bind.ip()).map_err(OpenError::secret(options))?;
    let stance = Stance::new("tcp", secret);
    let opened = Door::open(place.bind, stance.clone());
    let (door, bound) = opened.map_err(|why| match why {
        Errno::ADDRINUSE => OpenError::Taken { host: host() },
        why => system(why),
    })?;
    let mut told = place.told;
    told.set_port(bound.port());
    let set = set::create().map_err(system)?;
    set::watch(&set, door.fd(), token(DOOR, 0), EventFlags::IN).map_err(system)?;
    let (host, keys, set) = (told.to_string(), Arc::default(), Arc::new(set));
    let fixed = Fixed { host, keys, set, stance };
    Ok(Driver::new(fixed, door, options.wait))
}

/// What a nic allows.
pub(super) fn limits() -> Limits {
    let mut limits = Limits::least();
    limits.queue_depth = DEPTH;
    limits.transfer_max = TRANSFER_MAX;
    limits.segments_max = SEGMENTS_MAX;
    limits.registrable_max = 1 << 34;
    limits
}
