//! Starts the processes of a job, and sees it to its end.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use egret::node::{self, Events};
use egret::rt;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getppid, getrlimit, kill_process, kill_process_group,
    set_parent_process_death_signal, setrlimit, setsid,
};

use super::args::{Bind, Job, RunArgs};
use super::descendants::{self, Reaped, Strangers};
use super::environment::{self, Environment};
use super::job_registry::JobRegistry;
use super::output::Output;
use super::ranks::Ranks;
use super::signals::{self, Signals};
use super::status::Status;
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
    let job = args.args.into_job();
    let mark = environment::mark(&args.job);
    let mut environment = Environment::new(args.job);
    let registry = JobRegistry::open(&job, &mut environment)?;
    // If one cannot be started, the guard ends those that were.
    let mut children = start(&job, &environment)?;
    let pool = environment.pool.clone();
    // With it the last copy of the secret's text in this process.
    drop(environment);
    let _guest = match &registry {
        JobRegistry::Own(registry) => {
            monitor::start(registry, MonitorKind::Job, &pool);
            None
        }
        JobRegistry::Other(_) => monitor::note_guest(&pool),
    };
    terminal::leave_stdin();
    let launcher = Launcher {
        guard: args.guard,
        signals,
        ranks: children.iter().map(Pid::from_child).collect(),
        output: Output::start(&mut children, job.options.tag_output)?,
        supervisor: Supervisor::new(
            job.processes.get(),
            job.options.timeout,
            (job.options.on_death, job.options.grace),
            rt::now(),
        ),
        events: registry.events(),
        registry,
        is_open: job.options.open,
    };
    let code = launcher.run();
    if is_gone(args.guard) {
        // No process is started after this one.
        descendants::end_all(&Strangers::default(), &mark);
    }
    Ok(ExitCode::from(code))
}

/// Starts all processes. This is the main thread, at whose end the kernel kills them.
fn start(job: &Job, environment: &Environment) -> Result<Vec<Child>> {
    let files = raise_files(job.processes.get());
    let cores = match job.options.bind_to {
        Bind::Core => cores::in_turn()?,
        Bind::None => Vec::new(),
    };
    let core = |rank: u32| cores.iter().cycle().nth(rank as usize).copied();
    let one = |rank| {
        let mut command = Command::new(own_program());
        command.args(child::to_args(getpid().as_raw_pid(), core(rank), files));
        command.arg(&job.program).args(&job.args).process_group(0);
        command.stdin(if rank == 0 { Stdio::inherit() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        environment
            .start(&mut command, job, (rank, core(rank)))
            .with_context(|| format!("starting rank {rank}"))
    };
    (0..job.processes.get()).map(one).collect()
}

fn is_gone(guard: i32) -> bool {
    getppid().map(Pid::as_raw_pid) != Some(guard)
}

/// Makes room for two pipes and two connections of each of `processes`; gives the limit that the processes are to have
/// if theirs would be another.
fn raise_files(processes: u32) -> Option<u64> {
    let limits = getrlimit(Resource::Nofile);
    let current = limits.current.filter(|current| *current < u64::from(processes) * 4 + FILES)?;
    let raised = Rlimit { current: limits.maximum, ..limits };
    setrlimit(Resource::Nofile, raised).is_ok().then_some(current)
}

#[derive(Debug)]
struct Launcher {
    guard: i32,
    signals: Signals,
    ranks: Ranks,
    output: Output,
    supervisor: Supervisor,
    registry: JobRegistry,
    /// What the registry of this process knows, and the supervisor not yet.
    events: Option<Events>,
    /// Whether the ranks of nodes are not those of processes.
    is_open: bool,
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
            wait_for(&mut [PollFd::new(&self.signals, PollFlags::IN)], time);
        }
    }

    /// What has happened.
    fn news(&mut self) -> Vec<SupervisorEvent> {
        let mut events: Vec<_> = self.told().map(SupervisorEvent::Signal).collect();
        if self.is_guard_gone() {
            events.push(SupervisorEvent::GuardGone);
        }
        let mut ended = Vec::new();
        let mut reaped = descendants::reap();
        while let Reaped::Child(pid, status) = reaped {
            ended.extend(self.ranks.ended(pid).map(|rank| (rank, status)));
            reaped = descendants::reap();
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
        if reaped == Reaped::Alone {
            events.push(SupervisorEvent::Alone);
        }
        events.push(SupervisorEvent::Tick);
        events
    }

    /// The signals that have come for the job.
    fn told(&self) -> impl Iterator<Item = Signal> {
        let told = std::iter::from_fn(|| self.signals.try_next());
        // What a terminal sent, this process got before it left its session, and the
        // guard passes it on.
        told.filter(|told| !told.by_terminal && told.signal != Signal::CHILD)
            .map(|told| told.signal)
    }

    fn is_guard_gone(&self) -> bool {
        is_gone(self.guard)
    }

    /// Does it; gives the exit code if that was the last.
    fn act(&self, action: Action) -> Option<u8> {
        match action {
            Action::Pass(signal) => {
                self.pass(signal, None);
                if signal == Signal::TSTP {
                    // The registry's clock runs on; what it misses it does not count.
                    let _ = kill_process(getpid(), Signal::STOP);
                }
            }
            Action::End { signal, spare } => {
                let groups = self.pass(signal, spare);
                let others = descendants::all(&Strangers::default());
                let others = others.iter().filter(|kin| !groups.contains(&kin.group));
                others.for_each(|kin| kin.send(signal));
            }
            Action::Tell(what) => self.output.tell(&what),
            Action::Finish { code } => return Some(code),
        }
        None
    }

    /// Sends `signal` to the groups of the processes that run, and gives those groups.
    ///
    /// A process that has not been reaped keeps its number, so no stranger is meant.
    fn pass(&self, signal: Signal, spare: Option<u32>) -> BTreeSet<i32> {
        let running = self.supervisor.running();
        let groups = running.filter_map(|rank| Some((rank, self.ranks.group(rank)?)));
        let sent = groups.map(|(rank, group)| {
            if Some(rank) != spare {
                let _ = kill_process_group(group, signal);
            }
            group.as_raw_pid()
        });
        sent.collect()
    }

    /// Waits until all that the processes wrote is written, if that can be.
    fn see_written(&self) {
        self.output.finish();
        let mut until = None;
        loop {
            if self.is_guard_gone() || self.supervisor.is_hurried() {
                until = until.or(Some(rt::now() + LAST_WORDS));
            }
            let time = until.map(|until| until - rt::now());
            let mut fds = [
                PollFd::new(self.output.done(), PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            let ready = wait_for(&mut fds, time);
            let is_done = !fds[0].revents().is_empty() || !ready && time == Some(Duration::ZERO);
            if is_done || self.told().any(signals::ends) {
                return;
            }
        }
    }
}

/// Descriptors for all else.
const FILES: u64 = 64;
/// How long a reader may take for the end of the output when no caller waits any more.
const LAST_WORDS: Duration = Duration::from_secs(1);
