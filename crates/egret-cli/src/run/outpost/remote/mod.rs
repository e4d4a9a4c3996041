//! The outposts of a job, as its launcher sees them.

mod conveyors;
mod outpost;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use egret::rt::{self, Instant};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};

use self::conveyors::OutpostSaid;
use self::outpost::{OutpostState, RemoteOutpost};
use super::order::{OutpostJob, OutpostOrder};
use super::transport::egret_there;
use super::{JobPlace, LOST_AFTER, SAY_EVERY, Transport};
use crate::run::args::Job;
use crate::run::environment::Environment;
use crate::run::fault::{Fault, planted};
use crate::run::inbox::Inbox;
use crate::run::output::JobStream;
use crate::run::program;
use crate::run::status::Status;
use crate::system::{own_program, wait_for};

/// The other machines of a job; there may be none.
#[derive(Debug)]
pub(crate) struct Outposts {
    outposts: Vec<RemoteOutpost>,
    inbox: Inbox<(usize, OutpostSaid)>,
    transport: Transport,
    /// The name of the job.
    job: String,
    /// The program that they are sent, if it is copied.
    program: Option<Arc<File>>,
    /// What has happened, and was not asked for yet.
    news: Vec<OutpostNews>,
}

/// What has happened at an outpost.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OutpostNews {
    /// The outpost with this number may begin.
    Reached(usize),
    /// The processes of this outpost run.
    Started(usize),
    /// No process of this outpost runs, or will.
    Failed(FailedOutpost),
    /// These processes have ended.
    Exited(Vec<(u32, Status)>),
    /// People are to know.
    Tell(String),
}

/// An outpost that has not started its processes, and does not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FailedOutpost {
    pub(crate) outpost: usize,
    pub(crate) why: String,
    /// Whether it was told to begin: then its processes may have run for a while.
    pub(crate) has_begun: bool,
    /// As what its processes count if the job needs them.
    pub(crate) ended: Vec<(u32, Status)>,
}

/// What was called: outposts by their numbers, with their ranks, and why others were not.
pub(crate) type CalledOutposts = (Vec<(usize, Range<u32>)>, Vec<String>);

impl Outposts {
    /// Starts an outpost for each of the places on other machines, and waits until all are there; `is_wanted` says whether the
    /// job still is to begin.
    pub(crate) fn connect(
        job: &Job,
        name: &str,
        places: &[JobPlace],
        is_wanted: impl Fn() -> bool,
    ) -> Result<Self> {
        let (inbox, transport) = (Inbox::new()?, job.options.transport());
        let (job_name, program) = (name.to_owned(), copied(job)?.map(Arc::new));
        let (outposts, news) = (Vec::new(), Vec::new());
        let mut outposts = Self { outposts, inbox, transport, job: job_name, program, news };
        let (_, failed) = outposts.call(job, places);
        if let Some(why) = failed.into_iter().next() {
            bail!(why);
        }
        while outposts.outposts.iter().any(|outpost| outpost.state == OutpostState::Called) {
            if !is_wanted() {
                bail!("the job was ended before it began");
            }
            wait_for(&mut [PollFd::new(&outposts.inbox, PollFlags::IN)], Some(SAY_EVERY));
            for news in outposts.news() {
                if let OutpostNews::Failed(FailedOutpost { why, .. }) = news {
                    bail!(why);
                }
            }
        }
        Ok(outposts)
    }

    /// Starts an outpost for each of the places on other machines: [`news`](Self::news) has how that goes.
    pub(crate) fn call(&mut self, job: &Job, places: &[JobPlace]) -> CalledOutposts {
        let (mut called, mut failed) = (Vec::new(), Vec::new());
        for JobPlace { host, ranks } in places {
            let Some(host) = host else { continue };
            match self.call_one(job, host, ranks.clone()) {
                Ok(outpost) => called.push((outpost, ranks.clone())),
                Err(why) => failed.push(format!("host {host} was not reached: {why:#}")),
            }
        }
        (called, failed)
    }

    fn call_one(&mut self, job: &Job, host: &str, ranks: Range<u32>) -> Result<usize> {
        let at = self.outposts.len();
        let args = outpost_args(&self.job, at);
        let process = self.transport.start(host, &egret_of(job)?, &args)?;
        self.outposts.push(RemoteOutpost::new(host, ranks, process)?);
        let outpost = &mut self.outposts[at];
        if let Err(why) = outpost.convey(at, &self.inbox) {
            outpost.abandon();
            return Err(why);
        }
        Ok(at)
    }

    /// The address of this machine that the outposts see, if all see the same.
    pub(crate) fn launcher_address(&self) -> Option<String> {
        let mut seen = self.outposts.iter().map(|outpost| outpost.hello.as_ref()?.launcher.clone());
        let first = seen.next()??;
        seen.all(|address| address.as_ref() == Some(&first)).then_some(first)
    }

    /// Starts the processes at all outposts that are reached; their output.
    pub(crate) fn begin_all(
        &mut self,
        job: &Job,
        environment: &Environment,
    ) -> Result<Vec<JobStream>> {
        let mut all = Vec::new();
        for at in 0..self.outposts.len() {
            all.extend(self.begin(at, job, environment)?);
        }
        Ok(all)
    }

    /// Starts the processes at this outpost, if it is reached; their output.
    pub(crate) fn begin(
        &mut self,
        at: usize,
        job: &Job,
        environment: &Environment,
    ) -> Result<Vec<JobStream>> {
        let host = &self.outposts[at].host;
        let had = self.outposts.iter().filter(|other| other.has_begun() && other.host == *host);
        let local = had.map(|other| other.ranks.len()).sum::<usize>();
        let outpost = &mut self.outposts[at];
        if outpost.state != OutpostState::Reached {
            return Ok(Vec::new());
        }
        let directory = std::env::current_dir().context("finding the working directory")?;
        let args: Vec<OsString> = job.clone().resolved().to_args();
        let variables = environment.along().into_iter();
        let order = OutpostJob {
            args: args.iter().map(|arg| arg.as_os_str().into()).collect(),
            ranks: outpost.ranks.clone(),
            local: u32::try_from(local)?,
            is_copied: self.program.is_some(),
            pool: environment.pool.clone(),
            registry: environment.registry.clone(),
            secret: environment.secret.clone(),
            directory: directory.as_os_str().into(),
            is_egret: Path::new(&job.program) == own_program(),
            variables: variables
                .map(|(name, value)| (name.as_os_str().into(), value.as_os_str().into()))
                .collect(),
        };
        outpost.begin(order, self.program.as_ref())
    }

    /// An outpost that has not started its processes is not to.
    pub(crate) fn fail(&mut self, at: usize, why: &str) {
        self.outposts[at].fail(at, why, Status::Lost, &mut self.news);
    }

    /// What has happened since this was asked last.
    pub(crate) fn news(&mut self) -> Vec<OutpostNews> {
        self.news_at(rt::now())
    }

    fn news_at(&mut self, now: Instant) -> Vec<OutpostNews> {
        self.hear_all();
        for (at, outpost) in self.outposts.iter_mut().enumerate() {
            if outpost.state == OutpostState::Called {
                if now - outpost.called > CONNECT_WITHIN {
                    let why = format!("did not answer in {CONNECT_WITHIN:?}");
                    outpost.fail(at, &why, Status::Lost, &mut self.news);
                }
                continue;
            }
            let heard = *outpost.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let silent = match planted(Fault::SilenceForgiven) {
                true => Duration::ZERO,
                false => now - heard,
            };
            if outpost.state != OutpostState::Lost && !outpost.has_said_all && silent > LOST_AFTER {
                let why = format!("nothing was heard of it for {} s", silent.as_secs());
                outpost.lose(at, &why, &mut self.news);
            }
        }
        std::mem::take(&mut self.news)
    }

    fn hear_all(&mut self) {
        for (at, said) in self.inbox.take() {
            self.outposts[at].hear((at, said), &self.transport, &mut self.news);
        }
    }

    /// When [`news`](Self::news) is to be asked for, even if nothing has come.
    pub(crate) fn look_within(&self) -> Option<Duration> {
        match (self.news.is_empty(), self.outposts.is_empty()) {
            (false, _) => Some(Duration::ZERO),
            (true, false) => Some(SAY_EVERY),
            (true, true) => None,
        }
    }

    /// Waits until all have stopped their processes: they do not miss this one then, which is about to be stopped.
    pub(crate) fn wait_stopped(&mut self) {
        let until = rt::now() + STOPPED_WITHIN;
        let obeys = [OutpostState::Beginning, OutpostState::Running];
        let is_awaited =
            |outpost: &RemoteOutpost| obeys.contains(&outpost.state) && !outpost.is_stopped;
        while self.outposts.iter().any(is_awaited) && rt::now() < until {
            wait_for(&mut [PollFd::new(&self.inbox, PollFlags::IN)], Some(until - rt::now()));
            self.hear_all();
        }
    }

    /// The time since an outpost was heard does not count: this process was stopped.
    pub(crate) fn continue_now(&mut self) {
        for outpost in &mut self.outposts {
            outpost.hear_now();
            outpost.called = rt::now();
            outpost.is_stopped = false;
        }
    }

    /// What connects with an outpost has ended, if it is that process.
    pub(crate) fn ended(&mut self, pid: Pid, status: Status) {
        // Behind its end the number may be given to what connects with another.
        let is_it = |outpost: &&mut RemoteOutpost| {
            outpost.ended.is_none() && Pid::from_child(&outpost.process) == pid
        };
        if let Some(outpost) = self.outposts.iter_mut().find(is_it) {
            outpost.ended = Some(status);
        }
    }

    pub(crate) fn pass(&mut self, signal: Signal) {
        for outpost in &mut self.outposts {
            // What it has said of a stop before was of that one.
            outpost.is_stopped = false;
            _ = outpost.order(&OutpostOrder::Pass(signal.as_raw()));
        }
    }

    /// Gives it to every process of the job there. An outpost that was not told to begin does not begin any more, and one
    /// that is beginning is cut off by KILL: the order may wait behind the program that is being copied.
    pub(crate) fn end(&mut self, signal: Signal, spare: Option<u32>) {
        let order = OutpostOrder::End { signal: signal.as_raw(), spare };
        for (at, outpost) in self.outposts.iter_mut().enumerate() {
            _ = outpost.order(&order);
            if !outpost.has_begun() || signal == Signal::KILL {
                // That is what its processes were told, and no failure of their own.
                let status = Status::Signal(Signal::TERM.as_raw());
                outpost.fail(at, "was told to end before it began", status, &mut self.news);
            }
        }
    }

    /// Nothing is waited for any more: what has not ended is lost.
    pub(crate) fn give_up(&mut self) {
        for (at, outpost) in self.outposts.iter_mut().enumerate() {
            if !matches!(outpost.state, OutpostState::Alone | OutpostState::Lost) {
                outpost.lose(at, "it has not ended in time", &mut self.news);
            }
        }
    }

    pub(crate) fn end_one(&self, rank: u32, signal: Signal) {
        let order = OutpostOrder::EndOne { rank, signal: signal.as_raw() };
        let its = self.outposts.iter().find(|outpost| outpost.has_rank(rank));
        its.iter().for_each(|outpost| _ = outpost.order(&order));
    }

    /// Whether no process of the job is left at any of them, as far as can be known.
    pub(crate) fn are_alone(&self) -> bool {
        let over = [OutpostState::Alone, OutpostState::Lost];
        self.outposts.iter().all(|outpost| over.contains(&outpost.state) || !outpost.has_begun())
    }

    /// Whether all output of all has been passed on.
    pub(crate) fn are_written(&self) -> bool {
        self.outposts.iter().all(|outpost| outpost.is_written || !outpost.has_begun())
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

/// The program of the job, if it is to be sent to the other machines.
fn copied(job: &Job) -> Result<Option<File>> {
    if !job.options.copy || Path::new(&job.program) == own_program() {
        return Ok(None);
    }
    let path = program::path(job)?;
    let file = File::open(&path);
    file.map(Some).with_context(|| format!("opening `{}` to copy it (--copy)", path.display()))
}

/// Where `egret` is on the other machines.
pub(super) fn egret_of(job: &Job) -> Result<PathBuf> {
    egret_there(job.options.egret.as_deref())
}

/// The arguments of `egret` on another machine.
pub(super) fn outpost_args(job: &str, number: usize) -> [String; 3] {
    ["run-outpost".to_owned(), format!("--job={job}"), format!("--outpost={number}")]
}

/// Time for another machine to answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// Time for an outpost to stop its processes.
const STOPPED_WITHIN: Duration = Duration::from_secs(1);
