//! One outpost, as the launcher of its job sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use egret::rt::{self, Instant};
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::stdin;
use zeroize::Zeroizing;

use super::conveyors::{OutpostBytes, OutpostSaid, OutputPiece, convey};
use super::{FailedOutpost, OutpostNews};
use crate::run::fault::{Fault, planted};
use crate::run::inbox::Inbox;
use crate::run::outpost::Transport;
use crate::run::outpost::frames::{Frame, PIECE_MAX, write_bytes};
use crate::run::outpost::order::{
    INPUT, INPUT_WINDOW, OutpostHello, OutpostJob, OutpostOrder, OutpostReport, PROTOCOL, stream_of,
};
use crate::run::output::JobStream;
use crate::run::status::Status;

/// Another machine of a job.
#[derive(Debug)]
pub(super) struct RemoteOutpost {
    pub(super) host: String,
    pub(super) ranks: Range<u32>,
    /// The ranks that run.
    pub(super) running: BTreeSet<u32>,
    /// What connects with it.
    pub(super) process: Child,
    orders: Inbox<OutpostBytes>,
    pub(super) hello: Option<OutpostHello>,
    pub(super) called: Instant,
    /// When something was heard of it last.
    pub(super) heard: Arc<Mutex<Instant>>,
    pub(super) state: OutpostState,
    /// It has stopped its processes, and waits for the signal to go on.
    pub(super) is_stopped: bool,
    /// How what connects with it has ended.
    pub(super) ended: Option<Status>,
    /// It has said all of its output.
    pub(super) has_said_all: bool,
    /// All of its output has been passed on.
    pub(super) is_written: bool,
    /// It was told to start its processes.
    is_begun: bool,
    /// Where its output goes.
    output: Sender<OutputPiece>,
    /// The same, until a thread takes it.
    pieces: Option<Receiver<OutputPiece>>,
    /// Bytes of input that it has passed on; none if rank 0 is not there, or reads no more.
    input: Option<Sender<u32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutpostState {
    /// It has not said anything yet.
    Called,
    /// It may begin.
    Reached,
    /// It is starting its processes.
    Beginning,
    Running,
    /// No process of the job is left there.
    Alone,
    Lost,
}

impl RemoteOutpost {
    pub(super) fn new(host: &str, ranks: Range<u32>, process: Child) -> Result<Self> {
        let (output, pieces) = channel();
        Ok(Self {
            host: host.to_owned(),
            ranks,
            running: BTreeSet::new(),
            process,
            orders: Inbox::new()?,
            hello: None,
            called: rt::now(),
            heard: Arc::new(Mutex::new(rt::now())),
            state: OutpostState::Called,
            is_stopped: false,
            ended: None,
            has_said_all: false,
            is_written: false,
            is_begun: false,
            output,
            pieces: Some(pieces),
            input: None,
        })
    }

    /// Starts the threads that pass on what is said.
    pub(super) fn convey(&mut self, at: usize, inbox: &Inbox<(usize, OutpostSaid)>) -> Result<()> {
        let pieces = self.pieces.take().context("an outpost is conveyed once")?;
        let output = (self.output.clone(), pieces);
        convey(&mut self.process, (at, inbox), &self.orders, output, &self.heard)
    }

    /// It never came to be: nothing is waited for.
    pub(super) fn abandon(&mut self) {
        self.state = OutpostState::Lost;
        self.cut();
    }

    /// Whether it was told to start its processes.
    pub(super) const fn has_begun(&self) -> bool {
        self.is_begun
    }

    /// Whether it has not started its processes, and may.
    pub(super) const fn is_to_start(&self) -> bool {
        matches!(self.state, OutpostState::Called | OutpostState::Reached | OutpostState::Beginning)
    }

    /// Whether the process of this rank runs there, or is being started.
    pub(super) fn has_rank(&self, rank: u32) -> bool {
        let begins = self.state == OutpostState::Beginning && self.ranks.contains(&rank);
        begins || self.running.contains(&rank)
    }

    /// Something is heard of it.
    pub(super) fn hear_now(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = rt::now();
    }

    pub(super) fn order(&self, order: &OutpostOrder) -> Result<()> {
        // A thread that has ended gives no orders any more: the outpost is lost, or has no use for them.
        self.orders.put(OutpostBytes::Frame(Frame::said(order)?));
        Ok(())
    }

    /// Tells it to start its processes, whose output this is.
    pub(super) fn begin(
        &mut self,
        order: OutpostJob,
        program: Option<&Arc<File>>,
    ) -> Result<Vec<JobStream>> {
        let (mut ends, mut streams) = (BTreeMap::new(), Vec::new());
        for (rank, is_error) in self.ranks.clone().flat_map(|rank| [(rank, false), (rank, true)]) {
            let (from, to) = pipe_with(PipeFlags::CLOEXEC).context("making a pipe for output")?;
            ioctl_fionbio(&from, true)?;
            ends.insert(stream_of(rank, is_error), File::from(to));
            streams.push(JobStream { rank, is_error, from });
        }
        let _ = self.output.send(OutputPiece::Streams(ends));
        if let Some(program) = program {
            self.orders.put(OutpostBytes::Program(Arc::clone(program)));
        }
        self.order(&OutpostOrder::Begin(Box::new(order)))?;
        if self.ranks.contains(&0) {
            self.give_input()?;
        }
        (self.state, self.is_begun) = (OutpostState::Beginning, true);
        Ok(streams)
    }

    /// Passes on the standard input of this process, as fast as rank 0 reads it.
    fn give_input(&mut self) -> Result<()> {
        let mut from =
            File::from(stdin().try_clone_to_owned().context("sharing the standard input")?);
        let (orders, (input, taken)) = (self.orders.clone(), channel::<u32>());
        self.input = Some(input);
        let thread = rt::spawn("input", move || {
            let (mut room, mut piece) = (INPUT_WINDOW, vec![0; PIECE_MAX]);
            loop {
                while room < PIECE_MAX {
                    let Ok(bytes) = taken.recv() else { return };
                    room += bytes as usize;
                }
                // What cannot be read is at its end.
                let count = from.read(&mut piece).unwrap_or_default();
                let mut frame = Vec::new();
                let written = write_bytes(&mut frame, INPUT, &piece[..count]);
                orders.put(OutpostBytes::Frame(Zeroizing::new(frame)));
                if written.is_err() || count == 0 {
                    return;
                }
                room -= count;
            }
        });
        thread.map(drop).context("starting a thread for input")
    }

    pub(super) fn hear(
        &mut self,
        (at, said): (usize, OutpostSaid),
        transport: &Transport,
        news: &mut Vec<OutpostNews>,
    ) {
        match (self.state, said) {
            (OutpostState::Called, said) => self.hear_first((at, said), transport, news),
            (_, OutpostSaid::Report(report)) => self.hear_report(at, report, news),
            (OutpostState::Alone, OutpostSaid::Ends(_)) if !self.has_said_all => {
                let what = format!("host {}: the end of what was written there is lost", self.host);
                news.push(OutpostNews::Tell(what));
            }
            (OutpostState::Alone | OutpostState::Lost, OutpostSaid::Ends(_)) => {}
            (_, OutpostSaid::Ends(why)) => {
                let name = transport.name();
                let how = self.ended.map_or_else(String::new, |how| format!(", {name} {how}"));
                let why = format!("the connection with it has ended{}{how}", reason(why));
                self.lose(at, &why, news);
            }
            (_, OutpostSaid::Written) => self.is_written = true,
        }
    }

    /// What an outpost says before it may begin.
    fn hear_first(
        &mut self,
        (at, said): (usize, OutpostSaid),
        transport: &Transport,
        news: &mut Vec<OutpostNews>,
    ) {
        let name = transport.name();
        let why = match said {
            OutpostSaid::Report(OutpostReport::Hello(hello)) if hello.protocol == PROTOCOL => {
                self.hello = Some(hello);
                self.state = OutpostState::Reached;
                return news.push(OutpostNews::Reached(at));
            }
            OutpostSaid::Report(OutpostReport::Hello(hello)) => format!(
                "has egret {} with job protocol {}, and this is egret {} with {PROTOCOL}: install the same there, or name another \
                 with --egret",
                hello.version,
                hello.protocol,
                env!("CARGO_PKG_VERSION"),
            ),
            OutpostSaid::Ends(Some(why)) => format!("was not reached by {name}: {why}"),
            OutpostSaid::Ends(None) => format!(
                "was not reached: {name} ended before `egret run-outpost` said anything, and says why where the job was begun; is \
                 egret at the same place there (else --egret PATH), and does `{}` work?",
                transport.trial(&self.host)
            ),
            OutpostSaid::Report(_) => "says something before its hello".to_owned(),
            OutpostSaid::Written => return self.is_written = true,
        };
        self.fail(at, &why, Status::Lost, news);
    }

    fn hear_report(&mut self, at: usize, report: OutpostReport, news: &mut Vec<OutpostNews>) {
        match report {
            OutpostReport::Started if self.state == OutpostState::Beginning => {
                self.state = OutpostState::Running;
                self.running = self.ranks.clone().collect();
                news.push(OutpostNews::Started(at));
            }
            OutpostReport::Refused { why, code } if self.state == OutpostState::Beginning => {
                let why = format!("starts nothing: {why}");
                self.fail(at, &why, Status::Code(code), news);
            }
            OutpostReport::Exited(_) | OutpostReport::Alone
                if self.state == OutpostState::Beginning =>
            {
                self.lose(at, "it tells of processes before it has started them", news);
            }
            OutpostReport::Exited(ended) => {
                let is_own = |(rank, _): &(u32, Status)| {
                    self.running.remove(rank) || planted(Fault::ForeignRanks)
                };
                let ended: Vec<_> = ended.into_iter().filter(is_own).collect();
                news.push(OutpostNews::Exited(ended));
            }
            OutpostReport::Alone if self.state == OutpostState::Running => {
                if self.running.is_empty() {
                    self.state = OutpostState::Alone;
                    let _ = self.order(&OutpostOrder::Finish);
                } else {
                    self.lose(at, "it forgets processes that it has started", news);
                }
            }
            OutpostReport::Refused { .. } | OutpostReport::OutputEnds
                if self.state == OutpostState::Running =>
            {
                self.lose(at, "it says no more of processes that run", news);
            }
            OutpostReport::OutputEnds => {
                self.has_said_all = true;
                let _ = self.output.send(OutputPiece::End);
            }
            OutpostReport::Stopped => self.is_stopped = true,
            OutpostReport::InputTaken(bytes) => {
                let _ = self.input.as_ref().map(|taken| taken.send(bytes));
            }
            OutpostReport::InputUnread => self.input = None,
            OutpostReport::Hello(_)
            | OutpostReport::Started
            | OutpostReport::Refused { .. }
            | OutpostReport::Alone
            | OutpostReport::Here => {}
        }
    }

    /// It has not started its processes, and does not; if they are needed they count as ended like this.
    pub(super) fn fail(
        &mut self,
        outpost: usize,
        why: &str,
        status: Status,
        news: &mut Vec<OutpostNews>,
    ) {
        if !self.is_to_start() {
            return;
        }
        self.abandon();
        let _ = self.output.send(OutputPiece::End);
        let ended = self.ranks.clone().map(|rank| (rank, status)).collect();
        let why = format!("host {} {why}", self.host);
        let has_begun = self.is_begun;
        news.push(OutpostNews::Failed(FailedOutpost { outpost, why, has_begun, ended }));
    }

    pub(super) fn lose(&mut self, at: usize, why: &str, news: &mut Vec<OutpostNews>) {
        if self.is_to_start() {
            return self.fail(at, &format!("is lost: {why}"), Status::Lost, news);
        }
        self.abandon();
        // Whatever else has the end of its pipe open: no more output is waited for.
        let _ = self.output.send(OutputPiece::End);
        let ended: Vec<_> = std::mem::take(&mut self.running)
            .into_iter()
            .map(|rank| (rank, Status::Lost))
            .collect();
        news.push(OutpostNews::Tell(format!("host {} is lost: {why}", self.host)));
        if !planted(Fault::LossUntold) {
            news.push(OutpostNews::Exited(ended));
        }
    }

    /// Ends what connects with it.
    pub(super) fn cut(&mut self) {
        if self.ended.is_none() {
            let _ = self.process.kill();
        }
    }
}

fn reason(why: Option<String>) -> String {
    why.map_or_else(String::new, |why| format!(" ({why})"))
}
