//! The second process as the first one sees it: starting it, orders, replies, tasks.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::channel::Channel;
use crate::machine::{self, BenchCores};

/// A process started from this executable, which follows where this one leads.
///
/// The peer dies with its owner: by the drop of this value, and if the whole process
/// is killed by the signal that the follower asked the kernel for. That signal
/// comes when the thread that started it ends, which here is the main thread.
#[derive(Debug)]
pub(crate) struct FollowerProcess {
    child: Child,
    channel: Channel,
    stations: Cell<u32>,
}

/// What the first process orders.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PeerOrder {
    /// Get ready for runs under this number: the name of a task, and its plan as JSON.
    Open { station: u32, task: String, plan: String },
    /// Follow this many rounds.
    Run { station: u32, rounds: u64 },
    /// Forget this number.
    Close { station: u32 },
}

/// Something that the follower can take part in, by a plan. Each benchmark has its own; the
/// second process finds them by their names.
pub(crate) struct PeerTask<P> {
    pub(crate) name: &'static str,
    /// Makes the follower's half; the descriptors are those that came with the plan.
    pub(crate) start: fn(P, Vec<OwnedFd>) -> Result<Box<dyn Follower>>,
}

/// A task, whatever its plan is.
pub(crate) trait NamedTask {
    fn name(&self) -> &'static str;

    /// Makes the follower's half by a plan in JSON.
    fn start(&self, plan: &str, fds: Vec<OwnedFd>) -> Result<Box<dyn Follower>>;
}

impl<P: DeserializeOwned> NamedTask for PeerTask<P> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn start(&self, plan: &str, fds: Vec<OwnedFd>) -> Result<Box<dyn Follower>> {
        (self.start)(serde_json::from_slice(plan.as_bytes())?, fds)
    }
}

/// The follower's half of what is measured.
pub(crate) trait Follower {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures>;

    /// Where its nic is, if it has one.
    fn host(&self) -> &str {
        ""
    }

    /// Whether its nic has something to do between two runs.
    fn needs_driving(&self) -> bool {
        false
    }

    /// Does what its nic has to do by itself, if anything.
    fn drive(&self) {}

    /// What its other side needs, if that is not the first process.
    fn fds(&mut self) -> Vec<OwnedFd> {
        Vec::new()
    }
}

/// What the follower answers to an order; `Close` has no answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PeerReply {
    /// The other side is open, at this host if it has one; what the other side needs comes along.
    Open(String),
    Done(PeerFigures),
    Failed(String),
}

/// Figures that a follower returns after a run.
pub(crate) type PeerFigures = Vec<f64>;

/// A task that the follower is ready for.
#[derive(Debug)]
pub(crate) struct PeerStation {
    peer: Rc<FollowerProcess>,
    number: u32,
    /// Where its nic is, if it has one.
    pub(crate) host: String,
    /// For the other side of the task.
    pub(crate) fds: Vec<OwnedFd>,
}

impl FollowerProcess {
    /// Starts the follower, and pins it and this process if there are cores
    /// for both.
    pub(crate) fn start() -> Result<Self> {
        Self::start_in(None)
    }

    /// The same, with the follower in a network namespace if one is named.
    pub(crate) fn start_in(space: Option<&str>) -> Result<Self> {
        let space = space.map_or_else(Vec::new, |space| vec!["--space", space]);
        let Some(cores) = BenchCores::choose()? else {
            machine::warn("one core for two processes; the figures mean little");
            return Self::spawn(&space, 6 * PATIENCE);
        };
        machine::pin(&[cores.leader])?;
        let core = cores.follower.to_string();
        Self::spawn(&[&space[..], &["--core", &core]].concat(), 2 * PATIENCE)
    }

    /// Starts a follower that runs where the kernel puts it, maybe on the core
    /// of the one it waits for.
    pub(crate) fn start_anywhere() -> Result<Self> {
        Self::spawn(&[], 6 * PATIENCE)
    }

    /// Starts a follower that runs on any of these cores, whatever this process is pinned to.
    pub(crate) fn start_on(cores: &[usize]) -> Result<Self> {
        let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
        Self::spawn(&["--core", &cores.join(",")], 6 * PATIENCE)
    }

    fn spawn(args: &[&str], patience: Duration) -> Result<Self> {
        let (channel, theirs) = Channel::pair(patience)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("bench-peer").args(args).stdin(theirs).stdout(Stdio::null());
        let child = command.spawn().context("starting the second process")?;
        Ok(Self { child, channel, stations: Cell::new(0) })
    }

    /// Kills the follower.
    pub(crate) fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// Stops the follower: it does nothing any more.
    pub(crate) fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        // The number is that of the follower until this value waits for its end.
        let process = Pid::from_child(&self.child);
        kill_process(process, signal).context("ending the second process")
    }

    /// Makes the follower ready for a task.
    pub(crate) fn open<P: Serialize>(
        self: &Rc<Self>,
        task: &PeerTask<P>,
        plan: &P,
        fds: &[OwnedFd],
    ) -> Result<PeerStation> {
        self.open_named(task.name, serde_json::to_string(plan)?, fds)
    }

    fn open_named(
        self: &Rc<Self>,
        task: &str,
        plan: String,
        fds: &[OwnedFd],
    ) -> Result<PeerStation> {
        let number = self.stations.get();
        self.stations.set(number + 1);
        let order = PeerOrder::Open { station: number, task: task.to_owned(), plan };
        self.channel.send(&order, fds)?;
        match self.reply()? {
            (PeerReply::Open(host), fds) => {
                Ok(PeerStation { peer: Rc::clone(self), number, host, fds })
            }
            (reply, _) => bail!("the second process opened nothing, it said {reply:?}"),
        }
    }

    /// Waits until the follower has run what was ordered.
    fn settled(&self) -> Result<PeerFigures> {
        match self.reply()? {
            (PeerReply::Done(told), _) => Ok(told),
            (reply, _) => bail!("the second process ran nothing, it said {reply:?}"),
        }
    }

    fn reply(&self) -> Result<(PeerReply, Vec<OwnedFd>)> {
        match self.channel.receive().context("waiting for the second process")? {
            Some((PeerReply::Failed(why), _)) => bail!("the second process failed: {why}"),
            Some(reply) => Ok(reply),
            None => bail!("the second process died"),
        }
    }
}

impl Drop for FollowerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl PeerStation {
    /// Lets the follower follow `rounds` rounds while `lead` leads them.
    pub(crate) fn run<T, E>(&self, rounds: u64, lead: impl FnOnce() -> Result<T, E>) -> Result<T>
    where
        E: Into<anyhow::Error>,
    {
        self.begin(rounds)?;
        self.conclude(lead().map_err(Into::into))
    }

    /// Waits for the end of the run that was led like this.
    pub(crate) fn conclude<T>(&self, led: Result<T>) -> Result<T> {
        match (self.end(), led) {
            (Ok(_), led) => led,
            (Err(theirs), Ok(_)) => Err(theirs),
            // The follower's reason is the cause more often than not.
            (Err(theirs), Err(mine)) => bail!("{theirs:#}; and the first one: {mine:#}"),
        }
    }

    /// Lets the follower begin a run of `rounds` rounds.
    pub(crate) fn begin(&self, rounds: u64) -> Result<()> {
        self.peer.channel.send(&PeerOrder::Run { station: self.number, rounds }, &[])
    }

    /// Whether the follower has said within this time that the run is over.
    pub(crate) fn is_over(&self, within: Duration) -> Result<bool> {
        self.peer.channel.has_come(within)
    }

    /// Waits for the end of the run; the figures of the follower.
    pub(crate) fn end(&self) -> Result<PeerFigures> {
        self.peer.settled()
    }
}

impl Drop for PeerStation {
    fn drop(&mut self) {
        // A follower that is gone has forgotten it already.
        let _ = self.peer.channel.send(&PeerOrder::Close { station: self.number }, &[]);
    }
}

/// How long either side follows or leads one run before it gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks of a side that is done.
pub(crate) const DRIVEN: Duration = Duration::from_micros(500);
