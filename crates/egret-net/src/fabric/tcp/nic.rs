//! The nic.

use std::sync::Arc;

use rustix::event::epoll::EventFlags;

use super::acceptor::Acceptor;
use super::driver::{Driver, Fixed};
use super::token::ACCEPTOR;
use super::{DEPTH, SEGMENTS_MAX, TRANSFER_MAX};
use crate::fabric::OpenError;
use crate::fabric::hub::opening::{self, Opened};
use crate::fabric::hub::set::{self, token};
use crate::vi::{Limits, NicOptions};

/// A nic that listens at an address of this machine.
pub(super) fn open(options: &NicOptions) -> Result<Driver, OpenError> {
    let opened = Opened::at("tcp", options, |at, stance| Acceptor::open(at, stance.clone()))?;
    let Opened { host, stance, set, socket: acceptor } = opened;
    set::watch(&set, acceptor.fd(), token(ACCEPTOR, 0), EventFlags::IN)
        .map_err(OpenError::refused(options))?;
    #[cfg(test)]
    let seal = super::driver::Seal { is_fixed: super::tests::is_sealed() };
    #[cfg(not(test))]
    let seal = super::driver::Seal::default();
    let fixed = Fixed { host, keys: Arc::default(), set, stance, seal };
    Ok(Driver::new(fixed, acceptor, options.wait))
}

/// What a nic allows.
pub(super) fn limits() -> Limits {
    opening::limits(DEPTH, TRANSFER_MAX, SEGMENTS_MAX)
}
