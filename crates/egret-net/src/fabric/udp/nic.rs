//! The nic.

use std::sync::Arc;

use rustix::io::Errno;

use super::driver::{Driver, Fixed};
use super::send::SEGMENTS_MAX;
use super::socket::Socket;
use super::wire::MESSAGE_MAX;
use crate::fabric::OpenError;
use crate::fabric::greet::Stance;
use crate::fabric::hub::set;
use crate::fabric::place::Place;
use crate::rt;
use crate::vi::{Limits, NicOptions};

/// Descriptors outstanding on each queue of a connection.
const DEPTH: u32 = 256;

/// A nic of an IP network.
pub(super) fn open(options: &NicOptions) -> Result<Driver, OpenError> {
    let refused = |why: String| OpenError::Refused { host: options.host.clone(), why };
    let place = Place::of(&options.host).map_err(|why| refused(why.to_string()))?;
    let secret = options.checked_secret_at(place.bind.ip()).map_err(OpenError::secret(options))?;
    let socket = Socket::open(place.bind).map_err(|errno| match errno {
        Errno::ADDRINUSE => OpenError::Taken { host: options.host.clone() },
        errno => refused(errno.to_string()),
    })?;
    let mut told = place.told;
    told.set_port(socket.local().port());
    let system = |errno: Errno| refused(errno.to_string());
    let set = Arc::new(set::create().map_err(system)?);
    let fixed = Fixed {
        host: told.to_string(),
        keys: Arc::default(),
        socket: Arc::new(socket),
        set,
        stance: Stance::new("udp", secret.clone()),
        secret,
    };
    Ok(Driver::new(fixed, rt::now()))
}

/// What a nic allows.
pub(super) fn limits() -> Limits {
    let mut limits = Limits::least();
    limits.queue_depth = DEPTH;
    limits.transfer_max = MESSAGE_MAX.into();
    limits.segments_max = u32::try_from(SEGMENTS_MAX).expect("a few");
    limits.registrable_max = 1 << 34;
    limits.reliability = [true, false, false];
    limits
}
