//! `udp-raw`: two sockets over loopback that send each other one datagram a message.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;

use super::end::{Link, Measured};
use super::ticks::Stopwatch;
use super::wait::Patience;
use super::{LimitError, payload, system};

/// One of the two sockets.
#[derive(Debug)]
pub(super) struct Udp {
    socket: UdpSocket,
    spins: bool,
    private: Vec<u8>,
    next: u64,
}

impl Udp {
    pub(super) fn prepare(spins: bool, bytes: usize) -> Result<(Self, [OwnedFd; 1]), LimitError> {
        let (mine, theirs) = pair().map_err(system("two loopback sockets"))?;
        Ok((Self::over(spins, bytes, mine)?, [theirs.into()]))
    }

    pub(super) fn join(spins: bool, bytes: usize, fd: OwnedFd) -> Result<Self, LimitError> {
        Self::over(spins, bytes, fd.into())
    }

    fn over(spins: bool, bytes: usize, socket: UdpSocket) -> Result<Self, LimitError> {
        if bytes > BYTES_MAX {
            return Err(LimitError::TooLong { bytes, max: BYTES_MAX });
        }
        socket.set_nonblocking(spins).map_err(system("O_NONBLOCK"))?;
        Ok(Self { socket, spins, private: vec![0; bytes], next: 1 })
    }

    fn be_patient(&self, patience: &Patience) -> Result<(), LimitError> {
        let left = Some(patience.left()?);
        self.socket.set_read_timeout(left).map_err(system("SO_RCVTIMEO"))?;
        self.socket.set_write_timeout(left).map_err(system("SO_SNDTIMEO"))
    }

    #[inline]
    fn send(&self, patience: &Patience) -> Result<(), LimitError> {
        self.try_until(patience, "send", |socket| socket.send(&self.private).map(|_| ()))
    }

    #[inline]
    fn receive(&mut self, patience: &Patience) -> Result<(), LimitError> {
        let mut private = std::mem::take(&mut self.private);
        let mut got = 0;
        let received = self.try_until(patience, "recv", |socket| {
            got = socket.recv(&mut private)?;
            Ok(())
        });
        self.private = private;
        received?;
        if got == self.private.len() { Ok(()) } else { Err(LimitError::Corrupt(self.next)) }
    }

    #[inline]
    fn try_until(
        &self,
        patience: &Patience,
        doing: &'static str,
        mut call: impl FnMut(&UdpSocket) -> io::Result<()>,
    ) -> Result<(), LimitError> {
        use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
        let (mut refused, often) = (0_u32, if self.spins { SPIN_REFUSALS } else { 1 });
        loop {
            match call(&self.socket).map_err(|error| error.kind()) {
                Ok(()) => return Ok(()),
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

impl Link for Udp {
    fn lead(&mut self, rounds: u64, patience: Patience) -> Result<Measured, LimitError> {
        self.be_patient(&patience)?;
        let mut times = Vec::new();
        for _ in 0..rounds {
            payload::rewrite(&mut self.private, self.next);
            let start = Stopwatch::start();
            self.send(&patience)?;
            self.receive(&patience)?;
            times.push(start.nanos());
            if !payload::is_whole(&self.private, self.next) {
                return Err(LimitError::Corrupt(self.next));
            }
            self.next += 1;
        }
        Ok(Measured::RoundTrips(times))
    }

    fn follow(&mut self, rounds: u64, patience: Patience) -> Result<(), LimitError> {
        self.be_patient(&patience)?;
        for _ in 0..rounds {
            self.receive(&patience)?;
            self.send(&patience)?;
            self.next += 1;
        }
        Ok(())
    }
}

/// Two sockets over loopback, each of which hears the other alone.
fn pair() -> io::Result<(UdpSocket, UdpSocket)> {
    let (near, far) =
        (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    Ok((near, far))
}

/// What one datagram carries over IPv4.
pub(super) const BYTES_MAX: usize = 65_507;
/// System calls are slow enough that looking at the clock this often is free.
const SPIN_REFUSALS: u32 = 256;
