//! `udp-raw` and `udp-send`: two sockets that send each other one datagram a message.
//!
//! What is lost on the way is no error: a round trip is tried again, and one way what arrived
//! counts. So who follows cannot know by counting that a run is over. It is told so by a datagram,
//! which is repeated until the follower says over a stream of its own that it has seen it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt;

use super::end::{LimitLink, LimitTime};
use super::ticks::Stopwatch;
use super::wait::WaitLimit;
use super::{LimitError, payload, system};
use egret::rt;

/// One of the two sockets, and how it is used.
#[derive(Debug)]
pub(super) struct Udp {
    flow: UdpFlow,
    socket: UdpSocket,
    /// Where the follower says what arrived.
    word: UnixStream,
    /// Of a datagram.
    bytes: usize,
    /// Room for any datagram.
    private: Vec<u8>,
    next: u64,
}

/// How datagrams flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UdpFlow {
    /// There and back, spinning on non-blocking calls.
    Spin,
    /// There and back, blocking.
    Frugal,
    /// One way, blocking.
    OneWay,
}

impl Udp {
    pub(super) fn prepare(flow: UdpFlow, bytes: usize) -> Result<(Self, [OwnedFd; 2]), LimitError> {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(system("a socket"));
        Self::prepare_over(flow, bytes, [bind()?, bind()?])
    }

    /// The same over two sockets that are bound.
    pub(super) fn prepare_over(
        flow: UdpFlow,
        bytes: usize,
        [mine, theirs]: [UdpSocket; 2],
    ) -> Result<(Self, [OwnedFd; 2]), LimitError> {
        introduce(&mine, &theirs).map_err(system("connecting two sockets"))?;
        let (word, their_word) = UnixStream::pair().map_err(system("socketpair"))?;
        let fds = [theirs.into(), their_word.into()];
        Ok((Self::over(flow, bytes, mine, word)?, fds))
    }

    pub(super) fn join(
        flow: UdpFlow,
        bytes: usize,
        [socket, word]: [OwnedFd; 2],
    ) -> Result<Self, LimitError> {
        Self::over(flow, bytes, socket.into(), word.into())
    }

    fn over(
        flow: UdpFlow,
        bytes: usize,
        socket: UdpSocket,
        word: UnixStream,
    ) -> Result<Self, LimitError> {
        let bytes = match flow {
            UdpFlow::OneWay => bytes.min(room(&socket).map_err(system("IP_MTU"))?),
            UdpFlow::Spin | UdpFlow::Frugal if bytes > BYTES_MAX => {
                return Err(LimitError::TooLong { bytes, max: BYTES_MAX });
            }
            UdpFlow::Spin | UdpFlow::Frugal => bytes,
        };
        // As much as egret asks for. The system may give less.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER);
        let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER);
        socket.set_nonblocking(flow == UdpFlow::Spin).map_err(system("O_NONBLOCK"))?;
        word.set_read_timeout(Some(ASKED_AGAIN)).map_err(system("SO_RCVTIMEO"))?;
        Ok(Self { flow, socket, word, bytes, private: vec![0; BYTES_MAX + 1], next: 1 })
    }

    /// The numbers of the next `rounds` messages.
    fn numbers(&mut self, rounds: u64) -> Range<u64> {
        let start = self.next;
        self.next += rounds;
        start..self.next
    }

    /// How long a call may block, if calls do.
    fn be_patient(&self, receive: Duration, send: Duration) -> Result<(), LimitError> {
        self.socket.set_read_timeout(Some(receive)).map_err(system("SO_RCVTIMEO"))?;
        self.socket.set_write_timeout(Some(send)).map_err(system("SO_SNDTIMEO"))
    }

    /// Nanoseconds of a round trip. One that is lost is tried again, and the clock starts anew.
    fn round_trip(&mut self, sequence: u64, patience: &WaitLimit) -> Result<f64, LimitError> {
        loop {
            payload::rewrite(&mut self.private[..self.bytes], sequence);
            let start = Stopwatch::start();
            self.send(patience)?;
            while let Some(got) = self.receive(patience, true)? {
                let nanos = start.nanos();
                let answer = &self.private[..got];
                // The answer to what was thought lost comes late, and is of an earlier one.
                if got != self.bytes || !payload::has_ends(answer, sequence) {
                    continue;
                }
                return match payload::is_whole(answer, sequence) {
                    true => Ok(nanos),
                    false => Err(LimitError::Corrupt(sequence)),
                };
            }
            patience.check()?;
        }
    }

    /// The sender rewrites each message, as that of a benchmark does; the time of it counts.
    fn one_way(
        &mut self,
        numbers: Range<u64>,
        patience: &WaitLimit,
    ) -> Result<LimitTime, LimitError> {
        let start = rt::machine_now();
        for sequence in numbers.clone() {
            payload::rewrite(&mut self.private[..self.bytes], sequence);
            self.send(patience)?;
        }
        let messages = self.end(numbers.end, patience)?;
        let took = rt::machine_now() - start;
        Ok(LimitTime::Arrived { took, messages, bytes: self.bytes })
    }

    /// Says that a run is over, until the follower says what arrived of it.
    fn end(&mut self, number: u64, patience: &WaitLimit) -> Result<u64, LimitError> {
        let mut arrived = [0; 8];
        loop {
            let end = [END.to_le_bytes(), number.to_le_bytes()];
            self.try_until(patience, "send", |socket| socket.send(end.as_flattened()))?;
            match self.word.read(&mut arrived) {
                Ok(8) => return Ok(u64::from_le_bytes(arrived)),
                Ok(_) => return Err(LimitError::Gone),
                Err(_) => patience.check()?,
            }
        }
    }

    /// Takes what comes, and sends it back if that is asked for, until it is told that the run is
    /// over.
    fn take(&mut self, numbers: Range<u64>, patience: &WaitLimit) -> Result<(), LimitError> {
        let (mut arrived, is_echo) = (0_u64, self.flow != UdpFlow::OneWay);
        loop {
            let Some(got) = self.receive(patience, false)? else { continue };
            if let Some(end) = end_of(&self.private[..got]) {
                if end == numbers.end {
                    let said = self.word.write_all(&arrived.to_le_bytes());
                    return said.map_err(system("write"));
                }
            } else if is_echo {
                self.bytes = got;
                self.send(patience)?;
            } else {
                arrived += u64::from(is_of(&numbers, &self.private[..got])?);
            }
        }
    }

    #[inline]
    fn send(&self, patience: &WaitLimit) -> Result<(), LimitError> {
        let bytes = &self.private[..self.bytes];
        self.try_until(patience, "send", |socket| socket.send(bytes)).map(drop)
    }

    /// How long the next datagram is, which is in `private` then. `None` if it may be lost, and
    /// there was none for so long that it is.
    #[inline]
    fn receive(
        &mut self,
        patience: &WaitLimit,
        may_be_lost: bool,
    ) -> Result<Option<usize>, LimitError> {
        let mut private = std::mem::take(&mut self.private);
        let (mut refused, mut since, is_spin) = (0_u32, None, self.flow == UdpFlow::Spin);
        let got = self.try_until(patience, "recv", |socket| match socket.recv(&mut private) {
            Err(why) if may_be_lost && why.kind() == io::ErrorKind::WouldBlock => {
                refused = refused.wrapping_add(1);
                let is_lost = match is_spin {
                    true if refused.is_multiple_of(SPIN_REFUSALS) => {
                        let now = rt::machine_now();
                        now >= *since.get_or_insert(now) + LOST
                    }
                    true => false,
                    // It was waited for.
                    false => true,
                };
                if is_lost { Ok(None) } else { Err(why) }
            }
            got => got.map(Some),
        });
        self.private = private;
        got
    }

    #[inline]
    fn try_until<T>(
        &self,
        patience: &WaitLimit,
        doing: &'static str,
        mut call: impl FnMut(&UdpSocket) -> io::Result<T>,
    ) -> Result<T, LimitError> {
        use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
        let (mut refused, often) =
            (0_u32, if self.flow == UdpFlow::Spin { SPIN_REFUSALS } else { 1 });
        loop {
            match call(&self.socket).map_err(|error| error.kind()) {
                Ok(done) => return Ok(done),
                Err(WouldBlock | Interrupted) => {
                    refused = refused.wrapping_add(1);
                    if refused.is_multiple_of(often) {
                        patience.check()?;
                    }
                }
                Err(ConnectionRefused) => return Err(LimitError::Gone),
                Err(kind) => return Err(system(doing)(io::Error::from(kind))),
            }
        }
    }
}

impl LimitLink for Udp {
    fn lead(&mut self, rounds: u64, patience: WaitLimit) -> Result<LimitTime, LimitError> {
        self.be_patient(LOST.min(patience.left()?), patience.left()?)?;
        let numbers = self.numbers(rounds);
        if self.flow == UdpFlow::OneWay {
            return self.one_way(numbers, &patience);
        }
        let trips = numbers.clone().map(|sequence| self.round_trip(sequence, &patience));
        let times = trips.collect::<Result<_, _>>()?;
        self.end(numbers.end, &patience)?;
        Ok(LimitTime::RoundTrips(times))
    }

    fn follow(&mut self, rounds: u64, patience: WaitLimit) -> Result<(), LimitError> {
        self.be_patient(patience.left()?, patience.left()?)?;
        let numbers = self.numbers(rounds);
        self.take(numbers, &patience)
    }
}

/// Has each hear the other alone.
fn introduce(near: &UdpSocket, far: &UdpSocket) -> io::Result<()> {
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)
}

/// What one datagram carries on the way to the other socket, without being cut.
fn room(socket: &UdpSocket) -> io::Result<usize> {
    let room = match socket.local_addr()? {
        SocketAddr::V4(_) => sockopt::ip_mtu(socket)?.saturating_sub(28),
        SocketAddr::V6(_) => sockopt::ipv6_mtu(socket)?.saturating_sub(48),
    };
    Ok(usize::try_from(room).unwrap_or(BYTES_MAX).clamp(1, BYTES_MAX))
}

/// The run that this says to be over, by the number after its last.
fn end_of(datagram: &[u8]) -> Option<u64> {
    let ([mark, number], []) = datagram.as_chunks() else { return None };
    (*mark == END.to_le_bytes()).then_some(u64::from_le_bytes(*number))
}

/// Whether a message is of this run, as far as it has room for its number.
fn is_of(numbers: &Range<u64>, message: &[u8]) -> Result<bool, LimitError> {
    let Some(number) = message.first_chunk() else { return Ok(true) };
    let sequence = u64::from_le_bytes(*number);
    match payload::has_ends(message, sequence) {
        true => Ok(numbers.contains(&sequence)),
        false => Err(LimitError::Corrupt(sequence)),
    }
}

/// What one datagram carries over IPv4.
pub(super) const BYTES_MAX: usize = 65_507;
/// What the system may keep of what was sent and not received.
const BUFFER: usize = 4 << 20;
/// System calls are slow enough that looking at the clock this often is free.
const SPIN_REFUSALS: u32 = 256;
/// No answer for so long is a datagram that was lost.
const LOST: Duration = Duration::from_millis(20);
/// How often the follower is told that a run is over.
const ASKED_AGAIN: Duration = Duration::from_millis(1);
/// No message has this number.
const END: u64 = u64::MAX;
