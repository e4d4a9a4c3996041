//! Forwards what the processes write, on a thread of its own: the reader may be
//! slow, and the launcher has to go on.
//!
//! A process that writes faster than its lines are taken waits, as with any pipe. What
//! is held here is a piece of at most [`LINE_MAX`](super::lines::LINE_MAX) per stream.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use egret::rt;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::io::{read, write};
use rustix::stdio::{stderr, stdout};

use super::lines::LineBuffer;
use super::sink::{OutputSink, StreamId, Unbuffered, are_same};
use crate::system::{line, wait_for};

/// The processes' output under way; ends by [`Output::finish`].
#[derive(Debug)]
pub(crate) struct Output {
    shared: Arc<OutputState>,
}

#[derive(Debug)]
struct OutputState {
    asked: Mutex<OutputRequest>,
    /// There is something in `asked`.
    wake: OwnedFd,
    /// All is written.
    done: OwnedFd,
}

#[derive(Debug, Default)]
struct OutputRequest {
    /// More to forward.
    streams: Vec<JobStream>,
    messages: Vec<String>,
    /// All writers have ended.
    is_over: bool,
}

/// What a process writes to its standard output or its standard error.
#[derive(Debug)]
pub(crate) struct JobStream {
    pub(crate) rank: u32,
    pub(crate) is_error: bool,
    /// Does not block.
    pub(crate) from: OwnedFd,
}

/// One stream of one process.
#[derive(Debug)]
struct ProcessStream {
    id: StreamId,
    from: OwnedFd,
    lines: LineBuffer,
    tag: Vec<u8>,
    sink: usize,
}

impl Output {
    /// Forwards what comes by these streams.
    pub(crate) fn start(streams: Vec<JobStream>, tagged: bool) -> Result<Self> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let shared = OutputState { asked: Mutex::default(), wake: event()?, done: event()? };
        let shared = Arc::new(shared);
        let same = are_same(stdout(), stderr());
        let mut sinks = vec![OutputSink::new(Unbuffered(stdout()))];
        if !same {
            sinks.push(OutputSink::new(Unbuffered(stderr())));
        }
        let broken = vec![false; sinks.len()];
        let forwarder = Forwarder {
            streams: Vec::new(),
            next: 0,
            tagged,
            sinks,
            broken,
            shared: Arc::clone(&shared),
        };
        let output = Self { shared };
        output.add(streams);
        rt::spawn("output", || forwarder.run()).context("starting a thread for output")?;
        Ok(output)
    }

    /// Forwards what comes by these streams as well.
    pub(crate) fn add(&self, streams: Vec<JobStream>) {
        self.shared.ask(|asked| asked.streams.extend(streams));
    }

    /// Says something between the lines of the processes, after what is there already.
    pub(crate) fn tell(&self, what: &str) {
        self.shared.ask(|asked| asked.messages.push(line(what)));
    }

    /// Writes the rest, now that no process is left that could write more.
    pub(crate) fn finish(&self) {
        self.shared.ask(|asked| asked.is_over = true);
    }

    /// Ready when the rest is written.
    pub(crate) fn done(&self) -> &OwnedFd {
        &self.shared.done
    }
}

impl OutputState {
    fn ask(&self, what: impl FnOnce(&mut OutputRequest)) {
        what(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn take(&self) -> OutputRequest {
        let _ = read(&self.wake, &mut [0; 8]);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = asked.is_over;
        OutputRequest { is_over, ..std::mem::take(&mut *asked) }
    }
}

/// What a stream has after a look at it.
#[derive(Debug, PartialEq, Eq)]
enum Has {
    More,
    NothingNow,
    Ended,
}

impl ProcessStream {
    fn new(id: StreamId, stream: JobStream, tagged: bool, error_sink: usize) -> Self {
        let JobStream { rank, is_error, from } = stream;
        let tag = if tagged { format!("[{rank}] ").into_bytes() } else { Vec::new() };
        let sink = if is_error { error_sink } else { 0 };
        Self { id, from, lines: LineBuffer::default(), tag, sink }
    }

    fn step(&mut self, sinks: &mut [OutputSink<Unbuffered>]) -> io::Result<Has> {
        let sink = &mut sinks[self.sink];
        match self.lines.fill(&self.from) {
            Ok(0) => Ok(Has::Ended),
            Ok(_) => {
                self.lines.pass(|bytes| sink.pass(self.id, &self.tag, bytes)).map(|()| Has::More)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Has::NothingNow),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Has::More),
            Err(_) => Ok(Has::Ended),
        }
    }

    fn end(&mut self, sinks: &mut [OutputSink<Unbuffered>]) -> io::Result<()> {
        let sink = &mut sinks[self.sink];
        self.lines.end(|bytes| {
            sink.pass(self.id, &self.tag, bytes)?;
            // Among tagged lines, one more end of a line changes no data.
            if self.tag.is_empty() { Ok(()) } else { sink.pass(self.id, &self.tag, b"\n") }
        })
    }
}

#[derive(Debug)]
struct Forwarder {
    streams: Vec<ProcessStream>,
    /// The number of the next stream.
    next: StreamId,
    tagged: bool,
    sinks: Vec<OutputSink<Unbuffered>>,
    /// Which of the sinks take nothing any more.
    broken: Vec<bool>,
    shared: Arc<OutputState>,
}

impl Forwarder {
    fn run(mut self) {
        loop {
            let OutputRequest { streams, messages, is_over } = self.shared.take();
            streams.into_iter().for_each(|stream| self.add(stream));
            if messages.is_empty() && !is_over {
                self.wait_some(None);
                continue;
            }
            self.catch_up();
            messages.iter().for_each(|message| self.say(message));
            if is_over {
                break;
            }
        }
        for mut stream in std::mem::take(&mut self.streams) {
            while matches!(stream.step(&mut self.sinks), Ok(Has::More)) {}
            let _ = stream.end(&mut self.sinks);
        }
        let _ = write(&self.shared.done, &1_u64.to_ne_bytes());
    }

    fn add(&mut self, stream: JobStream) {
        // Standard errors go to the last sink.
        let stream = ProcessStream::new(self.next, stream, self.tagged, self.sinks.len() - 1);
        self.next += 1;
        if !self.broken[stream.sink] {
            self.streams.push(stream);
        }
    }

    /// Forwards what is there, to the last words of those who have ended.
    fn catch_up(&mut self) {
        let _ = (0..CATCH_UP).take_while(|_| self.wait_some(Some(Duration::ZERO))).count();
    }

    /// Waits for something to forward, and forwards it; whether there was something.
    fn wait_some(&mut self, time: Option<Duration>) -> bool {
        let fds = self.streams.iter().map(|stream| &stream.from).chain([&self.shared.wake]);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        wait_for(&mut fds, time);
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let is_some = ready[..self.streams.len()].contains(&true);
        let streams = std::mem::take(&mut self.streams).into_iter().zip(ready);
        let kept: Vec<_> = streams.filter_map(|(s, ready)| self.forward(s, ready)).collect();
        let broken = &self.broken;
        self.streams = kept.into_iter().filter(|stream| !broken[stream.sink]).collect();
        is_some
    }

    /// Forwards what a stream has, and gives it back if there can be more.
    fn forward(&mut self, mut stream: ProcessStream, is_ready: bool) -> Option<ProcessStream> {
        if !is_ready {
            return Some(stream);
        }
        let sink = stream.sink;
        let done = match stream.step(&mut self.sinks) {
            Ok(Has::Ended) => stream.end(&mut self.sinks).map(|()| None),
            Ok(_) => Ok(Some(stream)),
            Err(error) => Err(error),
        };
        done.unwrap_or_else(|error| {
            self.abandon(sink, &error);
            None
        })
    }

    /// Nothing can be written to this sink: who wants to is to learn it as if it wrote
    /// there itself.
    fn abandon(&mut self, sink: usize, error: &io::Error) {
        let again = std::mem::replace(&mut self.broken[sink], true);
        if !again && error.kind() != io::ErrorKind::BrokenPipe {
            self.say(&line(&format!("forwarding output: {error}")));
        }
    }

    fn say(&mut self, message: &str) {
        if let Some(sink) = self.sinks.last_mut() {
            let _ = sink.pass(StreamId::MAX, b"", message.as_bytes());
        }
    }
}

/// How often all streams are read before a message is printed: a process that goes on writing does not
/// delay the message.
const CATCH_UP: u32 = 32;
