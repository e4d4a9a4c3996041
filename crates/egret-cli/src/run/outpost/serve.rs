//! An outpost: starts processes where it is, as another machine orders, and ends them if that machine is gone.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use egret::rt::{self, Instant};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal, setsid};
use rustix::stdio::{dup2_stdin, dup2_stdout, stdin};

use super::frames::{FRAME_MAX, Frame};
use super::order::{OutpostHello, OutpostJob, OutpostOrder, OutpostReport, PROGRAM, PROTOCOL};
use super::program_copy::ProgramCopy;
use super::relay::Relay;
use super::{LOST_AFTER, SAY_EVERY};
use crate::run::args::{OnDeath, RunArgs};
use crate::run::descendants::{self, Reaped};
use crate::run::environment::{self, Environment};
use crate::run::guard::OutpostLauncher;
use crate::run::inbox::Inbox;
use crate::run::launcher::StartPlan;
use crate::run::ranks::Ranks;
use crate::run::signals::{self, Signals};
use crate::run::status::Status;
use crate::run::supervise::{Action, Supervisor, SupervisorEvent};
use crate::run::{launcher, program};
use crate::system::{own_program, wait_for};

/// How another machine starts an outpost here.
#[derive(Debug, clap::Args)]
pub(crate) struct OutpostGuardArgs {
    #[arg(long)]
    job: String,
    /// The number of the outpost among those of the job
    #[arg(long)]
    outpost: u32,
}

/// The process of an outpost that starts the others.
#[derive(Debug, clap::Args)]
pub(crate) struct OutpostArgs {
    #[arg(long)]
    guard: i32,
    #[arg(long)]
    job: String,
    #[arg(long)]
    outpost: u32,
}

/// Starts the outpost, waits for its end, and leaves nothing behind.
pub(crate) fn guard(args: &OutpostGuardArgs) -> Result<ExitCode> {
    let signals = Signals::block()?;
    let mut command = Command::new(own_program());
    command.args(["run-outpost-launcher", &format!("--guard={}", getpid().as_raw_pid())]);
    command.args([format!("--job={}", args.job), format!("--outpost={}", args.outpost)]);
    let outpost = OutpostLauncher::start(command, signals)?;
    // The outpost alone is to have them: their end is how either side learns that the other is gone.
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    let null = null.context("opening /dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    let name = environment::outpost_name(&args.job, args.outpost);
    Ok(ExitCode::from(outpost.wait(&environment::outpost_mark(&name)).code()))
}

/// Does what another machine orders until it says that this is all, or is gone.
pub(crate) fn serve(args: OutpostArgs) -> Result<ExitCode> {
    let signals = Signals::block()?;
    setsid().context("beginning a session; this is started by `egret run-outpost`, not by hand")?;
    descendants::adopt()?;
    set_parent_process_death_signal(Some(Signal::CONT)).context("asking about the guard")?;
    let inbox = Inbox::new()?;
    let (said, heard) = (inbox.clone(), inbox.clone());
    let relay = Relay::start(move || said.put(OutpostEvent::Relayed))?;
    let mut orders = std::fs::File::from(stdin().try_clone_to_owned()?);
    let (input, inputs) = channel();
    let last = Arc::new(Mutex::new(rt::now()));
    let hears = Arc::clone(&last);
    rt::spawn("orders", move || {
        let (mut program, mut has_begun) = (None::<ProgramCopy>, false);
        // What is no order is as bad as none: the launcher has a reason of its own to be told.
        while let Ok(Some(frame)) = Frame::read(&mut orders, FRAME_MAX) {
            *hears.lock().unwrap_or_else(PoisonError::into_inner) = rt::now();
            match frame {
                Frame::Said(order) => {
                    let begins = matches!(order, OutpostOrder::Begin(_));
                    has_begun |= begins;
                    let copy = program.take_if(|_| begins);
                    copy.into_iter().for_each(|copy| heard.put(OutpostEvent::Program(copy)));
                    heard.put(OutpostEvent::Order(order));
                }
                // It comes before the order.
                Frame::Bytes(PROGRAM, _) if has_begun => break,
                Frame::Bytes(PROGRAM, bytes) => {
                    program.get_or_insert_with(ProgramCopy::new).add(&bytes);
                }
                Frame::Bytes(_, bytes) => _ = input.send(bytes),
            }
        }
        heard.put(OutpostEvent::NoMoreOrders);
    })?;
    relay.report(&OutpostReport::Hello(OutpostHello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        launcher: connection().map(|(launcher, _)| launcher),
    }));
    let name = environment::outpost_name(&args.job, args.outpost);
    let outpost = Outpost {
        guard: args.guard,
        environment: Some(Environment::of_outpost(args.job, args.outpost)),
        signals,
        inbox,
        relay: Arc::new(relay),
        program: None,
        inputs: Some(inputs),
        ranks: None,
        heard: last,
        is_lost: false,
        is_stopped: false,
        is_alone: false,
        is_finished: false,
        is_relayed: false,
        ending: None,
    };
    let ended = outpost.run();
    if is_gone(args.guard) {
        // No process is started after this one.
        descendants::end_all(&descendants::Strangers::default(), &environment::outpost_mark(&name));
    }
    ended
}

fn is_gone(guard: i32) -> bool {
    getppid().map(Pid::as_raw_pid) != Some(guard)
}

/// What ends these processes, without a launcher: as if those of other machines had ended.
fn ending(ranks: &Ranks) -> Supervisor {
    let on_death = (OnDeath::End, Duration::ZERO);
    let mut supervisor = Supervisor::new(ranks.end(), None, on_death, rt::now());
    let here: BTreeSet<_> = ranks.running().collect();
    let others = (0..ranks.end()).filter(|rank| !here.contains(rank));
    let others = others.map(|rank| (rank, Status::Code(0))).collect();
    supervisor.on(SupervisorEvent::Exited(others), rt::now());
    supervisor
}

/// The address of the launcher, and that of this machine, as the connection between them has them.
pub(crate) fn connection() -> Option<(String, Option<String>)> {
    if let Ok(of_ssh) = std::env::var("SSH_CONNECTION") {
        let mut words = of_ssh.split(' ').map(str::to_owned);
        return Some((words.next()?, words.nth(1)));
    }
    Some((std::env::var("SLURM_LAUNCH_NODE_IPADDR").ok()?, None))
}

/// What threads have for the main one.
#[derive(Debug)]
enum OutpostEvent {
    /// The whole program of a job that begins.
    Program(ProgramCopy),
    Order(OutpostOrder),
    NoMoreOrders,
    /// All is said to the launcher, or can be said no more.
    Relayed,
}

#[derive(Debug)]
struct Outpost {
    guard: i32,
    /// Until the processes are started.
    environment: Option<Environment>,
    signals: Signals,
    inbox: Inbox<OutpostEvent>,
    relay: Arc<Relay>,
    /// The program, if the launcher has sent it.
    program: Option<ProgramCopy>,
    /// What rank 0 is to read, until it is started.
    inputs: Option<Receiver<Vec<u8>>>,
    /// The processes, once they are started.
    ranks: Option<Ranks>,
    /// When something was heard of the launcher last.
    heard: Arc<Mutex<Instant>>,
    is_lost: bool,
    /// The launcher says nothing, as it is stopped with the job.
    is_stopped: bool,
    is_alone: bool,
    is_finished: bool,
    is_relayed: bool,
    /// Ends the processes, as no launcher is there any more.
    ending: Option<Supervisor>,
}

impl Outpost {
    fn run(mut self) -> Result<ExitCode> {
        loop {
            for event in self.inbox.take() {
                match event {
                    OutpostEvent::Program(program) => self.program = Some(program),
                    OutpostEvent::Order(order) => self.obey(order),
                    OutpostEvent::NoMoreOrders => self.is_lost = true,
                    OutpostEvent::Relayed => self.is_relayed = true,
                }
            }
            self.look();
            if self.is_over() {
                return Ok(ExitCode::SUCCESS);
            }
            let mut events = self.reaped();
            if self.is_lost && self.ending.is_none() {
                self.ending = self.ranks.as_ref().map(ending);
                events.push(SupervisorEvent::GuardGone);
            }
            events.push(SupervisorEvent::Tick);
            if self.end(events) {
                bail!("the launcher of the job is gone, and its processes here were ended");
            }
            let mut time = SAY_EVERY;
            if let Some(at) = self.ending.as_ref().and_then(Supervisor::wake_at) {
                time = time.min(at - rt::now());
            }
            let mut fds = [
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::new(&self.inbox, PollFlags::IN),
            ];
            wait_for(&mut fds, Some(time));
        }
    }

    /// Looks whether the launcher is there.
    fn look(&mut self) {
        let asked = std::iter::from_fn(|| self.signals.try_next());
        self.is_lost |= asked.filter(|told| signals::ends(told.signal)).count() > 0;
        self.is_lost |= is_gone(self.guard);
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_lost |= !self.is_stopped && rt::now() - heard > LOST_AFTER;
    }

    /// Whether nothing is left to do.
    fn is_over(&self) -> bool {
        let has_none = self.ranks.is_none() || self.is_alone;
        has_none && (self.is_lost || self.is_finished && self.is_relayed)
    }

    fn obey(&mut self, order: OutpostOrder) {
        match order {
            OutpostOrder::Begin(job) => {
                if let Err(OutpostRefusal { why, code }) = self.begin(*job) {
                    self.relay.report(&OutpostReport::Refused { why, code });
                    self.relay.finish();
                }
            }
            OutpostOrder::Pass(signal) => {
                let signal = Signal::from_named_raw(signal);
                if let (Some(signal), Some(ranks)) = (signal, &self.ranks) {
                    ranks.pass(signal, None);
                }
                if signal == Some(Signal::TSTP) {
                    self.is_stopped = true;
                    self.relay.report(&OutpostReport::Stopped);
                }
                self.is_stopped &= signal != Some(Signal::CONT);
            }
            OutpostOrder::End { signal, spare } => {
                if let (Some(signal), Some(ranks)) = (Signal::from_named_raw(signal), &self.ranks) {
                    ranks.end_all(signal, spare, &descendants::Strangers::default());
                }
            }
            OutpostOrder::EndOne { rank, signal } => {
                if let (Some(signal), Some(ranks)) = (Signal::from_named_raw(signal), &self.ranks) {
                    ranks.pass_to(rank, signal);
                }
            }
            OutpostOrder::Taken(bytes) => self.relay.taken(bytes),
            OutpostOrder::Unread(stream) => self.relay.unread(stream),
            OutpostOrder::Here => {}
            OutpostOrder::Finish => self.is_finished = true,
        }
    }

    /// Starts the processes.
    fn begin(&mut self, job: OutpostJob) -> Result<(), OutpostRefusal> {
        let Some(mut environment) = self.environment.take() else { return Ok(()) };
        let directory = std::ffi::OsString::from(job.directory);
        std::env::set_current_dir(&directory).map_err(|why| OutpostRefusal {
            why: format!("no working directory {}: {why}", directory.display()),
            code: 1,
        })?;
        let words = job.args.into_iter().map(std::ffi::OsString::from);
        let line =
            OutpostLine::try_parse_from([std::ffi::OsString::from("run")].into_iter().chain(words));
        let mut asked = line.map_err(anyhow::Error::from).and_then(|line| line.args.into_job())?;
        if job.is_egret {
            asked.program = own_program().into_os_string();
        }
        let file = match &self.program {
            Some(copy) => Some(copy.path()?),
            None if job.is_copied => {
                return Err(
                    anyhow::anyhow!("the program was not sent, and its file is empty").into()
                );
            }
            None => None,
        };
        if let Some(refusal) = program::refusal(&asked).filter(|_| file.is_none()) {
            return Err(OutpostRefusal { why: refusal.to_string(), code: refusal.code() });
        }
        environment.pool = job.pool;
        environment.registry = job.registry;
        environment.secret = job.secret;
        environment.variables =
            job.variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let here = connection().and_then(|(_, here)| here);
        environment.listen = here.filter(|address| launcher::is_own(address));
        let files = launcher::raise_files(job.ranks.len() as u64 * 2);
        let (ranks, local, stdin) = (job.ranks, job.local, Stdio::piped());
        let plan = StartPlan { ranks, local, stdin, files, file };
        let started = launcher::start(&asked, &environment, plan)?;
        self.ranks = Some(started.ranks);
        self.relay.report(&OutpostReport::Started);
        self.relay.add(started.streams);
        if let (Some(input), Some(inputs)) = (started.input, self.inputs.take()) {
            let relay = Arc::clone(&self.relay);
            let thread = rt::spawn("input", move || give_input(input, &inputs, &relay));
            if thread.is_err() {
                // Rank 0 sees the end of its input.
                self.relay.report(&OutpostReport::InputUnread);
            }
        }
        Ok(())
    }

    /// What has ended here; the launcher is told.
    fn reaped(&mut self) -> Vec<SupervisorEvent> {
        let Some(ranks) = &mut self.ranks else { return Vec::new() };
        let mut ended = Vec::new();
        let mut reaped = descendants::reap();
        while let Reaped::Child(pid, status) = reaped {
            ended.extend(ranks.ended(pid).map(|rank| (rank, status)));
            reaped = descendants::reap();
        }
        let mut events = Vec::new();
        if !ended.is_empty() {
            self.relay.report(&OutpostReport::Exited(ended.clone()));
            events.push(SupervisorEvent::Exited(ended));
        }
        if reaped == Reaped::Alone && !self.is_alone {
            self.is_alone = true;
            self.relay.report(&OutpostReport::Alone);
            self.relay.finish();
        }
        if self.is_alone {
            events.push(SupervisorEvent::Alone);
        }
        events
    }

    /// Ends the processes if no launcher is there; whether none is left.
    fn end(&mut self, events: Vec<SupervisorEvent>) -> bool {
        let (Some(ending), Some(ranks)) = (&mut self.ending, &self.ranks) else { return false };
        for action in events.into_iter().flat_map(|event| ending.on(event, rt::now())) {
            match action {
                Action::End { signal, .. } => {
                    ranks.end_all(signal, None, &descendants::Strangers::default());
                }
                Action::Finish { .. } => return true,
                Action::Pass(_) | Action::EndOne { .. } | Action::Tell(_) => {}
            }
        }
        false
    }
}

/// Writes what has come for rank 0, until the end of that or of rank 0.
fn give_input(mut to: ChildStdin, inputs: &Receiver<Vec<u8>>, relay: &Relay) {
    for bytes in inputs.iter().take_while(|bytes| !bytes.is_empty()) {
        if to.write_all(&bytes).is_err() {
            relay.report(&OutpostReport::InputUnread);
            return;
        }
        relay.report(&OutpostReport::InputTaken(u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
    }
}

/// Why the job does not begin here, and what a shell would exit with.
struct OutpostRefusal {
    why: String,
    code: u8,
}

impl From<anyhow::Error> for OutpostRefusal {
    fn from(why: anyhow::Error) -> Self {
        Self { why: format!("{why:#}"), code: 1 }
    }
}

/// The command line that says the job.
#[derive(Debug, Parser)]
struct OutpostLine {
    #[command(flatten)]
    args: RunArgs,
}
