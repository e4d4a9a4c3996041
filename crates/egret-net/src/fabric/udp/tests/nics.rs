//! Two nics of one thread, over loopback.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use crate::fabric::udp::arrival::DroppedDatagrams;
use crate::fabric::udp::driver::Driver;
use crate::fabric::udp::nic;
use crate::fabric::udp::socket::DatagramSocket;
use crate::rt::{self, Deadline};
use crate::vi::{
    Address, Completion, CompletionQueue, ConnectError, Encrypt, Listener, Nic, NicOptions,
    Reliability, Secret, Vi, ViOptions, Wait,
};

/// A nic, and what is inside.
#[derive(Debug)]
pub(super) struct Opened {
    pub nic: Nic,
    pub socket: Arc<DatagramSocket>,
}

pub(super) const LONG: Duration = Duration::from_secs(30);

pub(super) fn options() -> ViOptions {
    ViOptions::of(Reliability::Unreliable)
}

impl Opened {
    pub(super) fn new() -> Self {
        Self::with(&NicOptions::new("").wait(Wait::Frugal))
    }

    pub(super) fn with_secret(secret: &str) -> Self {
        Self::with(&NicOptions::new("").wait(Wait::Frugal).secret(Secret::from(secret)))
    }

    /// One whose connections are sealed.
    pub(super) fn sealed() -> Self {
        Self::with(&NicOptions::new("").wait(Wait::Frugal).encrypt(Encrypt::Always))
    }

    pub(super) fn with(options: &NicOptions) -> Self {
        let machine = nic::open(options, false).unwrap();
        let socket = Arc::clone(&machine.fixed.socket);
        Self { nic: Nic::new(Box::new(machine), options.wait), socket }
    }

    pub(super) fn at(&self) -> SocketAddr {
        self.nic.host().parse().unwrap()
    }

    pub(super) fn tally(&self) -> DroppedDatagrams {
        self.inside(|driver| driver.tally)
    }

    pub(super) fn inside<R>(&self, body: impl FnOnce(&mut Driver) -> R) -> R {
        self.nic.inside(|driver, _| body(driver))
    }

    /// Half a second passes.
    pub(super) fn keep_alive_tick(&self) {
        self.nic.inside(|driver: &mut Driver, after| driver.keep_alive_tick(after));
    }

    pub(super) fn listen(&self, service: &str) -> Listener {
        self.nic.listen(service, 0, &options()).unwrap()
    }

    /// Takes everything that has come.
    pub(super) fn drain(&self) {
        for _ in 0..200 {
            self.nic.poll();
        }
    }
}

/// Drives both until there is an answer.
pub(super) fn until<T>(nics: &[&Nic], mut look: impl FnMut() -> Option<T>) -> T {
    let end = rt::now() + LONG;
    loop {
        nics.iter().for_each(|nic| _ = nic.poll());
        if let Some(found) = look() {
            return found;
        }
        assert!(rt::now() < end, "not within {LONG:?}");
        rt::sleep(Duration::from_micros(20));
    }
}

/// A connection: the caller's end and the listener's.
pub(super) fn connect(caller: &Opened, listening: &Opened) -> (Vi, Vi) {
    let listener = listening.listen("pair");
    let (here, there) = try_connect(caller, listening, &listener, Deadline::In(LONG)).unwrap();
    (here, there.unwrap())
}

pub(super) fn try_connect(
    caller: &Opened,
    listening: &Opened,
    listener: &Listener,
    deadline: Deadline,
) -> Result<(Vi, Option<Vi>), ConnectError> {
    let to = Address::new(listening.nic.host(), "pair", 0).key(listening.nic.key().unwrap());
    let mut connecting = caller.nic.connect(&to, &options(), deadline);
    let mut accepted = None;
    let made = until(&[&caller.nic, &listening.nic], || {
        if accepted.is_none() {
            accepted = listener.poll_accept().unwrap();
        }
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(&mut connecting).poll(&mut context) {
            std::task::Poll::Ready(made) => Some(made),
            std::task::Poll::Pending => None,
        }
    });
    made.map(|here| (here, accepted))
}

/// The next completion, driving these.
pub(super) fn next(nics: &[&Nic], queue: &CompletionQueue) -> Completion {
    until(nics, || queue.poll())
}

/// A stranger's socket.
pub(super) fn stranger() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// What a stranger was answered.
pub(super) fn answers(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let mut space = [0; 2048];
    std::iter::from_fn(|| socket.recv(&mut space).ok().map(|len| space[..len].to_vec())).collect()
}
