//! The sites of a job, as its launcher sees them.

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
    GREETING, INPUT, INPUT_WINDOW, PROTOCOL, SiteHello, SiteJob, SiteOrder, SiteReport, WINDOW,
    stream_of,
};
use super::{JobPlace, LOST_AFTER, SAY_EVERY, Transport};
use crate::run::args::Job;
use crate::run::environment::Environment;
use crate::run::output::JobStream;
use crate::run::status::Status;
use crate::system::{own_program, wait_for};

/// The other machines of a job; there may be none.
#[derive(Debug)]
pub(crate) struct Sites {
    sites: Vec<RemoteSite>,
    inbox: Inbox<(usize, SiteSaid)>,
    transport: Transport,
    /// What has happened, and was not asked for yet.
    news: Vec<SiteNews>,
}

/// Another machine of a job.
#[derive(Debug)]
pub(crate) struct RemoteSite {
    host: String,
    ranks: Range<u32>,
    /// The ranks that run.
    running: BTreeSet<u32>,
    /// What connects with it.
    process: Child,
    orders: Inbox<Zeroizing<Vec<u8>>>,
    hello: Option<SiteHello>,
    /// When something was heard of it last.
    heard: Arc<Mutex<Instant>>,
    state: SiteState,
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
enum SiteState {
    Running,
    /// No process of the job is left there.
    Alone,
    Lost,
}

/// What the threads of a site have for the launcher.
#[derive(Debug)]
enum SiteSaid {
    Report(SiteReport),
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

/// What has happened at a site.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SiteNews {
    /// These processes have ended.
    Exited(Vec<(u32, Status)>),
    /// People are to know.
    Tell(String),
}

impl Sites {
    /// Starts a site for each of the places on other machines, and waits until all are there; `is_wanted` says whether the
    /// job still is to begin.
    pub(crate) fn connect(
        job: &Job,
        name: &str,
        places: &[JobPlace],
        is_wanted: impl Fn() -> bool,
    ) -> Result<Self> {
        let transport = job.options.transport();
        let inbox = Inbox::new()?;
        let mut sites = Self { sites: Vec::new(), inbox, transport, news: Vec::new() };
        if places.iter().all(|place| place.host.is_none()) {
            return Ok(sites);
        }
        let egret = egret_of(job)?;
        for place in places {
            let Some(host) = &place.host else { continue };
            let number = sites.sites.len();
            let site = site_args(name, number);
            let process = sites.transport.start(host, &egret, &site)?;
            sites.add(host, place.ranks.clone(), process)?;
        }
        let until = rt::now() + CONNECT_WITHIN;
        while let Some(site) = sites.sites.iter().find(|site| site.hello.is_none()) {
            if !is_wanted() {
                bail!("the job was ended before it began");
            }
            if rt::now() > until {
                bail!("host {} did not answer in {CONNECT_WITHIN:?}", site.host);
            }
            wait_for(&mut [PollFd::new(&sites.inbox, PollFlags::IN)], Some(SAY_EVERY));
            for (at, said) in sites.inbox.take() {
                sites.hear_first(at, said)?;
            }
        }
        Ok(sites)
    }

    fn add(&mut self, host: &str, ranks: Range<u32>, mut process: Child) -> Result<()> {
        let (at, inbox) = (self.sites.len(), self.inbox.clone());
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
        rt::spawn("site", move || {
            let why = hear(stdout, |said| {
                set(&hears, rt::now());
                match said {
                    Frame::Said(report) => inbox.put((at, SiteSaid::Report(report))),
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
            inbox.put((at, SiteSaid::Ends(why.err().map(|why| format!("{why:#}")))));
        })?;
        let (back, inbox) = (orders.clone(), self.inbox.clone());
        rt::spawn("site output", move || {
            pass_on(&pieces, &back, &untaken);
            inbox.put((at, SiteSaid::Written));
        })?;
        self.sites.push(RemoteSite {
            host: host.to_owned(),
            running: BTreeSet::new(),
            ranks,
            process,
            orders,
            hello: None,
            heard,
            state: SiteState::Running,
            is_stopped: false,
            ended: None,
            has_said_all: false,
            is_written: false,
            output,
            input: None,
        });
        Ok(())
    }

    /// What a site says before the job begins.
    fn hear_first(&mut self, at: usize, said: SiteSaid) -> Result<()> {
        let (site, name) = (&mut self.sites[at], self.transport.name());
        match said {
            SiteSaid::Report(SiteReport::Hello(hello)) if hello.protocol != PROTOCOL => bail!(
                "host {} has egret {} with job protocol {}, and this is egret {} with {PROTOCOL}: install the same there, or \
                 name another with --egret",
                site.host,
                hello.version,
                hello.protocol,
                env!("CARGO_PKG_VERSION"),
            ),
            SiteSaid::Report(SiteReport::Hello(hello)) => site.hello = Some(hello),
            SiteSaid::Ends(why) if site.hello.is_some() => {
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                bail!("host {} was lost before the job began: {name} has ended{why}", site.host)
            }
            SiteSaid::Ends(why) => {
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                bail!(
                    "host {} was not reached: {name} ended before `egret run-site` said anything{why}; is egret at the same place \
                     there (else --egret PATH), and does `{name} {} true` work?",
                    site.host,
                    site.host
                )
            }
            SiteSaid::Report(_) | SiteSaid::Written => {}
        }
        Ok(())
    }

    /// The address of this machine that the sites see, if all see the same.
    pub(crate) fn launcher_address(&self) -> Option<String> {
        let mut seen = self.sites.iter().map(|site| site.hello.as_ref()?.launcher.clone());
        let first = seen.next()??;
        seen.all(|address| address.as_ref() == Some(&first)).then_some(first)
    }

    /// Starts the processes; their output.
    pub(crate) fn begin(&mut self, job: &Job, environment: &Environment) -> Result<Vec<JobStream>> {
        let args: Vec<OsString> = job.clone().resolved().to_args();
        let directory = std::env::current_dir().context("finding the working directory")?;
        let variables = environment.along();
        let mut all = Vec::new();
        for site in &mut self.sites {
            let order = SiteJob {
                args: args.iter().map(|arg| arg.as_os_str().into()).collect(),
                ranks: site.ranks.clone(),
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
                site.ranks.clone().flat_map(|rank| [(rank, false), (rank, true)])
            {
                let (from, to) =
                    pipe_with(PipeFlags::CLOEXEC).context("making a pipe for output")?;
                ioctl_fionbio(&from, true)?;
                ends.insert(stream_of(rank, is_error), File::from(to));
                all.push(JobStream { rank, is_error, from });
            }
            let _ = site.output.send(OutputPiece::Streams(ends));
            site.running = site.ranks.clone().collect();
            site.order(&SiteOrder::Begin(Box::new(order)))?;
            if site.ranks.contains(&0) {
                site.give_input()?;
            }
        }
        Ok(all)
    }

    /// What has happened since this was asked last.
    pub(crate) fn news(&mut self) -> Vec<SiteNews> {
        self.hear_all();
        for site in &mut self.sites {
            let silent = rt::now() - *site.heard.lock().unwrap_or_else(PoisonError::into_inner);
            if site.state != SiteState::Lost && !site.has_said_all && silent > LOST_AFTER {
                let why = format!("nothing was heard of it for {} s", silent.as_secs());
                site.lose(&why, &mut self.news);
            }
        }
        std::mem::take(&mut self.news)
    }

    fn hear_all(&mut self) {
        for (at, said) in self.inbox.take() {
            self.sites[at].hear(said, &self.transport, &mut self.news);
        }
    }

    /// When [`news`](Self::news) is to be asked for, even if nothing has come.
    pub(crate) fn look_within(&self) -> Option<Duration> {
        (!self.sites.is_empty()).then_some(SAY_EVERY)
    }

    /// Waits until all have stopped their processes: they do not miss this one then, which is about to be stopped.
    pub(crate) fn wait_stopped(&mut self) {
        let until = rt::now() + STOPPED_WITHIN;
        let is_awaited = |site: &RemoteSite| site.state == SiteState::Running && !site.is_stopped;
        while self.sites.iter().any(is_awaited) && rt::now() < until {
            wait_for(&mut [PollFd::new(&self.inbox, PollFlags::IN)], Some(until - rt::now()));
            self.hear_all();
        }
    }

    /// The time since a site was heard does not count: this process was stopped.
    pub(crate) fn continue_now(&mut self) {
        for site in &mut self.sites {
            set(&site.heard, rt::now());
            site.is_stopped = false;
        }
    }

    /// What connects with a site has ended, if it is that process.
    pub(crate) fn ended(&mut self, pid: Pid, status: Status) {
        let site = self.sites.iter_mut().find(|site| Pid::from_child(&site.process) == pid);
        if let Some(site) = site {
            site.ended = Some(status);
        }
    }

    pub(crate) fn pass(&self, signal: Signal) {
        self.sites.iter().for_each(|site| _ = site.order(&SiteOrder::Pass(signal.as_raw())));
    }

    pub(crate) fn end(&self, signal: Signal, spare: Option<u32>) {
        let order = SiteOrder::End { signal: signal.as_raw(), spare };
        self.sites.iter().for_each(|site| _ = site.order(&order));
    }

    /// Whether no process of the job is left at any of them, as far as can be known.
    pub(crate) fn are_alone(&self) -> bool {
        self.sites.iter().all(|site| site.state != SiteState::Running)
    }

    /// Whether all output of all has been passed on.
    pub(crate) fn are_written(&self) -> bool {
        self.sites.iter().all(|site| site.is_written)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// The processes that connect with them.
    pub(crate) fn processes(&self) -> impl Iterator<Item = Pid> {
        self.sites
            .iter()
            .filter(|site| site.ended.is_none())
            .map(|site| Pid::from_child(&site.process))
    }
}

impl AsFd for Sites {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inbox.as_fd()
    }
}

impl RemoteSite {
    fn order(&self, order: &SiteOrder) -> Result<()> {
        // A thread that has ended gives no orders any more: the site is lost, or has no use for them.
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

    fn hear(&mut self, said: SiteSaid, transport: &Transport, news: &mut Vec<SiteNews>) {
        match said {
            SiteSaid::Report(SiteReport::Exited(ended)) => {
                let ended: Vec<_> =
                    ended.into_iter().filter(|(rank, _)| self.running.remove(rank)).collect();
                news.push(SiteNews::Exited(ended));
            }
            SiteSaid::Report(SiteReport::Refused { why, code }) => {
                news.push(SiteNews::Tell(format!("host {}: {why}", self.host)));
                let ended = std::mem::take(&mut self.running).into_iter();
                news.push(SiteNews::Exited(ended.map(|rank| (rank, Status::Code(code))).collect()));
                self.alone();
            }
            SiteSaid::Report(SiteReport::Alone) if self.running.is_empty() => self.alone(),
            SiteSaid::Report(SiteReport::Alone) => {
                self.lose("it forgets processes that it has started", news);
            }
            SiteSaid::Report(SiteReport::OutputEnds) => self.has_said_all = true,
            SiteSaid::Report(SiteReport::Stopped) => self.is_stopped = true,
            SiteSaid::Ends(why) if self.state == SiteState::Running => {
                let name = transport.name();
                let how = self.ended.map_or_else(String::new, |how| format!(", {name} {how}"));
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                self.lose(&format!("the connection with it has ended{why}{how}"), news);
            }
            SiteSaid::Ends(_) if self.state == SiteState::Alone && !self.has_said_all => {
                let what = format!("host {}: the end of what was written there is lost", self.host);
                news.push(SiteNews::Tell(what));
            }
            SiteSaid::Written => self.is_written = true,
            SiteSaid::Report(SiteReport::InputTaken(bytes)) => {
                let _ = self.input.as_ref().map(|taken| taken.send(bytes));
            }
            SiteSaid::Report(SiteReport::InputUnread) => self.input = None,
            SiteSaid::Report(_) | SiteSaid::Ends(_) => {}
        }
    }

    fn alone(&mut self) {
        self.state = SiteState::Alone;
        let _ = self.order(&SiteOrder::Finish);
    }

    fn lose(&mut self, why: &str, news: &mut Vec<SiteNews>) {
        self.state = SiteState::Lost;
        if self.ended.is_none() {
            let _ = self.process.kill();
        }
        // Whatever else has the end of its pipe open: no more output is waited for.
        let _ = self.output.send(OutputPiece::End);
        let ended: Vec<_> = std::mem::take(&mut self.running)
            .into_iter()
            .map(|rank| (rank, Status::Lost))
            .collect();
        news.push(SiteNews::Tell(format!("host {} is lost: {why}", self.host)));
        news.push(SiteNews::Exited(ended));
    }
}

/// Writes orders to a site until it does not read them any more, and says between them that the launcher is there.
fn give_orders(mut to: ChildStdin, orders: &Inbox<Zeroizing<Vec<u8>>>) {
    let Ok(here) = Frame::said(&SiteOrder::Here) else { return };
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
pub(super) fn site_args(job: &str, number: usize) -> [String; 3] {
    ["run-site".to_owned(), format!("--job={job}"), format!("--site={number}")]
}

fn set(moment: &Mutex<Instant>, now: Instant) {
    *moment.lock().unwrap_or_else(PoisonError::into_inner) = now;
}

/// Reads what a site says to its end.
fn hear(from: ChildStdout, mut said: impl FnMut(Frame<SiteReport>) -> Result<()>) -> Result<()> {
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
            "it began with {said:?} instead of the greeting of a site; does a start file of the shell print something there?"
        );
    }
    while let Some(frame) = Frame::read(&mut from, REPORT_MAX)? {
        said(frame)?;
    }
    Ok(())
}

/// Passes on what the processes of a site write, to where it is made lines, and tells the site how much that was.
fn pass_on(
    pieces: &Receiver<OutputPiece>,
    orders: &Inbox<Zeroizing<Vec<u8>>>,
    untaken: &AtomicUsize,
) {
    let mut streams = BTreeMap::new();
    let order = |order: &SiteOrder| {
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
                    order(&SiteOrder::Unread(number));
                }
                untaken.fetch_sub(bytes.len(), Ordering::Relaxed);
                order(&SiteOrder::Taken(u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
            }
            OutputPiece::End => return,
        }
    }
}

/// Time for another machine to answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// Time for a site to stop its processes.
const STOPPED_WITHIN: Duration = Duration::from_secs(1);
const READ_AHEAD: usize = 128 << 10;
/// Bytes of one report: thousands of processes that end at once.
const REPORT_MAX: usize = 1 << 20;
