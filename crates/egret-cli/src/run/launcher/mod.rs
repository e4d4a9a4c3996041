//! Starts the processes of a job, and sees it to its end.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::net::{IpAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use egret::node::{self, Events};
use egret::rt;
use rustix::event::{PollFd, PollFlags};
use rustix::io::ioctl_fionbio;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getppid, getrlimit, kill_process,
    set_parent_process_death_signal, setrlimit, setsid,
};

mod changes;

use self::changes::JobChanges;
use super::args::{Bind, Job, RunArgs};
use super::change::{self, ChangeDesk};
use super::descendants::{self, Reaped, Strangers};
use super::environment::{self, Environment, RankPlace};
use super::job_registry::JobRegistry;
use super::outpost::{OutpostNews, Outposts};
use super::output::{JobStream, Output};
use super::ranks::Ranks;
use super::signals::{self, Signals};
use super::status::{Status, signalled};
use super::supervise::{Action, Supervisor, SupervisorEvent};
use super::{child, cores, terminal};
use crate::monitor::{self, MonitorKind};
use crate::system::{own_program, wait_for};

/// The process of `egret run` that starts the others.
#[derive(Debug, clap::Args)]
pub(crate) struct LauncherArgs {
    #[arg(long)]
    guard: i32,
    #[arg(long)]
    job: String,
    #[command(flatten)]
    args: RunArgs,
}

/// The arguments that make an `egret` do this, before those of the job.
pub(crate) fn to_args(guard: i32, job: &str) -> Vec<OsString> {
    vec!["run-launcher".into(), format!("--guard={guard}").into(), format!("--job={job}").into()]
}

/// Runs the job; the exit code is the job's.
pub(crate) fn serve(args: LauncherArgs) -> Result<ExitCode> {
    let signals = Signals::block()?;
    setsid().context("beginning a session; this is started by `egret run`, not by hand")?;
    descendants::adopt()?;
    // Wakes this process even if it is stopped; that the guard is gone it sees for itself.
    set_parent_process_death_signal(Some(Signal::CONT)).context("asking about the guard")?;
    let job = args.args.into_job()?;
    let mark = environment::mark(&args.job);
    let places = job.places()?;
    let files = raise_files(u64::from(job.processes.get()) * FILES_EACH);
    let (asked, early) = (Cell::new(None), RefCell::new(Vec::new()));
    let is_wanted = || {
        early.borrow_mut().extend(told(&signals));
        let ending = || early.borrow().iter().copied().find(|signal| signals::ends(*signal));
        asked.set(asked.get().or_else(ending));
        !is_gone(args.guard) && asked.get().is_none()
    };
    let mut outposts = match (Outposts::connect(&job, &args.job, &places, is_wanted), asked.get()) {
        (Err(_), Some(signal)) => return Ok(ExitCode::from(signalled(signal.as_raw()))),
        (outposts, _) => outposts?,
    };
    let mut environment = Environment::new(args.job);
    environment.listen = outposts.launcher_address().filter(|address| is_own(address));
    let registry = JobRegistry::open(&job, &mut environment, !outposts.is_empty())?;
    // If one cannot be started, the guard ends those that were.
    let mut streams = outposts.begin_all(&job, &environment)?;
    let here = places.into_iter().find(|place| place.host.is_none());
    let ranks = here.map_or(0..0, |place| place.ranks);
    let plan = StartPlan { ranks, local: 0, stdin: Stdio::inherit(), files, file: None };
    let StartedProcesses { ranks, streams: own, .. } = start(&job, &environment, plan)?;
    streams.extend(own);
    let takes_changes = job.options.open && matches!(registry, JobRegistry::Own(_));
    let desk = takes_changes.then(ChangeDesk::new).transpose()?;
    let _guest = be_found(&registry, &environment, desk.clone());
    let options = job.options.clone();
    let (is_open, processes) = (options.open, job.processes.get());
    // If no process can come any more the last copy of the secret's text in this process goes.
    let changes = desk.map(|desk| JobChanges::new(desk, job, environment, files));
    terminal::leave_stdin();
    let launcher = Launcher {
        guard: args.guard,
        signals,
        ranks,
        outposts,
        output: Output::start(streams, options.tag_output)?,
        supervisor: Supervisor::new(
            processes,
            options.timeout,
            (options.on_death, options.grace),
            rt::now(),
        ),
        events: registry.events(),
        registry,
        is_open,
        early: early.into_inner(),
        changes,
    };
    let code = launcher.run();
    if is_gone(args.guard) {
        // No process is started after this one.
        descendants::end_all(&Strangers::default(), &mark);
    }
    Ok(ExitCode::from(code))
}

/// Lets `egret top` and changes of the job find this process, as long as the value lives.
fn be_found(
    registry: &JobRegistry,
    environment: &Environment,
    desk: Option<ChangeDesk>,
) -> Option<UnixDatagram> {
    let Environment { job, pool, .. } = environment;
    match registry {
        JobRegistry::Own(registry) => {
            monitor::start(
                registry,
                MonitorKind::Job,
                pool,
                desk.map(|desk| change::taker(job, desk)),
            );
            None
        }
        JobRegistry::Other(_) => monitor::note_guest(pool),
    }
}

/// Processes of a job on this machine.
pub(super) struct StartedProcesses {
    pub(super) ranks: Ranks,
    /// What they write.
    pub(super) streams: Vec<JobStream>,
    /// What rank 0 reads, if that is a pipe from this process.
    pub(super) input: Option<ChildStdin>,
}

/// Which processes are started on this machine, and how.
pub(super) struct StartPlan {
    pub(super) ranks: Range<u32>,
    /// How many were started here before.
    pub(super) local: u32,
    /// What rank 0 reads.
    pub(super) stdin: Stdio,
    /// The limit of open files that they are to have if theirs would be another.
    pub(super) files: Option<u64>,
    /// The file of the program, if that is another than its name says.
    pub(super) file: Option<PathBuf>,
}

/// Starts processes. This is the main thread, at whose end the kernel kills them. If one cannot be started, those before it
/// are killed.
pub(super) fn start(
    job: &Job,
    environment: &Environment,
    plan: StartPlan,
) -> Result<StartedProcesses> {
    let first = plan.ranks.start;
    let mut processes = Vec::new();
    let started = start_each(job, environment, plan, &mut processes);
    let ranks = Ranks::new(first, processes);
    match started {
        Ok((streams, input)) => Ok(StartedProcesses { ranks, streams, input }),
        Err(why) => {
            ranks.pass(Signal::KILL, None);
            Err(why)
        }
    }
}

fn start_each(
    job: &Job,
    environment: &Environment,
    StartPlan { ranks, local, stdin, files, file }: StartPlan,
    processes: &mut Vec<Pid>,
) -> Result<(Vec<JobStream>, Option<ChildStdin>)> {
    let cores = match job.options.bind_to {
        Bind::Core => cores::in_turn()?,
        Bind::None => Vec::new(),
    };
    let mut streams = Vec::new();
    let (mut stdin, mut input) = (Some(stdin), None);
    for (rank, local) in ranks.zip(local..) {
        let core = cores.iter().cycle().nth(local as usize).copied();
        let mut command = Command::new(own_program());
        command.args(child::to_args(getpid().as_raw_pid(), core, files, file.as_deref()));
        command.arg(&job.program).args(&job.args).process_group(0);
        command.stdin(stdin.take_if(|_| rank == 0).unwrap_or_else(Stdio::null));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let place = RankPlace { rank, local, core };
        let mut child = environment
            .start(&mut command, job, place)
            .with_context(|| format!("starting rank {rank}"))?;
        processes.push(Pid::from_child(&child));
        input = input.or(child.stdin.take());
        let out = child.stdout.take().map(|pipe| (OwnedFd::from(pipe), false));
        let err = child.stderr.take().map(|pipe| (OwnedFd::from(pipe), true));
        for (from, is_error) in out.into_iter().chain(err) {
            ioctl_fionbio(&from, true)?;
            streams.push(JobStream { rank, is_error, from });
        }
    }
    Ok((streams, input))
}

/// The signals that have come for the job.
fn told(signals: &Signals) -> impl Iterator<Item = Signal> {
    let told = std::iter::from_fn(|| signals.try_next());
    // What a terminal sent, this process got before it left its session, and the guard passes it on.
    told.filter(|told| !told.by_terminal && told.signal != Signal::CHILD).map(|told| told.signal)
}

/// The signals without those to stop that a later one to go on has undone: nobody would send that again.
fn without_undone_stops(signals: Vec<Signal>) -> Vec<Signal> {
    let goes_on = signals.iter().rposition(|signal| *signal == Signal::CONT);
    let undone = |at: usize| goes_on.is_some_and(|goes_on| at < goes_on);
    let all = signals.into_iter().enumerate();
    all.filter(|(at, signal)| *signal != Signal::TSTP || !undone(*at)).map(|(_, it)| it).collect()
}

/// Whether an address is one of this machine, so that it can be listened at.
pub(crate) fn is_own(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(|address| UdpSocket::bind((address, 0)).is_ok())
}

fn is_gone(guard: i32) -> bool {
    getppid().map(Pid::as_raw_pid) != Some(guard)
}

/// Makes room for so many descriptors, and some for all else; gives the limit that processes are to have if theirs would be
/// another.
pub(crate) fn raise_files(files: u64) -> Option<u64> {
    let limits = getrlimit(Resource::Nofile);
    let current = limits.current.filter(|current| *current < files + FILES)?;
    let raised = Rlimit { current: limits.maximum, ..limits };
    setrlimit(Resource::Nofile, raised).is_ok().then_some(current)
}

#[derive(Debug)]
struct Launcher {
    guard: i32,
    signals: Signals,
    /// The processes on this machine.
    ranks: Ranks,
    /// Those on others.
    outposts: Outposts,
    output: Output,
    supervisor: Supervisor,
    registry: JobRegistry,
    /// What the registry of this process knows, and the supervisor not yet.
    events: Option<Events>,
    /// Whether the ranks of nodes are not those of processes.
    is_open: bool,
    /// Signals that came before there were processes.
    early: Vec<Signal>,
    /// How processes are added and removed, if they can be.
    changes: Option<JobChanges>,
}

impl Launcher {
    fn run(mut self) -> u8 {
        loop {
            for event in self.news() {
                for action in self.supervisor.on(event, rt::now()) {
                    if let Some(code) = self.act(action) {
                        self.see_written();
                        self.registry.finish();
                        return code;
                    }
                }
            }
            let time = self.supervisor.wake_at().map(|at| at - rt::now());
            let early = (!self.early.is_empty()).then_some(Duration::ZERO);
            let time = time.into_iter().chain(self.outposts.look_within()).chain(early).min();
            let mut fds = vec![
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::new(&self.outposts, PollFlags::IN),
            ];
            let changes = self.changes.iter();
            fds.extend(changes.map(|changes| PollFd::new(&changes.desk, PollFlags::IN)));
            wait_for(&mut fds, time);
        }
    }

    /// What has happened.
    fn news(&mut self) -> Vec<SupervisorEvent> {
        self.early.extend(told(&self.signals));
        let told = without_undone_stops(std::mem::take(&mut self.early));
        let mut events: Vec<_> = told.into_iter().map(SupervisorEvent::Signal).collect();
        events.extend(self.take_changes());
        if self.is_guard_gone() {
            events.push(SupervisorEvent::GuardGone);
        }
        let mut ended = Vec::new();
        let mut reaped = descendants::reap();
        while let Reaped::Child(pid, status) = reaped {
            ended.extend(self.ranks.ended(pid).map(|rank| (rank, status)));
            self.outposts.ended(pid, status);
            reaped = descendants::reap();
        }
        for news in self.outposts.news() {
            match news {
                OutpostNews::Exited(there) => ended.extend(there),
                OutpostNews::Tell(what) => self.output.tell(&what),
                OutpostNews::Reached(outpost) => self.reached(outpost),
                OutpostNews::Started(outpost) => events.extend(self.started(outpost)),
                OutpostNews::Failed(failed) => ended.extend(self.not_started(failed)),
            }
        }
        while let Some(known) = self.events.as_mut().and_then(Events::try_next) {
            // The rank of a node of an open pool is not the number of its process.
            if let (false, node::Event::Died { node, .. }) = (self.is_open, known) {
                events.push(SupervisorEvent::Failed(node.rank));
            }
        }
        if !ended.is_empty() {
            let tell = |(rank, status): &(u32, Status)| {
                self.registry.ended(*rank, &format!("the process {status}"));
            };
            ended.iter().filter(|_| !self.is_open).for_each(tell);
            events.push(SupervisorEvent::Exited(ended));
        }
        if self.outposts.are_alone() && self.is_alone_here(reaped) {
            events.push(SupervisorEvent::Alone);
        }
        events.push(SupervisorEvent::Tick);
        events
    }

    /// Whether no process of the job is left on this machine.
    fn is_alone_here(&self, reaped: Reaped) -> bool {
        match reaped {
            Reaped::Alone => true,
            // What connects with other machines ends when all of their output has come.
            _ if self.outposts.is_empty() || self.supervisor.running().next().is_some() => false,
            _ => descendants::all(&self.strangers()).is_empty(),
        }
    }

    /// The children that are none of the job.
    fn strangers(&self) -> Strangers {
        Strangers::children(self.outposts.processes())
    }

    fn is_guard_gone(&self) -> bool {
        is_gone(self.guard)
    }

    /// Does it; gives the exit code if that was the last.
    fn act(&mut self, action: Action) -> Option<u8> {
        match action {
            Action::Pass(signal) => {
                self.ranks.pass(signal, None);
                self.outposts.pass(signal);
                if signal == Signal::TSTP {
                    self.stop();
                }
            }
            Action::End { signal, spare } => {
                self.ranks.end_all(signal, spare, &self.strangers());
                self.outposts.end(signal, spare);
            }
            Action::EndOne { rank, signal } => {
                self.ranks.pass_to(rank, signal);
                self.outposts.end_one(rank, signal);
            }
            Action::Tell(what) => self.output.tell(&what),
            Action::Finish { code } => return Some(code),
        }
        None
    }

    /// Stops this process, until it is to go on. The registry's clock runs on; what it misses it does not count.
    fn stop(&mut self) {
        if !self.outposts.is_empty() {
            self.outposts.wait_stopped();
        }
        // A signal to go on that has come meanwhile would not come again.
        self.early.extend(told(&self.signals));
        if !self.early.contains(&Signal::CONT) {
            let _ = kill_process(getpid(), Signal::STOP);
        }
        self.outposts.continue_now();
    }

    /// Waits until all that the processes wrote is written, if that can be.
    fn see_written(&mut self) {
        let (mut until, mut is_finishing) = (None, false);
        self.outposts.give_up();
        loop {
            for news in self.outposts.news() {
                if let OutpostNews::Tell(what) = news {
                    self.output.tell(&what);
                }
            }
            self.changes.iter_mut().for_each(JobChanges::close);
            if !is_finishing && self.outposts.are_written() {
                is_finishing = true;
                self.output.finish();
            }
            if self.is_guard_gone() || self.supervisor.is_hurried() {
                until = until.or(Some(rt::now() + LAST_WORDS));
            }
            let left = until.map(|until| until - rt::now());
            let time = left.into_iter().chain(self.outposts.look_within()).min();
            let mut fds = vec![
                PollFd::new(self.output.done(), PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::new(&self.outposts, PollFlags::IN),
            ];
            let changes = self.changes.iter();
            fds.extend(changes.map(|changes| PollFd::new(&changes.desk, PollFlags::IN)));
            let ready = wait_for(&mut fds, time);
            let is_done = !fds[0].revents().is_empty() || !ready && left == Some(Duration::ZERO);
            if is_done || told(&self.signals).any(signals::ends) {
                return;
            }
        }
    }
}

/// Descriptors for a process: its pipes here and at an outpost, and those of what reaches an outpost.
const FILES_EACH: u64 = 10;
/// Descriptors for all else.
const FILES: u64 = 64;
/// How long a reader may take for the end of the output when no caller waits any more.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_that_is_undone_stops_nothing() {
        let [int, stop, on] = [Signal::INT, Signal::TSTP, Signal::CONT];
        assert_eq!(without_undone_stops(vec![stop, int, on]), [int, on]);
        assert_eq!(without_undone_stops(vec![stop, on, stop]), [on, stop]);
        assert_eq!(without_undone_stops(vec![int, stop]), [int, stop]);
    }
}
