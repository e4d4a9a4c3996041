//! The nic.

use std::sync::Arc;

use super::driver::{Driver, Fixed};
use super::send::SEGMENTS_MAX;
use super::socket::Socket;
use super::wire::MESSAGE_MAX;
use crate::fabric::OpenError;
use crate::fabric::hub::opening::{self, Opened};
use crate::rt;
use crate::vi::{Limits, NicOptions};

/// Descriptors outstanding on each queue of a connection.
const DEPTH: u32 = 256;

/// A nic of an IP network, which may stand below a window.
pub(super) fn open(options: &NicOptions, is_below: bool) -> Result<Driver, OpenError> {
    let opened = Opened::at("udp", options, |at, _| {
        let socket = Socket::open(at)?;
        if is_below {
            socket.join_received();
        }
        let local = socket.local();
        Ok((Arc::new(socket), local))
    })?;
    let Opened { host, stance, set, socket } = opened;
    let fixed = Fixed { host, keys: Arc::default(), socket, set, stance };
    let mut driver = Driver::new(fixed, rt::now());
    driver.is_below = is_below;
    Ok(driver)
}

/// What a nic allows.
pub(super) fn limits() -> Limits {
    let segments_max = u32::try_from(SEGMENTS_MAX).expect("a few");
    let mut limits = opening::limits(DEPTH, MESSAGE_MAX.into(), segments_max);
    limits.reliability = [true, false, false];
    limits
}
