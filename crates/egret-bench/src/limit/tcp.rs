//! `tcp-raw` and `tcp-write`: one connection over loopback.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::OwnedFd;

use super::end::{LimitLink, LimitTime};
use super::ticks::Stopwatch;
use super::wait::WaitLimit;
use super::{LimitError, payload, system};
use egret::rt;

/// One end of a connection, and how it is used.
#[derive(Debug)]
pub(super) struct Tcp {
    flow: TcpFlow,
    stream: TcpStream,
    private: Vec<u8>,
    next: u64,
}

/// How bytes flow over the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TcpFlow {
    /// There and back, spinning on non-blocking calls.
    Spin,
    /// There and back, blocking.
    Frugal,
    /// One way, blocking.
    Bandwidth,
    /// One way, blocking, a call for each message; who reads takes what is there.
    Rate,
}

impl Tcp {
    pub(super) fn prepare(flow: TcpFlow, bytes: usize) -> Result<(Self, [OwnedFd; 1]), LimitError> {
        let (mine, theirs) = pair().map_err(system("a loopback connection"))?;
        Ok((Self::over(flow, bytes, mine)?, [theirs.into()]))
    }

    pub(super) fn join(flow: TcpFlow, bytes: usize, fd: OwnedFd) -> Result<Self, LimitError> {
        Self::over(flow, bytes, fd.into())
    }

    fn over(flow: TcpFlow, bytes: usize, stream: TcpStream) -> Result<Self, LimitError> {
        stream.set_nodelay(true).map_err(system("TCP_NODELAY"))?;
        stream.set_nonblocking(flow == TcpFlow::Spin).map_err(system("O_NONBLOCK"))?;
        Ok(Self { flow, stream, private: vec![0; bytes], next: 1 })
    }

    /// The numbers of the next `rounds` messages.
    fn numbers(&mut self, rounds: u64) -> Range<u64> {
        let start = self.next;
        self.next += rounds;
        start..self.next
    }
}

impl LimitLink for Tcp {
    fn lead(&mut self, rounds: u64, patience: WaitLimit) -> Result<LimitTime, LimitError> {
        let numbers = self.numbers(rounds);
        let wire = TcpMessages::new(&self.stream, self.flow, &patience)?;
        match self.flow {
            TcpFlow::Spin | TcpFlow::Frugal => wire.round_trips(&mut self.private, numbers),
            TcpFlow::Bandwidth | TcpFlow::Rate => wire.one_way(&mut self.private, numbers),
        }
    }

    fn follow(&mut self, rounds: u64, patience: WaitLimit) -> Result<(), LimitError> {
        let numbers = self.numbers(rounds);
        let wire = TcpMessages::new(&self.stream, self.flow, &patience)?;
        match self.flow {
            TcpFlow::Spin | TcpFlow::Frugal => wire.echo(&mut self.private, numbers),
            TcpFlow::Bandwidth => wire.receive(&mut self.private, numbers),
            TcpFlow::Rate => wire.receive_many(self.private.len(), numbers),
        }
    }
}

/// Both ends of a connection over loopback.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, peer) = listener.accept()?;
    if peer != near.local_addr()? {
        return Err(io::Error::other("a stranger connected first"));
    }
    Ok((near, far))
}

/// Whole messages over a stream, as long as there is patience.
#[derive(Debug, Clone, Copy)]
struct TcpMessages<'a> {
    stream: &'a TcpStream,
    patience: &'a WaitLimit,
    /// Refused calls between looks at the clock.
    refusals: u32,
}

impl<'a> TcpMessages<'a> {
    fn new(
        stream: &'a TcpStream,
        flow: TcpFlow,
        patience: &'a WaitLimit,
    ) -> Result<Self, LimitError> {
        let left = Some(patience.left()?);
        stream.set_read_timeout(left).map_err(system("SO_RCVTIMEO"))?;
        stream.set_write_timeout(left).map_err(system("SO_SNDTIMEO"))?;
        let refusals = if flow == TcpFlow::Spin { SPIN_REFUSALS } else { 1 };
        Ok(Self { stream, patience, refusals })
    }

    fn round_trips(self, private: &mut [u8], numbers: Range<u64>) -> Result<LimitTime, LimitError> {
        let mut times = Vec::new();
        for sequence in numbers {
            payload::rewrite(private, sequence);
            let start = Stopwatch::start();
            self.write(private)?;
            self.read(private)?;
            times.push(start.nanos());
            if !payload::is_whole(private, sequence) {
                return Err(LimitError::Corrupt(sequence));
            }
        }
        Ok(LimitTime::RoundTrips(times))
    }

    fn echo(self, private: &mut [u8], numbers: Range<u64>) -> Result<(), LimitError> {
        for _ in numbers {
            self.read(private)?;
            self.write(private)?;
        }
        Ok(())
    }

    /// The sender rewrites each message, as that of a benchmark does; the time of it counts.
    fn one_way(self, private: &mut [u8], numbers: Range<u64>) -> Result<LimitTime, LimitError> {
        let start = rt::machine_now();
        for sequence in numbers {
            payload::rewrite(private, sequence);
            self.write(private)?;
        }
        self.read(&mut [0])?;
        Ok(LimitTime::OneWay(rt::machine_now() - start))
    }

    fn receive(self, private: &mut [u8], numbers: Range<u64>) -> Result<(), LimitError> {
        for sequence in numbers {
            self.read(private)?;
            if !payload::has_ends(private, sequence) {
                return Err(LimitError::Corrupt(sequence));
            }
        }
        self.write(&[0])
    }

    fn receive_many(mut self, bytes: usize, mut numbers: Range<u64>) -> Result<(), LimitError> {
        let mut buf = vec![0; MANY.next_multiple_of(bytes)];
        let (mut refused, mut filled) = (0, 0);
        while !numbers.is_empty() {
            match self.stream.read(&mut buf[filled..]) {
                Ok(0) => return Err(LimitError::Gone),
                Ok(count) => filled += count,
                Err(error) => self.again(&error, "read", &mut refused)?,
            }
            let whole = filled - filled % bytes;
            for message in buf[..whole].chunks_exact(bytes) {
                let sequence = numbers.next().ok_or(LimitError::Corrupt(0))?;
                if !payload::has_ends(message, sequence) {
                    return Err(LimitError::Corrupt(sequence));
                }
            }
            buf.copy_within(whole..filled, 0);
            filled -= whole;
        }
        self.write(&[0])
    }

    #[inline]
    fn write(mut self, mut from: &[u8]) -> Result<(), LimitError> {
        let mut refused = 0;
        while !from.is_empty() {
            match self.stream.write(from) {
                Ok(count) => from = &from[count..],
                Err(error) => self.again(&error, "write", &mut refused)?,
            }
        }
        Ok(())
    }

    #[inline]
    fn read(mut self, into: &mut [u8]) -> Result<(), LimitError> {
        let (mut refused, mut filled) = (0, 0);
        while filled < into.len() {
            match self.stream.read(&mut into[filled..]) {
                Ok(0) => return Err(LimitError::Gone),
                Ok(count) => filled += count,
                Err(error) => self.again(&error, "read", &mut refused)?,
            }
        }
        Ok(())
    }

    /// Whether a refused call is to be tried again: not ready, and time left.
    #[inline]
    fn again(
        self,
        error: &io::Error,
        doing: &'static str,
        refused: &mut u32,
    ) -> Result<(), LimitError> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, Interrupted, WouldBlock};
        match error.kind() {
            WouldBlock | Interrupted => {
                *refused = refused.wrapping_add(1);
                if refused.is_multiple_of(self.refusals) { self.patience.check() } else { Ok(()) }
            }
            BrokenPipe | ConnectionReset => Err(LimitError::Gone),
            kind => Err(system(doing)(io::Error::from(kind))),
        }
    }
}

/// Bytes that a reader of many messages asks for.
const MANY: usize = 64 << 10;
/// System calls are slow enough that looking at the clock this often is free.
const SPIN_REFUSALS: u32 = 256;
