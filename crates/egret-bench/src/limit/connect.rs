//! `tcp-connect`: connections over loopback, one after the other.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::end::{LimitLink, LimitTime};
use super::ticks::Stopwatch;
use super::wait::WaitLimit;
use super::{LimitError, system};

/// One end: where to connect to, or what accepts.
#[derive(Debug)]
pub(super) enum ConnectEnd {
    Caller(SocketAddr),
    Callee(TcpListener),
}

impl ConnectEnd {
    pub(super) fn prepare() -> Result<(Self, [OwnedFd; 1]), LimitError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.map_err(system("a socket that listens"))?;
        let to = listener.local_addr().map_err(system("its address"))?;
        Ok((Self::Caller(to), [listener.into()]))
    }

    pub(super) fn join(fd: OwnedFd) -> Self {
        Self::Callee(fd.into())
    }
}

impl LimitLink for ConnectEnd {
    fn lead(&mut self, rounds: u64, patience: WaitLimit) -> Result<LimitTime, LimitError> {
        let Self::Caller(to) = self else { return Err(LimitError::Taken) };
        let mut times = Vec::new();
        for _ in 0..rounds {
            let left = patience.left()?;
            let start = Stopwatch::start();
            let mut stream = TcpStream::connect_timeout(to, left).map_err(system("connect"))?;
            stream.set_nodelay(true).map_err(system("TCP_NODELAY"))?;
            stream.set_read_timeout(Some(left)).map_err(system("SO_RCVTIMEO"))?;
            match stream.read_exact(&mut [0]) {
                Ok(()) => times.push(start.nanos()),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    patience.left()?;
                    return Err(LimitError::Gone);
                }
                Err(_) => return Err(LimitError::Gone),
            }
        }
        Ok(LimitTime::RoundTrips(times))
    }

    fn follow(&mut self, rounds: u64, patience: WaitLimit) -> Result<(), LimitError> {
        let Self::Callee(listener) = self else { return Err(LimitError::Taken) };
        let mut last = None;
        for _ in 0..rounds {
            let left = Timespec::try_from(patience.left()?).ok();
            let mut fds = [PollFd::new(&*listener, PollFlags::IN)];
            poll(&mut fds, left.as_ref()).map_err(system("poll"))?;
            patience.check()?;
            let (mut stream, _) = listener.accept().map_err(system("accept"))?;
            stream.set_nodelay(true).map_err(system("TCP_NODELAY"))?;
            stream.write_all(&[0]).map_err(system("write"))?;
            // It is left when the caller has left it.
            last = Some(stream);
        }
        drop(last);
        Ok(())
    }
}
