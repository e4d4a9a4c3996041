//! The nic.

use std::sync::Arc;

use rustix::event::epoll::EventFlags;

use super::acceptor::Acceptor;
use super::driver::Driver;
use super::nic_context::{ACCEPTOR, TcpNicContext, TestSeal};
use super::{DEPTH, SEGMENTS_MAX, TRANSFER_MAX};
use crate::fabric::OpenError;
use crate::fabric::common::epoll::{self, token};
use crate::fabric::open_nic::{self, OpenedNic};
use crate::vi::{Limits, NicOptions};

/// A nic that listens at an address of this machine.
pub(super) fn open(options: &NicOptions) -> Result<Driver, OpenError> {
    let opened =
        OpenedNic::at("tcp", options, |at, credentials| Acceptor::open(at, credentials.clone()))?;
    let OpenedNic { host, credentials, set, socket: acceptor } = opened;
    epoll::watch(&set, acceptor.fd(), token(ACCEPTOR, 0), EventFlags::IN)
        .map_err(OpenError::refused(options))?;
    #[cfg(test)]
    let seal = TestSeal { is_fixed: super::tests::is_sealed() };
    #[cfg(not(test))]
    let seal = TestSeal::default();
    let fixed = TcpNicContext { host, keys: Arc::default(), set, credentials, seal };
    Ok(Driver::new(fixed, acceptor, options.wait))
}

/// What a nic allows.
pub(super) fn limits() -> Limits {
    open_nic::limits(DEPTH, TRANSFER_MAX, SEGMENTS_MAX)
}
