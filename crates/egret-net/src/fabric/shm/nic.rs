//! The nic.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::bell::Habit;
use super::driver::{Driver, Fixed};
use super::layout::{DEPTH, TRANSFER_MAX};
use super::rendezvous::{Acceptor, AcceptorError, Stance, other_holder};
use super::token::{ACCEPTOR, SOCKETS};
use crate::fabric::hub::opening;
use crate::fabric::hub::set::{self, token};
use crate::fabric::{OpenError, greet};
use crate::vi::{Limits, NicOptions, Wait};

/// A nic of this machine's shared memory.
pub(super) fn open(options: &NicOptions) -> Result<Driver, OpenError> {
    let host = options.host.clone();
    let secret = options.checked_secret().map_err(OpenError::secret(options))?;
    let (identity, encrypt) = (options.identity_or_new(), options.encrypt);
    let greet = greet::Stance::new("shm", secret, identity, encrypt).local();
    let stance = Stance { trust: options.trust, greet };
    let acceptor = Acceptor::open(&host, stance.clone()).map_err(|why| match why {
        AcceptorError::Taken { host } => match other_holder(&host) {
            Some(other) => OpenError::TakenByOther { host, pid: other.pid(), user: other.theirs() },
            None => OpenError::Taken { host },
        },
        why => OpenError::refused(options)(why),
    })?;
    let habit = if options.wait == Wait::Spin { Habit::Spins } else { Habit::Sleeps };
    let (sockets, set) = sets(&acceptor).map_err(OpenError::refused(options))?;
    let fixed = Fixed { host, keys: Arc::default(), sockets, set: Arc::new(set), habit, stance };
    Ok(Driver::new(fixed, acceptor))
}

/// The set of the sockets, and that of all that ends a sleep, the other one included.
fn sets(acceptor: &Acceptor) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (sockets, bells) = (set::create()?, set::create()?);
    set::watch(&sockets, acceptor.fd(), token(ACCEPTOR, 0), EventFlags::IN)?;
    set::watch(&bells, &sockets, token(SOCKETS, 0), EventFlags::IN)?;
    Ok((sockets, bells))
}

/// What a nic allows.
pub(super) fn limits() -> Limits {
    opening::limits(DEPTH, TRANSFER_MAX, 64)
}
