//! The nic.

use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::driver::{Driver, Fixed, WAKE};
use super::send::SEGMENTS_MAX;
use super::socket::Socket;
use super::wire::MESSAGE_MAX;
use crate::fabric::greet::Stance;
use crate::fabric::hub::{Hub, Sleep, set};
use crate::fabric::place::Place;
use crate::fabric::{ConnectRequest, ListenerOps, NicOps, OpenError, Seen};
use crate::rt::{self, Instant};
use crate::vi::{Keys, Limits, ListenError, NicOptions, Reliability};

/// A nic of an IP network.
#[derive(Debug)]
pub(super) struct UdpNic(pub Arc<Hub<Driver>>);

/// Descriptors outstanding on each queue of a connection.
const DEPTH: u32 = 256;

impl UdpNic {
    pub(super) fn open(options: &NicOptions) -> Result<Self, OpenError> {
        let refused = |why: String| OpenError::Refused { host: options.host.clone(), why };
        let place = Place::of(&options.host).map_err(|why| refused(why.to_string()))?;
        let socket = Socket::open(place.bind).map_err(|errno| match errno {
            Errno::ADDRINUSE => OpenError::Taken { host: options.host.clone() },
            errno => refused(errno.to_string()),
        })?;
        let mut told = place.told;
        told.set_port(socket.local().port());
        let system = |errno: Errno| refused(errno.to_string());
        let (sleep, set) = (Sleep::new(()).map_err(system)?, set::create().map_err(system)?);
        set::watch(&set, sleep.fd(), WAKE, EventFlags::IN).map_err(system)?;
        let fixed = Fixed {
            host: told.to_string(),
            keys: Arc::default(),
            socket: Arc::new(socket),
            set,
            stance: Stance::new("udp", options.secret.clone()),
            secret: options.secret.clone(),
            board: Arc::default(),
        };
        Ok(Self(Hub::new(fixed, options.wait, sleep, Driver::new(rt::now()))))
    }
}

impl NicOps for UdpNic {
    fn host(&self) -> &str {
        &self.0.fixed.host
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::least();
        limits.queue_depth = DEPTH;
        limits.transfer_max = MESSAGE_MAX.into();
        limits.segments_max = u32::try_from(SEGMENTS_MAX).expect("a few");
        limits.registrable_max = 1 << 34;
        limits.reliability = [true, false, false];
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

impl Drop for UdpNic {
    fn drop(&mut self) {
        self.0.shut();
    }
}
