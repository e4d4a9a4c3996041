//! Opening a nic of an IP network, and what a nic allows.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::OpenError;
use super::common::epoll;
use super::handshake::Credentials;
use super::place::ListenAddress;
use crate::vi::{Limits, NicOptions};

/// What a nic of an IP network is opened with.
#[derive(Debug)]
pub(in crate::fabric) struct OpenedNic<S> {
    /// The address that peers connect to.
    pub host: String,
    pub credentials: Credentials,
    pub set: Arc<OwnedFd>,
    /// The bound socket.
    pub socket: S,
}

impl<S> OpenedNic<S> {
    /// Opens a nic of `fabric` at the host of its options. `bind` returns the socket and its address, with
    /// the port that the system chose.
    pub(in crate::fabric) fn at(
        fabric: &'static str,
        options: &NicOptions,
        bind: impl FnOnce(SocketAddr, &Credentials) -> Result<(S, SocketAddr), Errno>,
    ) -> Result<Self, OpenError> {
        let place = ListenAddress::of(&options.host)?;
        let secret = options.checked_secret_at(place.bind.ip())?;
        let credentials =
            Credentials::new(fabric, secret, options.identity_or_new(), options.encrypt);
        let (socket, bound) = bind(place.bind, &credentials).map_err(|errno| match errno {
            Errno::ADDRINUSE => OpenError::Taken { host: options.host.clone() },
            errno => OpenError::refused(options)(errno),
        })?;
        let mut told = place.told;
        told.set_port(bound.port());
        let set = Arc::new(epoll::create().map_err(OpenError::refused(options))?);
        Ok(Self { host: told.to_string(), credentials, set, socket })
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
