//! What an outpost says to the launcher: its reports, and the output of its processes, on a thread of its own.
//!
//! The launcher may be slow with output, so the thread says at most [`WINDOW`] bytes of it before the launcher has passed
//! them on. Reports do not wait for that.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use egret::rt::{self, Instant};
use rustix::event::{PollFd, PollFlags};
use rustix::io::read;
use rustix::stdio::stdout;
use zeroize::Zeroizing;

use super::SAY_EVERY;
use super::frames::{Frame, PIECE_MAX, write_bytes};
use super::order::{GREETING, OutpostReport, WINDOW, stream_of};
use crate::run::fault::{Fault, planted};
use crate::run::inbox::Inbox;
use crate::run::output::JobStream;
use crate::run::sink::Unbuffered;
use crate::system::wait_for;

/// The thread; it ends after [`Relay::finish`], or when nothing can be said any more.
#[derive(Debug)]
pub(super) struct Relay(Inbox<RelayRequest>);

/// What the thread is asked to do.
#[derive(Debug)]
enum RelayRequest {
    /// Say a frame.
    Report(Zeroizing<Vec<u8>>),
    /// Say what comes by these streams.
    Add(Vec<JobStream>),
    /// So many more bytes may be said: the launcher has passed them on.
    Taken(usize),
    /// Say no more of a stream, which the launcher does not want.
    Unread(u32),
    /// Say the rest: all writers have ended.
    Finish,
}

impl Relay {
    /// Starts it; `ended` is called when all is said.
    pub(super) fn start(ended: impl FnOnce() + Send + 'static) -> Result<Self> {
        let asked = Inbox::new()?;
        let thread = RelayThread::new(&asked, Unbuffered(stdout()));
        let run = move || {
            // Nobody is there to be told of an error: the launcher is gone.
            let _ = thread.run();
            ended();
        };
        rt::spawn("relay", run).context("starting a thread for output")?;
        Ok(Self(asked))
    }

    pub(super) fn report(&self, report: &OutpostReport) {
        if let Ok(frame) = Frame::said(report) {
            self.0.put(RelayRequest::Report(frame));
        }
    }

    pub(super) fn add(&self, streams: Vec<JobStream>) {
        self.0.put(RelayRequest::Add(streams));
    }

    pub(super) fn taken(&self, bytes: u32) {
        self.0.put(RelayRequest::Taken(bytes as usize));
    }

    pub(super) fn unread(&self, stream: u32) {
        self.0.put(RelayRequest::Unread(stream));
    }

    /// Says the rest, now that no process is left that could write more.
    pub(super) fn finish(&self) {
        self.0.put(RelayRequest::Finish);
    }
}

struct RelayThread<W> {
    asked: Inbox<RelayRequest>,
    to: W,
    streams: Vec<JobStream>,
    /// Bytes of output that may be said.
    room: usize,
    is_over: bool,
    /// When something was said last.
    said: Instant,
}

impl<W: Write> RelayThread<W> {
    fn new(asked: &Inbox<RelayRequest>, to: W) -> Self {
        let asked = asked.clone();
        Self { asked, to, streams: Vec::new(), room: WINDOW, is_over: false, said: rt::now() }
    }

    fn run(mut self) -> io::Result<()> {
        self.to.write_all(GREETING)?;
        let mut piece = vec![0; PIECE_MAX];
        loop {
            for request in self.asked.take() {
                self.obey(request)?;
            }
            if planted(Fault::OutputCut) && self.is_over {
                self.streams.clear();
            }
            let ready = self.wait();
            let streams = std::mem::take(&mut self.streams).into_iter().zip(&ready);
            let mut kept = Vec::with_capacity(ready.len());
            for (stream, is_ready) in streams {
                if !is_ready || self.pass(&stream, &mut piece)? {
                    kept.push(stream);
                }
            }
            self.streams = kept;
            // Nothing is left in a stream whose writers have ended if there is room for it, and it has nothing.
            if self.is_over && self.room > 0 && !ready.contains(&true) {
                return self.say(&Frame::said(&OutpostReport::OutputEnds)?);
            }
            if rt::now() - self.said >= SAY_EVERY {
                self.say(&Frame::said(&OutpostReport::Here)?)?;
            }
        }
    }

    fn obey(&mut self, request: RelayRequest) -> io::Result<()> {
        match request {
            RelayRequest::Report(frame) => return self.say(&frame),
            RelayRequest::Add(streams) => self.streams.extend(streams),
            // A launcher that has taken more than it was given gives no more room than there is.
            RelayRequest::Taken(bytes) => self.room = (self.room + bytes).min(WINDOW),
            RelayRequest::Unread(unread) => {
                self.streams.retain(|stream| stream_of(stream.rank, stream.is_error) != unread);
            }
            RelayRequest::Finish => self.is_over = true,
        }
        Ok(())
    }

    /// Waits for something to do; which of the streams have something.
    fn wait(&self) -> Vec<bool> {
        let mut fds = vec![PollFd::new(&self.asked, PollFlags::IN)];
        if self.room > 0 {
            fds.extend(self.streams.iter().map(|stream| PollFd::new(&stream.from, PollFlags::IN)));
        }
        let time = match self.is_over && self.room > 0 {
            true => Duration::ZERO,
            false => SAY_EVERY.saturating_sub(rt::now() - self.said),
        };
        wait_for(&mut fds, Some(time));
        let mut ready: Vec<_> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
        ready.resize(self.streams.len(), false);
        ready
    }

    /// Says what a stream has; whether there can be more.
    fn pass(&mut self, stream: &JobStream, piece: &mut [u8]) -> io::Result<bool> {
        let most = piece.len().min(self.room);
        if most == 0 {
            return Ok(true);
        }
        match read(&stream.from, &mut piece[..most]).map_err(io::Error::from) {
            Ok(0) => Ok(false),
            Ok(bytes) => {
                write_bytes(
                    &mut self.to,
                    stream_of(stream.rank, stream.is_error),
                    &piece[..bytes],
                )?;
                self.room -= if planted(Fault::WindowIgnored) { 0 } else { bytes };
                self.said = rt::now();
                Ok(true)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(true)
            }
            Err(_) => Ok(false),
        }
    }

    fn say(&mut self, frame: &[u8]) -> io::Result<()> {
        self.said = rt::now();
        self.to.write_all(frame)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::BufReader;
    use std::os::fd::OwnedFd;

    use rustix::io::ioctl_fionbio;
    use rustix::pipe::pipe;

    use super::super::frames::FRAME_MAX;
    use super::*;
    use crate::run::fault::caught;

    /// Bytes of two windows and some more.
    const MUCH: usize = 2 * WINDOW + 12_345;

    fn stream(from: OwnedFd) -> JobStream {
        ioctl_fionbio(&from, true).unwrap();
        JobStream { rank: 3, is_error: true, from }
    }

    /// An outpost says a window of output, and the rest as the launcher passes it on.
    fn output_waits_for_the_launcher() {
        let (from, to) = pipe().unwrap();
        let (said, says) = pipe().unwrap();
        let requests = Inbox::new().unwrap();
        requests.put(RelayRequest::Add(vec![stream(from)]));
        let asks = requests.clone();
        let writer = rt::spawn("writer", move || {
            let written = File::from(to).write_all(&vec![b'x'; MUCH]);
            asks.put(RelayRequest::Finish);
            written
        });
        let asks = requests.clone();
        let reader = rt::spawn("reader", move || read_slowly(File::from(said), &asks));
        let ran = RelayThread::new(&requests, File::from(says)).run();
        let (first, all) = reader.unwrap().join().unwrap();
        // A launcher that has gone away leaves nobody to write to.
        assert_eq!((first, all), (WINDOW, MUCH), "{ran:?}");
        writer.unwrap().join().unwrap().unwrap();
        ran.unwrap();
    }

    /// Takes nothing until the outpost has twice had nothing to say, and then all; how much had come until then, and how
    /// much in all.
    fn read_slowly(from: File, requests: &Inbox<RelayRequest>) -> (usize, usize) {
        let mut from = BufReader::new(from);
        let mut greeting = [0; GREETING.len()];
        io::Read::read_exact(&mut from, &mut greeting).unwrap();
        let (mut first, mut all, mut idle) = (0, 0, 0);
        while let Ok(Some(frame)) = Frame::<OutpostReport>::read(&mut from, FRAME_MAX) {
            match frame {
                Frame::Bytes(stream, bytes) => {
                    assert_eq!(stream, stream_of(3, true));
                    all += bytes.len();
                    if first > 0 {
                        requests.put(RelayRequest::Taken(bytes.len()));
                    } else if all > WINDOW {
                        return (all, all);
                    }
                }
                Frame::Said(OutpostReport::Here) => idle += usize::from(all >= WINDOW),
                Frame::Said(OutpostReport::OutputEnds) => break,
                Frame::Said(other) => panic!("{other:?}"),
            }
            if idle == 2 && first == 0 {
                first = all;
                requests.put(RelayRequest::Taken(all));
            }
        }
        (first, all)
    }

    /// What the processes wrote before they ended is said.
    fn the_rest_is_said() {
        let (from, to) = pipe().unwrap();
        let written = vec![b'y'; 60_000];
        File::from(to).write_all(&written).unwrap();
        let requests = Inbox::new().unwrap();
        requests.put(RelayRequest::Add(vec![stream(from)]));
        requests.put(RelayRequest::Finish);
        let mut said = Vec::new();
        RelayThread::new(&requests, &mut said).run().unwrap();
        let mut frames = said.strip_prefix(GREETING).unwrap();
        let mut bytes = Vec::new();
        while let Some(Frame::Bytes(_, more)) =
            Frame::<OutpostReport>::read(&mut frames, FRAME_MAX).unwrap()
        {
            bytes.extend(more);
        }
        assert!(bytes == written, "{} bytes", bytes.len());
    }

    #[test]
    fn output_is_said_as_the_launcher_takes_it_and_to_its_end() {
        output_waits_for_the_launcher();
        the_rest_is_said();
    }

    #[test]
    fn planted_faults_are_caught() {
        assert!(caught(Fault::WindowIgnored, output_waits_for_the_launcher));
        assert!(caught(Fault::OutputCut, the_rest_is_said));
    }
}
