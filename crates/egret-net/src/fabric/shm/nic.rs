//! The nic.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::acceptor::{Acceptor, AcceptorError, other_holder};
use super::doorbell::SleepPolicy;
use super::driver::Driver;
use super::layout::{DEPTH, TRANSFER_MAX};
use super::nic_context::{ACCEPTOR, SOCKETS, ShmNicContext};
use super::rendezvous::ShmRequirements;
use crate::fabric::common::epoll::{self, token};
use crate::fabric::open_nic;
use crate::fabric::{OpenError, handshake};
use crate::vi::{Limits, NicOptions, Wait};

/// A nic of this machine's shared memory.
pub(super) fn open(options: &NicOptions) -> Result<Driver, OpenError> {
    let host = options.host.clone();
    let secret = options.checked_secret()?;
    let (identity, encrypt) = (options.identity_or_new(), options.encrypt);
    let handshake = handshake::Credentials::new("shm", secret, identity, encrypt).local();
    let stance = ShmRequirements { trust: options.trust, handshake };
    let acceptor = Acceptor::open(&host, stance.clone()).map_err(|why| match why {
        AcceptorError::Taken { host } => match other_holder(&host) {
            Some(other) => OpenError::TakenByOther { host, pid: other.pid(), user: other.theirs() },
            None => OpenError::Taken { host },
        },
        why => OpenError::refused(options)(why),
    })?;
    let sleep_policy =
        if options.wait == Wait::Spin { SleepPolicy::Spins } else { SleepPolicy::Sleeps };
    let (sockets, set) = sets(&acceptor).map_err(OpenError::refused(options))?;
    let fixed = ShmNicContext {
        host,
        keys: Arc::default(),
        sockets,
        set: Arc::new(set),
        sleep_policy,
        stance,
    };
    Ok(Driver::new(fixed, acceptor))
}

/// The set of the sockets, and that of all that ends a sleep, the other one included.
fn sets(acceptor: &Acceptor) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (sockets, bells) = (epoll::create()?, epoll::create()?);
    epoll::watch(&sockets, acceptor.fd(), token(ACCEPTOR, 0), EventFlags::IN)?;
    epoll::watch(&bells, &sockets, token(SOCKETS, 0), EventFlags::IN)?;
    Ok((sockets, bells))
}

/// What a nic allows.
pub(super) fn limits() -> Limits {
    open_nic::limits(DEPTH, TRANSFER_MAX, 64)
}
