//! Opening a nic of an IP network, and what a nic allows.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::set;
use crate::fabric::OpenError;
use crate::fabric::greet::Stance;
use crate::fabric::place::Place;
use crate::vi::{Limits, NicOptions};

/// What a nic of an IP network has from the start.
#[derive(Debug)]
pub(in crate::fabric) struct Opened<S> {
    /// What peers connect to.
    pub host: String,
    pub stance: Stance,
    pub set: Arc<OwnedFd>,
    /// What was bound.
    pub socket: S,
}

impl<S> Opened<S> {
    /// Opens a nic of `fabric` where its options say, by `bind`, which says what the address is
    /// with the port that the system chose.
    pub(in crate::fabric) fn at(
        fabric: &'static str,
        options: &NicOptions,
        bind: impl FnOnce(SocketAddr, &Stance) -> Result<(S, SocketAddr), Errno>,
    ) -> Result<Self, OpenError> {
        let place = Place::of(&options.host).map_err(OpenError::refused(options))?;
        let secret = options.checked_secret_at(place.bind.ip());
        let secret = secret.map_err(OpenError::secret(options))?;
        let stance = Stance::new(fabric, secret, options.identity_or_new(), options.encrypt);
        let (socket, bound) = bind(place.bind, &stance).map_err(|errno| match errno {
            Errno::ADDRINUSE => OpenError::Taken { host: options.host.clone() },
            errno => OpenError::refused(options)(errno),
        })?;
        let mut told = place.told;
        told.set_port(bound.port());
        let set = Arc::new(set::create().map_err(OpenError::refused(options))?);
        Ok(Self { host: told.to_string(), stance, set, socket })
    }
}

/// What a nic allows: descriptors on each queue, bytes of a message, segments of a descriptor.
pub(in crate::fabric) fn limits(queue_depth: u32, transfer_max: u64, segments_max: u32) -> Limits {
    let mut limits = Limits::least();
    limits.queue_depth = queue_depth;
    limits.transfer_max = transfer_max;
    limits.segments_max = segments_max;
    limits.registrable_max = 1 << 34;
    limits
}
