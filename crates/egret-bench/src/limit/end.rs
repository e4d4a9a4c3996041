//! Limits by name, and the two ends of one.

use std::fmt;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::time::Duration;

use super::LimitError;
use super::aead::{self, Aead};
use super::connect::ConnectEnd;
use super::echo::Echo;
use super::event::EventPair;
use super::line::LineArray;
use super::ring::SlotRing;
use super::slot::SlotExchange;
use super::switch::{Switch, SwitchWait};
use super::tcp::{Tcp, TcpFlow};
use super::udp::{self, Udp};
use super::wait::WaitLimit;

/// A limit between two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MachineLimit {
    /// One slot each way in shared memory; both sides spin.
    ShmSlot,
    /// Sixteen slots one way; both sides spin.
    ShmRing,
    /// 1,024 cache lines one way, eight bytes of payload in each.
    LineRing,
    /// Such lines each way, 64 under way, each echoed.
    LineEcho,
    /// A line each way; both sides yield their core while they wait.
    SwitchYield,
    /// A line each way; both sides sleep in futex.
    SwitchFutex,
    /// An eventfd each way; both sides sleep in epoll.
    Eventfd,
    /// A round trip over loopback TCP; both sides spin on a non-blocking read.
    TcpSpin,
    /// A round trip over loopback TCP; both sides sleep in read.
    TcpFrugal,
    /// One way over loopback TCP, blocking; the sender rewrites each message.
    TcpBandwidth,
    /// One way over loopback TCP, one write of eight bytes for each message.
    TcpWrite,
    /// A connection over loopback TCP: the time until the accepting side has sent one byte. Both
    /// sides sleep.
    TcpConnect,
    /// A round trip over loopback UDP; both sides spin on a non-blocking receive.
    UdpSpin,
    /// A round trip over loopback UDP; both sides sleep in receive.
    UdpFrugal,
    /// One way over loopback UDP, blocking; the sender rewrites each message, and what
    /// arrives counts. A message that no datagram carries is as long as one that does.
    UdpBandwidth,
    /// The same, one send of eight bytes for each message.
    UdpSend,
    /// The cipher of sealed connections, there and back: one thread seals and opens, twice.
    AeadTrip,
    /// The same one way: one process seals, and the other opens at the same time.
    AeadBandwidth,
}

impl MachineLimit {
    /// Every limit between two processes.
    pub const ALL: [Self; 18] = [
        Self::ShmSlot,
        Self::ShmRing,
        Self::LineRing,
        Self::LineEcho,
        Self::SwitchYield,
        Self::SwitchFutex,
        Self::Eventfd,
        Self::TcpSpin,
        Self::TcpFrugal,
        Self::TcpBandwidth,
        Self::TcpWrite,
        Self::TcpConnect,
        Self::UdpSpin,
        Self::UdpFrugal,
        Self::UdpBandwidth,
        Self::UdpSend,
        Self::AeadTrip,
        Self::AeadBandwidth,
    ];

    /// Its name in reports; those of one mechanism share theirs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShmSlot => "shm-slot",
            Self::ShmRing => "shm-ring",
            Self::LineRing => "line-ring",
            Self::LineEcho => "line-echo",
            Self::SwitchYield | Self::SwitchFutex => "switch-pairs",
            Self::Eventfd => "eventfd",
            Self::TcpSpin | Self::TcpFrugal | Self::TcpBandwidth => "tcp-raw",
            Self::TcpWrite => "tcp-write",
            Self::TcpConnect => "tcp-connect",
            Self::UdpSpin | Self::UdpFrugal | Self::UdpBandwidth => "udp-raw",
            Self::UdpSend => "udp-send",
            Self::AeadTrip | Self::AeadBandwidth => "aead",
        }
    }

    /// Its name among all limits: what `to_string` gives and `parse` takes.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::SwitchYield => "switch-pairs/yield",
            Self::SwitchFutex => "switch-pairs/futex",
            Self::TcpSpin => "tcp-raw/spin",
            Self::TcpFrugal => "tcp-raw/frugal",
            Self::TcpBandwidth => "tcp-raw/bandwidth",
            Self::UdpSpin => "udp-raw/spin",
            Self::UdpFrugal => "udp-raw/frugal",
            Self::UdpBandwidth => "udp-raw/bandwidth",
            Self::AeadTrip => "aead/trip",
            Self::AeadBandwidth => "aead/bandwidth",
            _ => self.name(),
        }
    }

    /// The payload it has whatever is asked for, if it is not free to choose.
    #[must_use]
    pub const fn fixed_bytes(self) -> Option<usize> {
        match self {
            Self::LineRing | Self::LineEcho | Self::Eventfd | Self::TcpWrite | Self::UdpSend => {
                Some(8)
            }
            Self::SwitchYield | Self::SwitchFutex => Some(4),
            Self::TcpConnect => Some(1),
            _ => None,
        }
    }

    /// The largest payload it can have.
    #[must_use]
    pub const fn bytes_max(self) -> usize {
        match self {
            Self::UdpSpin | Self::UdpFrugal => udp::BYTES_MAX,
            _ => usize::MAX,
        }
    }

    /// Makes the link for payloads of `bytes` and the leader's end of it. The
    /// descriptors are for [`join`](Self::join) in the other process.
    ///
    /// # Errors
    ///
    /// [`LimitError::System`] if memory or descriptors cannot be had,
    /// [`LimitError::TooLong`] if it has no such payloads.
    pub fn prepare(self, bytes: usize) -> Result<(LimitEnd, Vec<OwnedFd>), LimitError> {
        match self {
            Self::ShmSlot => SlotExchange::prepare(bytes).map(LimitEnd::leading),
            Self::ShmRing => SlotRing::prepare(bytes).map(LimitEnd::leading),
            Self::LineRing => LineArray::prepare().map(LimitEnd::leading),
            Self::LineEcho => Echo::prepare().map(LimitEnd::leading),
            Self::SwitchYield | Self::SwitchFutex => {
                Switch::prepare(self.rest()).map(LimitEnd::leading)
            }
            Self::Eventfd => EventPair::prepare().map(LimitEnd::leading),
            Self::TcpSpin | Self::TcpFrugal | Self::TcpBandwidth | Self::TcpWrite => {
                Tcp::prepare(self.flow(), bytes).map(LimitEnd::leading)
            }
            Self::UdpSpin | Self::UdpFrugal | Self::UdpBandwidth | Self::UdpSend => {
                Udp::prepare(self.udp_flow(), bytes).map(LimitEnd::leading)
            }
            Self::TcpConnect => ConnectEnd::prepare().map(LimitEnd::leading),
            Self::AeadTrip | Self::AeadBandwidth => {
                Aead::prepare(self.aead_flow(), bytes).map(LimitEnd::leading)
            }
        }
    }

    /// The same over two UDP sockets that are bound and reach each other: the leader's and the
    /// follower's, which may be of another network namespace.
    ///
    /// # Errors
    ///
    /// Those of [`prepare`](Self::prepare), and [`LimitError::Descriptors`] if the limit is not
    /// one of UDP.
    pub fn prepare_over(
        self,
        bytes: usize,
        sockets: [UdpSocket; 2],
    ) -> Result<(LimitEnd, Vec<OwnedFd>), LimitError> {
        match self {
            Self::UdpSpin | Self::UdpFrugal | Self::UdpBandwidth | Self::UdpSend => {
                Udp::prepare_over(self.udp_flow(), bytes, sockets).map(LimitEnd::leading)
            }
            _ => Err(LimitError::Descriptors { limit: self, given: sockets.len(), needed: 0 }),
        }
    }

    /// The follower's end of a link, from the descriptors that
    /// [`prepare`](Self::prepare) gave for the same limit and `bytes`.
    ///
    /// # Errors
    ///
    /// [`LimitError::Descriptors`] or [`LimitError::OtherSize`] if they are not
    /// the descriptors of such a link.
    pub fn join(self, bytes: usize, fds: Vec<OwnedFd>) -> Result<LimitEnd, LimitError> {
        Ok(match self {
            Self::ShmSlot => LimitEnd::new(SlotExchange::join(bytes, &self.one(fds)?)?),
            Self::ShmRing => LimitEnd::new(SlotRing::join(bytes, &self.one(fds)?)?),
            Self::LineRing => LimitEnd::new(LineArray::join(&self.one(fds)?)?),
            Self::LineEcho => LimitEnd::new(Echo::join(&self.one(fds)?)?),
            Self::SwitchYield | Self::SwitchFutex => {
                LimitEnd::new(Switch::join(self.rest(), &self.one(fds)?)?)
            }
            Self::Eventfd => LimitEnd::new(EventPair::join(self.exactly(fds)?)?),
            Self::TcpSpin | Self::TcpFrugal | Self::TcpBandwidth | Self::TcpWrite => {
                LimitEnd::new(Tcp::join(self.flow(), bytes, self.one(fds)?)?)
            }
            Self::UdpSpin | Self::UdpFrugal | Self::UdpBandwidth | Self::UdpSend => {
                LimitEnd::new(Udp::join(self.udp_flow(), bytes, self.exactly(fds)?)?)
            }
            Self::TcpConnect => LimitEnd::new(ConnectEnd::join(self.one(fds)?)),
            Self::AeadTrip | Self::AeadBandwidth => {
                LimitEnd::new(Aead::join(self.aead_flow(), bytes, self.one(fds)?))
            }
        })
    }

    fn rest(self) -> SwitchWait {
        if self == Self::SwitchYield { SwitchWait::Yield } else { SwitchWait::Futex }
    }

    fn flow(self) -> TcpFlow {
        match self {
            Self::TcpSpin => TcpFlow::Spin,
            Self::TcpFrugal => TcpFlow::Frugal,
            Self::TcpWrite => TcpFlow::Rate,
            _ => TcpFlow::Bandwidth,
        }
    }

    fn udp_flow(self) -> udp::UdpFlow {
        match self {
            Self::UdpSpin => udp::UdpFlow::Spin,
            Self::UdpFrugal => udp::UdpFlow::Frugal,
            _ => udp::UdpFlow::OneWay,
        }
    }

    fn aead_flow(self) -> aead::AeadFlow {
        if self == Self::AeadTrip { aead::AeadFlow::Trip } else { aead::AeadFlow::OneWay }
    }

    fn one(self, fds: Vec<OwnedFd>) -> Result<OwnedFd, LimitError> {
        self.exactly(fds).map(|[fd]| fd)
    }

    fn exactly<const N: usize>(self, fds: Vec<OwnedFd>) -> Result<[OwnedFd; N], LimitError> {
        let given = fds.len();
        fds.try_into().map_err(|_| LimitError::Descriptors { limit: self, given, needed: N })
    }
}

impl fmt::Display for MachineLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

impl FromStr for MachineLimit {
    type Err = LimitError;

    fn from_str(key: &str) -> Result<Self, LimitError> {
        let found = Self::ALL.into_iter().find(|limit| limit.key() == key);
        found.ok_or_else(|| LimitError::Unknown(key.to_owned()))
    }
}

/// One end of a link between two processes.
#[derive(Debug)]
pub struct LimitEnd {
    link: Box<dyn LimitLink>,
    leads: bool,
    broken: bool,
}

impl LimitEnd {
    /// Runs `rounds` rounds as the leader and takes their time.
    ///
    /// # Errors
    ///
    /// [`LimitError::Stalled`] after `timeout`, [`LimitError::Corrupt`] if an
    /// answer is not what was sent, and after any error [`LimitError::Broken`].
    /// [`LimitError::Taken`] if this is the follower's end.
    pub fn lead(&mut self, rounds: u64, timeout: Duration) -> Result<LimitTime, LimitError> {
        self.run(true, |link| link.lead(rounds, WaitLimit::new(timeout)))
    }

    /// Runs `rounds` rounds as the follower.
    ///
    /// # Errors
    ///
    /// Those of [`lead`](Self::lead).
    pub fn follow(&mut self, rounds: u64, timeout: Duration) -> Result<(), LimitError> {
        self.run(false, |link| link.follow(rounds, WaitLimit::new(timeout)))
    }

    fn run<T>(
        &mut self,
        leads: bool,
        run: impl FnOnce(&mut dyn LimitLink) -> Result<T, LimitError>,
    ) -> Result<T, LimitError> {
        if leads != self.leads {
            return Err(LimitError::Taken);
        }
        // Until it has gone well, also if it unwinds.
        if std::mem::replace(&mut self.broken, true) {
            return Err(LimitError::Broken);
        }
        let result = run(self.link.as_mut())?;
        self.broken = false;
        Ok(result)
    }

    fn new(link: impl LimitLink + 'static) -> Self {
        Self { link: Box::new(link), leads: false, broken: false }
    }

    fn leading<F: IntoIterator<Item = OwnedFd>>(
        (link, fds): (impl LimitLink + 'static, F),
    ) -> (Self, Vec<OwnedFd>) {
        (Self { leads: true, ..Self::new(link) }, fds.into_iter().collect())
    }
}

/// What the leader's clock says about a run.
#[derive(Debug, Clone, PartialEq)]
pub enum LimitTime {
    /// The time of each round trip, in nanoseconds.
    RoundTrips(Vec<f64>),
    /// The time from the first send until the last message was consumed, or its echo came.
    OneWay(Duration),
    /// The same, where messages may be lost: those that arrived, and the bytes of each.
    Arrived {
        /// From the first send until it was known what arrived.
        took: Duration,
        /// How many arrived.
        messages: u64,
        /// The bytes of each.
        bytes: usize,
    },
}

/// What each mechanism does for its two ends.
pub(super) trait LimitLink: fmt::Debug {
    fn lead(&mut self, rounds: u64, patience: WaitLimit) -> Result<LimitTime, LimitError>;
    fn follow(&mut self, rounds: u64, patience: WaitLimit) -> Result<(), LimitError>;
}
