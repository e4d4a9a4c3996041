//! The nic.

use std::sync::Arc;

use super::driver::Driver;
use super::nic_context::UdpNicContext;
use super::send::SEGMENTS_MAX;
use super::socket::DatagramSocket;
use super::wire::MESSAGE_MAX;
use crate::fabric::OpenError;
use crate::fabric::open_nic::{self, OpenedNic};
use crate::rt;
use crate::vi::{Limits, NicOptions};

/// Descriptors outstanding on each queue of a connection.
const DEPTH: u32 = 256;

/// A nic of an IP network, which may stand below a window.
pub(super) fn open(options: &NicOptions, is_below: bool) -> Result<Driver, OpenError> {
    let opened = OpenedNic::at("udp", options, |at, _| {
        let socket = DatagramSocket::open(at)?;
        if is_below {
            socket.join_received();
        }
        let local = socket.local();
        Ok((Arc::new(socket), local))
    })?;
    let OpenedNic { host, credentials, set, socket } = opened;
    let fixed = UdpNicContext { host, keys: Arc::default(), socket, set, credentials };
    let mut driver = Driver::new(fixed, rt::now());
    driver.is_below = is_below;
    Ok(driver)
}

/// What a nic allows.
pub(super) fn limits() -> Limits {
    let segments_max = u32::try_from(SEGMENTS_MAX).expect("a few");
    let mut limits = open_nic::limits(DEPTH, MESSAGE_MAX.into(), segments_max);
    limits.reliability = [true, false, false];
    limits
}
