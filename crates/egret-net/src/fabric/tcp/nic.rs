//! The nic.

use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::door::Door;
use super::driver::{Driver, Fixed};
use super::token::Token;
use super::yard::Yard;
use super::{DEPTH, SEGMENTS_MAX, TRANSFER_MAX};
use crate::fabric::greet::Stance;
use crate::fabric::hub::{Hub, Sleep, set};
use crate::fabric::place::Place;
use crate::fabric::{ConnectRequest, ListenerOps, NicOps, OpenError, Seen};
use crate::rt::Instant;
use crate::vi::{Keys, Limits, ListenError, NicOptions, Reliability};

/// What a nic, its listeners and its connections share.
pub(super) type Inner = Hub<Driver>;

/// A nic that listens at an address of this machine.
#[derive(Debug)]
pub(super) struct TcpNic(Arc<Inner>);

impl TcpNic {
    pub(super) fn open(options: &NicOptions) -> Result<Self, OpenError> {
        let host = || options.host.clone();
        let refused = |why: String| OpenError::Refused { host: host(), why };
        let system = |errno: Errno| refused(errno.to_string());
        let place = Place::of(&options.host).map_err(|why| refused(why.to_string()))?;
        let stance = Stance::new("tcp", options.secret.clone());
        let opened = Door::open(place.bind, stance.clone());
        let (door, bound) = opened.map_err(|why| match why {
            Errno::ADDRINUSE => OpenError::Taken { host: host() },
            why => system(why),
        })?;
        let mut told = place.told;
        told.set_port(bound.port());
        let set = set::create().map_err(system)?;
        let sleep = Sleep::new(()).map_err(system)?;
        Token::Wake.watch(&set, sleep.fd(), EventFlags::IN).map_err(system)?;
        Token::Door.watch(&set, door.fd(), EventFlags::IN).map_err(system)?;
        let (keys, yard) = (Arc::default(), Yard::default());
        let fixed = Fixed { host: told.to_string(), keys, set, stance, yard };
        let driver = Driver::new(door, options.wait);
        Ok(Self(Hub::new(fixed, options.wait, sleep, driver)))
    }
}

impl NicOps for TcpNic {
    fn host(&self) -> &str {
        &self.0.fixed.host
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::least();
        limits.queue_depth = DEPTH;
        limits.transfer_max = TRANSFER_MAX;
        limits.segments_max = SEGMENTS_MAX;
        limits.registrable_max = 1 << 34;
        limits
    }

    fn keys(&self) -> &Arc<Keys> {
        &self.0.fixed.keys
    }

    fn listen(
        &self,
        service: &str,
        tag: u64,
        reliability: Reliability,
    ) -> Result<Box<dyn ListenerOps>, ListenError> {
        self.0.listen(service, tag, reliability)
    }

    fn connect(&self, request: ConnectRequest) {
        self.0.connect(request);
    }

    fn progress(&self) -> Seen {
        self.0.progress()
    }

    fn wait(&self, seen: Seen, until: Option<Instant>) -> Seen {
        self.0.wait(seen, until)
    }

    fn wake(&self) {
        self.0.happen();
    }
}

impl Drop for TcpNic {
    fn drop(&mut self) {
        self.0.shut();
    }
}
