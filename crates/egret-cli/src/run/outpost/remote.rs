//! The outposts of a job, as its launcher sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use egret::rt::{self, Instant};
use rustix::event::{PollFd, PollFlags};
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal};
use rustix::stdio::stdin;
use zeroize::Zeroizing;

use super::frames::{Frame, PIECE_MAX, write_bytes};
use super::inbox::Inbox;
use super::order::{
    GREETING, INPUT, INPUT_WINDOW, OutpostHello, OutpostJob, OutpostOrder, OutpostReport, PROTOCOL,
    WINDOW, stream_of,
};
use super::{JobPlace, LOST_AFTER, SAY_EVERY, Transport};
use crate::run::args::Job;
use crate::run::environment::Environment;
use crate::run::fault::{Fault, planted};
use crate::run::output::JobStream;
use crate::run::status::Status;
use crate::system::{own_program, wait_for};

/// The other machines of a job; there may be none.
#[derive(Debug)]
pub(crate) struct Outposts {
    outposts: Vec<RemoteOutpost>,
    inbox: Inbox<(usize, OutpostSaid)>,
    transport: Transport,
    /// What has happened, and was not asked for yet.
    news: Vec<OutpostNews>,
}

/// Another machine of a job.
#[derive(Debug)]
pub(crate) struct RemoteOutpost {
    host: String,
    ranks: Range<u32>,
    /// The ranks that run.
    running: BTreeSet<u32>,
    /// What connects with it.
    process: Child,
    orders: Inbox<Zeroizing<Vec<u8>>>,
    hello: Option<OutpostHello>,
    /// When something was heard of it last.
    heard: Arc<Mutex<Instant>>,
    state: OutpostState,
    /// It has stopped its processes, and waits for the signal to go on.
    is_stopped: bool,
    /// How what connects with it has ended.
    ended: Option<Status>,
    /// It has said all of its output.
    has_said_all: bool,
    /// All of its output has been passed on.
    is_written: bool,
    /// Where its output goes.
    output: Sender<OutputPiece>,
    /// Bytes of input that it has passed on; none if rank 0 is not there, or reads no more.
    input: Option<Sender<u32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutpostState {
    Running,
    /// No process of the job is left there.
    Alone,
    Lost,
}

/// What the threads of an outpost have for the launcher.
#[derive(Debug)]
enum OutpostSaid {
    Report(OutpostReport),
    /// It says no more, for this reason if it is not just the end.
    Ends(Option<String>),
    /// Its output has been passed on.
    Written,
}

/// What a thread passes on to where it is made lines.
#[derive(Debug)]
enum OutputPiece {
    /// The streams there are, by their numbers.
    Streams(BTreeMap<u32, File>),
    Bytes(u32, Vec<u8>),
    End,
}

/// What has happened at an outpost.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OutpostNews {
    /// These processes have ended.
    Exited(Vec<(u32, Status)>),
    /// People are to know.
    Tell(String),
}

impl Outposts {
    /// Starts an outpost for each of the places on other machines, and waits until all are there; `is_wanted` says whether the
    /// job still is to begin.
    pub(crate) fn connect(
        job: &Job,
        name: &str,
        places: &[JobPlace],
        is_wanted: impl Fn() -> bool,
    ) -> Result<Self> {
        let transport = job.options.transport();
        let inbox = Inbox::new()?;
        let mut outposts = Self { outposts: Vec::new(), inbox, transport, news: Vec::new() };
        if places.iter().all(|place| place.host.is_none()) {
            return Ok(outposts);
        }
        let egret = egret_of(job)?;
        for place in places {
            let Some(host) = &place.host else { continue };
            let number = outposts.outposts.len();
            let outpost = outpost_args(name, number);
            let process = outposts.transport.start(host, &egret, &outpost)?;
            outposts.add(host, place.ranks.clone(), process)?;
        }
        let until = rt::now() + CONNECT_WITHIN;
        while let Some(outpost) = outposts.outposts.iter().find(|outpost| outpost.hello.is_none()) {
            if !is_wanted() {
                bail!("the job was ended before it began");
            }
            if rt::now() > until {
                bail!("host {} did not answer in {CONNECT_WITHIN:?}", outpost.host);
            }
            wait_for(&mut [PollFd::new(&outposts.inbox, PollFlags::IN)], Some(SAY_EVERY));
            for (at, said) in outposts.inbox.take() {
                outposts.hear_first(at, said)?;
            }
        }
        Ok(outposts)
    }

    fn add(&mut self, host: &str, ranks: Range<u32>, mut process: Child) -> Result<()> {
        let (at, inbox) = (self.outposts.len(), self.inbox.clone());
        let stdin = process.stdin.take().context("its input is a pipe")?;
        let stdout = process.stdout.take().context("its output is a pipe")?;
        let (output, pieces) = channel();
        let orders = Inbox::new()?;
        let ordered = orders.clone();
        rt::spawn("orders", move || give_orders(stdin, &ordered))?;
        let untaken = Arc::new(AtomicUsize::new(0));
        let unread = Arc::clone(&untaken);
        let (passed, heard) = (output.clone(), Arc::new(Mutex::new(rt::now())));
        let hears = Arc::clone(&heard);
        rt::spawn("outpost", move || {
            let why = hear(stdout, |said| {
                set(&hears, rt::now());
                match said {
                    Frame::Said(report) => inbox.put((at, OutpostSaid::Report(report))),
                    Frame::Bytes(stream, bytes) => {
                        let before = unread.fetch_add(bytes.len(), Ordering::Relaxed);
                        if before + bytes.len() > WINDOW {
                            bail!("it says more output than it was asked for");
                        }
                        _ = passed.send(OutputPiece::Bytes(stream, bytes));
                    }
                }
                Ok(())
            });
            let _ = passed.send(OutputPiece::End);
            inbox.put((at, OutpostSaid::Ends(why.err().map(|why| format!("{why:#}")))));
        })?;
        let (back, inbox) = (orders.clone(), self.inbox.clone());
        rt::spawn("outpost output", move || {
            pass_on(&pieces, &back, &untaken);
            inbox.put((at, OutpostSaid::Written));
        })?;
        self.outposts.push(RemoteOutpost {
            host: host.to_owned(),
            running: BTreeSet::new(),
            ranks,
            process,
            orders,
            hello: None,
            heard,
            state: OutpostState::Running,
            is_stopped: false,
            ended: None,
            has_said_all: false,
            is_written: false,
            output,
            input: None,
        });
        Ok(())
    }

    /// What an outpost says before the job begins.
    fn hear_first(&mut self, at: usize, said: OutpostSaid) -> Result<()> {
        let (outpost, name) = (&mut self.outposts[at], self.transport.name());
        match said {
            OutpostSaid::Report(OutpostReport::Hello(hello)) if hello.protocol != PROTOCOL => {
                bail!(
                    "host {} has egret {} with job protocol {}, and this is egret {} with {PROTOCOL}: install the same there, or \
                 name another with --egret",
                    outpost.host,
                    hello.version,
                    hello.protocol,
                    env!("CARGO_PKG_VERSION"),
                )
            }
            OutpostSaid::Report(OutpostReport::Hello(hello)) => outpost.hello = Some(hello),
            OutpostSaid::Ends(why) if outpost.hello.is_some() => {
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                bail!("host {} was lost before the job began: {name} has ended{why}", outpost.host)
            }
            OutpostSaid::Ends(why) => {
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                bail!(
                    "host {} was not reached: {name} ended before `egret run-outpost` said anything{why}; is egret at the same place \
                     there (else --egret PATH), and does `{name} {} true` work?",
                    outpost.host,
                    outpost.host
                )
            }
            OutpostSaid::Report(_) | OutpostSaid::Written => {}
        }
        Ok(())
    }

    /// The address of this machine that the outposts see, if all see the same.
    pub(crate) fn launcher_address(&self) -> Option<String> {
        let mut seen = self.outposts.iter().map(|outpost| outpost.hello.as_ref()?.launcher.clone());
        let first = seen.next()??;
        seen.all(|address| address.as_ref() == Some(&first)).then_some(first)
    }

    /// Starts the processes; their output.
    pub(crate) fn begin(&mut self, job: &Job, environment: &Environment) -> Result<Vec<JobStream>> {
        let args: Vec<OsString> = job.clone().resolved().to_args();
        let directory = std::env::current_dir().context("finding the working directory")?;
        let variables = environment.along();
        let mut all = Vec::new();
        for outpost in &mut self.outposts {
            let order = OutpostJob {
                args: args.iter().map(|arg| arg.as_os_str().into()).collect(),
                ranks: outpost.ranks.clone(),
                pool: environment.pool.clone(),
                registry: environment.registry.clone(),
                secret: environment.secret.clone(),
                directory: directory.as_os_str().into(),
                is_egret: Path::new(&job.program) == own_program(),
                variables: variables
                    .iter()
                    .map(|(name, value)| (name.as_os_str().into(), value.as_os_str().into()))
                    .collect(),
            };
            let mut ends = BTreeMap::new();
            for (rank, is_error) in
                outpost.ranks.clone().flat_map(|rank| [(rank, false), (rank, true)])
            {
                let (from, to) =
                    pipe_with(PipeFlags::CLOEXEC).context("making a pipe for output")?;
                ioctl_fionbio(&from, true)?;
                ends.insert(stream_of(rank, is_error), File::from(to));
                all.push(JobStream { rank, is_error, from });
            }
            let _ = outpost.output.send(OutputPiece::Streams(ends));
            outpost.running = outpost.ranks.clone().collect();
            outpost.order(&OutpostOrder::Begin(Box::new(order)))?;
            if outpost.ranks.contains(&0) {
                outpost.give_input()?;
            }
        }
        Ok(all)
    }

    /// What has happened since this was asked last.
    pub(crate) fn news(&mut self) -> Vec<OutpostNews> {
        self.news_at(rt::now())
    }

    fn news_at(&mut self, now: Instant) -> Vec<OutpostNews> {
        self.hear_all();
        for outpost in &mut self.outposts {
            let heard = *outpost.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let silent = match planted(Fault::SilenceForgiven) {
                true => Duration::ZERO,
                false => now - heard,
            };
            if outpost.state != OutpostState::Lost && !outpost.has_said_all && silent > LOST_AFTER {
                let why = format!("nothing was heard of it for {} s", silent.as_secs());
                outpost.lose(&why, &mut self.news);
            }
        }
        std::mem::take(&mut self.news)
    }

    fn hear_all(&mut self) {
        for (at, said) in self.inbox.take() {
            self.outposts[at].hear(said, &self.transport, &mut self.news);
        }
    }

    /// When [`news`](Self::news) is to be asked for, even if nothing has come.
    pub(crate) fn look_within(&self) -> Option<Duration> {
        (!self.outposts.is_empty()).then_some(SAY_EVERY)
    }

    /// Waits until all have stopped their processes: they do not miss this one then, which is about to be stopped.
    pub(crate) fn wait_stopped(&mut self) {
        let until = rt::now() + STOPPED_WITHIN;
        let is_awaited =
            |outpost: &RemoteOutpost| outpost.state == OutpostState::Running && !outpost.is_stopped;
        while self.outposts.iter().any(is_awaited) && rt::now() < until {
            wait_for(&mut [PollFd::new(&self.inbox, PollFlags::IN)], Some(until - rt::now()));
            self.hear_all();
        }
    }

    /// The time since an outpost was heard does not count: this process was stopped.
    pub(crate) fn continue_now(&mut self) {
        for outpost in &mut self.outposts {
            set(&outpost.heard, rt::now());
            outpost.is_stopped = false;
        }
    }

    /// What connects with an outpost has ended, if it is that process.
    pub(crate) fn ended(&mut self, pid: Pid, status: Status) {
        let outpost =
            self.outposts.iter_mut().find(|outpost| Pid::from_child(&outpost.process) == pid);
        if let Some(outpost) = outpost {
            outpost.ended = Some(status);
        }
    }

    pub(crate) fn pass(&self, signal: Signal) {
        self.outposts
            .iter()
            .for_each(|outpost| _ = outpost.order(&OutpostOrder::Pass(signal.as_raw())));
    }

    pub(crate) fn end(&self, signal: Signal, spare: Option<u32>) {
        let order = OutpostOrder::End { signal: signal.as_raw(), spare };
        self.outposts.iter().for_each(|outpost| _ = outpost.order(&order));
    }

    /// Whether no process of the job is left at any of them, as far as can be known.
    pub(crate) fn are_alone(&self) -> bool {
        self.outposts.iter().all(|outpost| outpost.state != OutpostState::Running)
    }

    /// Whether all output of all has been passed on.
    pub(crate) fn are_written(&self) -> bool {
        self.outposts.iter().all(|outpost| outpost.is_written)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.outposts.is_empty()
    }

    /// The processes that connect with them.
    pub(crate) fn processes(&self) -> impl Iterator<Item = Pid> {
        self.outposts
            .iter()
            .filter(|outpost| outpost.ended.is_none())
            .map(|outpost| Pid::from_child(&outpost.process))
    }
}

impl AsFd for Outposts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inbox.as_fd()
    }
}

impl RemoteOutpost {
    fn order(&self, order: &OutpostOrder) -> Result<()> {
        // A thread that has ended gives no orders any more: the outpost is lost, or has no use for them.
        self.orders.put(Frame::said(order)?);
        Ok(())
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
                orders.put(Zeroizing::new(frame));
                if written.is_err() || count == 0 {
                    return;
                }
                room -= count;
            }
        });
        thread.map(drop).context("starting a thread for input")
    }

    fn hear(&mut self, said: OutpostSaid, transport: &Transport, news: &mut Vec<OutpostNews>) {
        match said {
            OutpostSaid::Report(OutpostReport::Exited(ended)) => {
                let is_own = |(rank, _): &(u32, Status)| {
                    self.running.remove(rank) || planted(Fault::ForeignRanks)
                };
                let ended: Vec<_> = ended.into_iter().filter(is_own).collect();
                news.push(OutpostNews::Exited(ended));
            }
            OutpostSaid::Report(OutpostReport::Refused { why, code }) => {
                news.push(OutpostNews::Tell(format!("host {}: {why}", self.host)));
                let ended = std::mem::take(&mut self.running).into_iter();
                news.push(OutpostNews::Exited(
                    ended.map(|rank| (rank, Status::Code(code))).collect(),
                ));
                self.alone();
            }
            OutpostSaid::Report(OutpostReport::Alone) if self.running.is_empty() => self.alone(),
            OutpostSaid::Report(OutpostReport::Alone) => {
                self.lose("it forgets processes that it has started", news);
            }
            OutpostSaid::Report(OutpostReport::OutputEnds) => self.has_said_all = true,
            OutpostSaid::Report(OutpostReport::Stopped) => self.is_stopped = true,
            OutpostSaid::Ends(why) if self.state == OutpostState::Running => {
                let name = transport.name();
                let how = self.ended.map_or_else(String::new, |how| format!(", {name} {how}"));
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                self.lose(&format!("the connection with it has ended{why}{how}"), news);
            }
            OutpostSaid::Ends(_) if self.state == OutpostState::Alone && !self.has_said_all => {
                let what = format!("host {}: the end of what was written there is lost", self.host);
                news.push(OutpostNews::Tell(what));
            }
            OutpostSaid::Written => self.is_written = true,
            OutpostSaid::Report(OutpostReport::InputTaken(bytes)) => {
                let _ = self.input.as_ref().map(|taken| taken.send(bytes));
            }
            OutpostSaid::Report(OutpostReport::InputUnread) => self.input = None,
            OutpostSaid::Report(_) | OutpostSaid::Ends(_) => {}
        }
    }

    fn alone(&mut self) {
        self.state = OutpostState::Alone;
        let _ = self.order(&OutpostOrder::Finish);
    }

    fn lose(&mut self, why: &str, news: &mut Vec<OutpostNews>) {
        self.state = OutpostState::Lost;
        if self.ended.is_none() {
            let _ = self.process.kill();
        }
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
}

/// Writes orders to an outpost until it does not read them any more, and says between them that the launcher is there.
fn give_orders(mut to: ChildStdin, orders: &Inbox<Zeroizing<Vec<u8>>>) {
    let Ok(here) = Frame::said(&OutpostOrder::Here) else { return };
    loop {
        wait_for(&mut [PollFd::new(orders, PollFlags::IN)], Some(SAY_EVERY));
        let mut all = orders.take();
        if all.is_empty() {
            all.push_back(here.clone());
        }
        for frame in all {
            if to.write_all(&frame).and_then(|()| to.flush()).is_err() {
                return;
            }
        }
    }
}

/// Where `egret` is on the other machines.
pub(super) fn egret_of(job: &Job) -> Result<PathBuf> {
    let own = own_program();
    match &job.options.egret {
        Some(path) => Ok(path.clone()),
        None if own.starts_with("/proc") => {
            bail!(
                "the file of this egret is gone: --egret PATH says where it is on the other machines"
            )
        }
        None => Ok(own),
    }
}

/// The arguments of `egret` on another machine.
pub(super) fn outpost_args(job: &str, number: usize) -> [String; 3] {
    ["run-outpost".to_owned(), format!("--job={job}"), format!("--outpost={number}")]
}

fn set(moment: &Mutex<Instant>, now: Instant) {
    *moment.lock().unwrap_or_else(PoisonError::into_inner) = now;
}

/// Reads what an outpost says to its end.
fn hear(from: ChildStdout, mut said: impl FnMut(Frame<OutpostReport>) -> Result<()>) -> Result<()> {
    let mut from = BufReader::with_capacity(READ_AHEAD, from);
    let mut greeting = [0; GREETING.len()];
    let mut come = 0;
    while come < greeting.len() {
        match from.read(&mut greeting[come..])? {
            0 if come == 0 => return Ok(()),
            0 => break,
            more => come += more,
        }
    }
    if greeting != *GREETING {
        let said = String::from_utf8_lossy(&greeting[..come]).into_owned();
        bail!(
            "it began with {said:?} instead of the greeting of an outpost; does a start file of the shell print something there?"
        );
    }
    while let Some(frame) = Frame::read(&mut from, REPORT_MAX)? {
        said(frame)?;
    }
    Ok(())
}

/// Passes on what the processes of an outpost write, to where it is made lines, and tells the outpost how much that was.
fn pass_on(
    pieces: &Receiver<OutputPiece>,
    orders: &Inbox<Zeroizing<Vec<u8>>>,
    untaken: &AtomicUsize,
) {
    let mut streams = BTreeMap::new();
    let order = |order: &OutpostOrder| {
        if let Ok(frame) = Frame::said(order) {
            orders.put(frame);
        }
    };
    for piece in pieces {
        match piece {
            OutputPiece::Streams(all) => streams = all,
            OutputPiece::Bytes(number, bytes) => {
                let written =
                    streams.get_mut(&number).map(|stream: &mut File| stream.write_all(&bytes));
                if matches!(written, Some(Err(_))) {
                    // Its reader is gone.
                    streams.remove(&number);
                    order(&OutpostOrder::Unread(number));
                }
                untaken.fetch_sub(bytes.len(), Ordering::Relaxed);
                order(&OutpostOrder::Taken(u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
            }
            OutputPiece::End => return,
        }
    }
}

/// Time for another machine to answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// Time for an outpost to stop its processes.
const STOPPED_WITHIN: Duration = Duration::from_secs(1);
const READ_AHEAD: usize = 128 << 10;
/// Bytes of one report: thousands of processes that end at once.
const REPORT_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::run::fault::caught;

    /// An outpost with ranks 2 and 3, reached by a process that does nothing.
    fn outposts() -> Outposts {
        let process = Command::new("sleep").arg("60").spawn().unwrap();
        let outpost = RemoteOutpost {
            host: "beta".to_owned(),
            ranks: 2..4,
            running: BTreeSet::from([2, 3]),
            process,
            orders: Inbox::new().unwrap(),
            hello: None,
            heard: Arc::new(Mutex::new(rt::now())),
            state: OutpostState::Running,
            is_stopped: false,
            ended: None,
            has_said_all: false,
            is_written: false,
            output: channel().0,
            input: None,
        };
        let (inbox, transport) = (Inbox::new().unwrap(), Transport::of("ssh"));
        Outposts { outposts: vec![outpost], inbox, transport, news: Vec::new() }
    }

    /// What is made of it if the outpost says this.
    fn heard(said: Vec<OutpostSaid>) -> (Vec<OutpostNews>, OutpostState) {
        let mut outposts = outposts();
        said.into_iter().for_each(|said| outposts.inbox.put((0, said)));
        let news = outposts.news();
        let mut outpost = outposts.outposts.pop().unwrap();
        let _ = outpost.process.kill();
        let _ = outpost.process.wait();
        (news, outpost.state)
    }

    fn report(ended: &[(u32, Status)]) -> OutpostSaid {
        OutpostSaid::Report(OutpostReport::Exited(ended.to_vec()))
    }

    fn lost() -> OutpostNews {
        OutpostNews::Exited(vec![(2, Status::Lost), (3, Status::Lost)])
    }

    /// Processes that run at an outpost are lost with it.
    fn a_lost_outpost_loses_its_processes() {
        let (news, state) = heard(vec![OutpostSaid::Ends(None)]);
        assert_eq!((news.last(), state), (Some(&lost()), OutpostState::Lost), "{news:?}");
        let told = "host beta is lost: the connection with it has ended";
        assert_eq!(news.first(), Some(&OutpostNews::Tell(told.to_owned())));
        // It forgets rank 3.
        let alone = OutpostSaid::Report(OutpostReport::Alone);
        let (news, state) = heard(vec![report(&[(2, Status::Code(0))]), alone]);
        let rest = OutpostNews::Exited(vec![(3, Status::Lost)]);
        assert_eq!((news.last(), state), (Some(&rest), OutpostState::Lost));
    }

    /// An outpost reports its own processes, each once.
    fn an_outpost_reports_its_own_processes() {
        let ended = [(0, Status::Code(1)), (3, Status::Code(0)), (7, Status::Signal(9))];
        let (news, _) = heard(vec![report(&ended), report(&[(3, Status::Code(5))])]);
        let own = OutpostNews::Exited(vec![(3, Status::Code(0))]);
        assert_eq!(news, [own, OutpostNews::Exited(Vec::new())]);
    }

    /// An outpost of which nothing is heard is lost.
    fn silence_is_a_loss() {
        let mut outposts = outposts();
        assert_eq!(outposts.news(), []);
        let news = outposts.news_at(rt::now() + LOST_AFTER + SAY_EVERY);
        let process = &mut outposts.outposts[0].process;
        let _ = process.kill().and_then(|()| process.wait());
        assert_eq!(news.last(), Some(&lost()));
    }

    #[test]
    fn what_an_outpost_says_or_does_not_say_is_believed_as_far_as_it_can_be_true() {
        a_lost_outpost_loses_its_processes();
        an_outpost_reports_its_own_processes();
        silence_is_a_loss();
    }

    #[test]
    fn planted_faults_are_caught() {
        assert!(caught(Fault::LossUntold, a_lost_outpost_loses_its_processes));
        assert!(caught(Fault::ForeignRanks, an_outpost_reports_its_own_processes));
        assert!(caught(Fault::SilenceForgiven, silence_is_a_loss));
    }
}
