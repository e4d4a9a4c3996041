//! Processes that are added to an open job that runs, and removed from it.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::Range;
use std::process::Stdio;
use std::sync::mpsc::Sender;

use anyhow::{Result, bail};

use super::{FILES_EACH, Launcher, StartPlan, StartedProcesses, raise_files, start};
use crate::monitor::ChangeAnswer;
use crate::run::args::{Job, PROCESSES_MAX};
use crate::run::change::{ChangeDesk, ChangeRequest, LauncherChange};
use crate::run::environment::Environment;
use crate::run::outpost::{CalledOutposts, FailedOutpost, HostSlots, JobPlace, places};
use crate::run::program;
use crate::run::status::Status;
use crate::run::supervise::SupervisorEvent;

/// What a launcher needs to change its job.
#[derive(Debug)]
pub(super) struct JobChanges {
    pub(super) desk: ChangeDesk,
    job: Job,
    /// With the secret of the pool, for processes that come later.
    environment: Environment,
    /// The next rank that no process has had.
    next: u32,
    /// The limit of open files that processes are to have, if this one has raised it.
    files: Option<u64>,
    /// Additions whose machines are being reached.
    additions: Vec<Addition>,
}

/// Processes that were asked for.
#[derive(Debug)]
struct Addition {
    /// All ranks that are for it.
    ranks: Range<u32>,
    /// The outposts that are being reached, by their numbers, with the ranks that are for them.
    waiting: Vec<(usize, Range<u32>)>,
    started: Vec<Range<u32>>,
    /// Whether a machine was told to begin, and failed: processes may have had their ranks.
    has_begun: bool,
    failed: Vec<String>,
    answer: Sender<ChangeAnswer>,
}

/// All ranks of an addition, those that run here, and what was called.
type BegunAddition = (Range<u32>, Option<Range<u32>>, CalledOutposts);

impl Addition {
    /// How it went, once that is known of all machines.
    fn outcome(&self) -> Option<ChangeAnswer> {
        if !self.waiting.is_empty() {
            return None;
        }
        let said = self.started.iter().map(|ranks| match ranks.len() {
            1 => format!("rank {}", ranks.start),
            _ => format!("ranks {} to {}", ranks.start, ranks.end - 1),
        });
        let said: Vec<_> = said.collect();
        Some(match (said.is_empty(), self.failed.is_empty()) {
            (false, true) => Ok(format!("started {}", said.join(", "))),
            (true, _) => Err(self.failed.join("; ")),
            (false, false) => Err(format!(
                "started {}, and not all that were asked for: {}",
                said.join(", "),
                self.failed.join("; ")
            )),
        })
    }
}

impl Launcher {
    /// Begins the changes that were asked for.
    pub(super) fn take_changes(&mut self) -> Vec<SupervisorEvent> {
        let Some(mut changes) = self.changes.take() else { return Vec::new() };
        let mut events = Vec::new();
        for ChangeRequest { change, answer, is_wanted } in changes.desk.take() {
            match change {
                // The caller has given up meanwhile.
                _ if !is_wanted() => {}
                _ if !self.supervisor.is_running() => {
                    _ = answer.send(Err("the job is ending".to_owned()));
                }
                LauncherChange::Remove { rank, node } => {
                    let is_there = self.supervisor.running().any(|running| running == rank);
                    events.extend(is_there.then_some(SupervisorEvent::Removed(rank)));
                    _ = answer.send(match is_there {
                        true => Ok(format!("node {node} (rank {rank} of the job) is told to end")),
                        false => Err(format!("rank {rank} of the job, node {node}, has ended")),
                    });
                }
                LauncherChange::Add { processes, hosts } => {
                    let addition = Addition {
                        ranks: 0..0,
                        waiting: Vec::new(),
                        started: Vec::new(),
                        has_begun: false,
                        failed: Vec::new(),
                        answer,
                    };
                    let wanted = (processes, &hosts[..]);
                    events.extend(self.begin_addition(&mut changes, wanted, addition));
                }
            }
        }
        self.changes = Some(changes);
        events
    }

    fn begin_addition(
        &mut self,
        changes: &mut JobChanges,
        (processes, hosts): (NonZeroU32, &[HostSlots]),
        mut addition: Addition,
    ) -> Option<SupervisorEvent> {
        let mut event = None;
        match self.try_addition(changes, (processes, hosts)) {
            Err(why) => addition.failed.push(format!("{why:#}")),
            Ok((ranks, here, (waiting, failed))) => {
                addition.ranks = ranks;
                addition.waiting = waiting;
                addition.failed.extend(failed);
                addition.started.extend(here.clone());
                event = here.map(SupervisorEvent::Added);
            }
        }
        changes.keep(addition);
        event
    }

    /// Starts the processes of this machine, and what reaches the other machines: all ranks of the addition, those that are
    /// started, and what is called. Nothing is started if this fails.
    fn try_addition(
        &mut self,
        changes: &mut JobChanges,
        (processes, hosts): (NonZeroU32, &[HostSlots]),
    ) -> Result<BegunAddition> {
        let (first, count) = (changes.next, processes.get());
        let end = first.checked_add(count).filter(|end| *end <= PROCESSES_MAX);
        let Some(end) = end else {
            bail!(
                "ranks up to {first} are used up, and a job has at most {PROCESSES_MAX} in its life"
            );
        };
        let places = places(hosts, count).map_err(anyhow::Error::msg)?;
        let places = places.into_iter().map(|JobPlace { host, ranks }| JobPlace {
            host,
            ranks: first + ranks.start..first + ranks.end,
        });
        let places: Vec<_> = places.collect();
        let registry = &changes.environment.registry;
        if places.iter().any(|place| place.host.is_some()) && is_loopback(registry) {
            bail!(
                "the registry of the job listens on loopback ({registry}), where other machines do not reach it: begin a job to which \
                 they are added with --listen ADDRESS"
            );
        }
        let here = places.iter().find(|place| place.host.is_none());
        let here = here.map(|place| place.ranks.clone());
        let raised = raise_files(u64::from(end) * FILES_EACH);
        // The first raise knows the limit that processes are to have.
        changes.files = changes.files.or(raised);
        if let Some(ranks) = &here {
            if let Some(refusal) = program::refusal(&changes.job) {
                bail!(refusal);
            }
            let (local, stdin) = (self.ranks.count(), Stdio::null());
            let (ranks, files) = (ranks.clone(), changes.files);
            let plan = StartPlan { ranks, local, stdin, files, file: None };
            let StartedProcesses { ranks, streams, .. } =
                start(&changes.job, &changes.environment, plan)?;
            self.ranks.add(ranks);
            self.output.add(streams);
        }
        changes.next = end;
        Ok((first..end, here, self.outposts.call(&changes.job, &places)))
    }

    /// An outpost is there: it is to start its processes.
    pub(super) fn reached(&mut self, outpost: usize) {
        let Some(changes) = &self.changes else { return };
        let begun = match self.supervisor.is_running() {
            true => self.outposts.begin(outpost, &changes.job, &changes.environment),
            false => Err(anyhow::anyhow!("the job is ending")),
        };
        match begun {
            Ok(streams) => self.output.add(streams),
            Err(why) => self.outposts.fail(outpost, &format!("was not told to begin: {why:#}")),
        }
    }

    /// The processes of an outpost run.
    pub(super) fn started(&mut self, outpost: usize) -> Option<SupervisorEvent> {
        let settled = self.changes.as_mut()?.settle(outpost, None)?;
        Some(SupervisorEvent::Added(settled))
    }

    /// The processes of an outpost do not run: if they were there from the beginning, that is how they have ended.
    pub(super) fn not_started(&mut self, failed: FailedOutpost) -> Vec<(u32, Status)> {
        let FailedOutpost { outpost, why, has_begun, ended } = failed;
        let failure = Some((why.clone(), has_begun));
        let changes = self.changes.as_mut();
        if changes.is_some_and(|changes| changes.settle(outpost, failure).is_some()) {
            return Vec::new();
        }
        self.output.tell(&why);
        ended
    }
}

impl JobChanges {
    /// Of a job that has just begun.
    pub(super) fn new(
        desk: ChangeDesk,
        job: Job,
        environment: Environment,
        files: Option<u64>,
    ) -> Self {
        let next = job.processes.get();
        Self { desk, job, environment, next, files, additions: Vec::new() }
    }

    /// Answers an addition that is over, or keeps it.
    fn keep(&mut self, addition: Addition) {
        let Some(outcome) = addition.outcome() else { return self.additions.push(addition) };
        if addition.started.is_empty() && !addition.has_begun && addition.ranks.end == self.next {
            // No process has had them.
            self.next = addition.ranks.start.max(self.job.processes.get());
        }
        _ = addition.answer.send(outcome);
    }

    /// It is known how it went with this outpost: its ranks, if it is one of an addition.
    fn settle(&mut self, outpost: usize, failed: Option<(String, bool)>) -> Option<Range<u32>> {
        let is_its = |addition: &Addition| addition.waiting.iter().any(|(at, _)| *at == outpost);
        let at = self.additions.iter().position(is_its)?;
        let mut addition = self.additions.swap_remove(at);
        let waiting = addition.waiting.iter().position(|(at, _)| *at == outpost)?;
        let (_, ranks) = addition.waiting.swap_remove(waiting);
        if failed.is_none() {
            addition.started.push(ranks.clone());
        }
        if let Some((why, has_begun)) = failed {
            addition.failed.push(why);
            addition.has_begun |= has_begun;
        }
        self.keep(addition);
        Some(ranks)
    }

    /// The time is over to wait for machines: the job ends.
    pub(super) fn close(&mut self) {
        for addition in self.additions.drain(..) {
            _ = addition.answer.send(Err("the job has ended".to_owned()));
        }
        for ChangeRequest { answer, .. } in self.desk.take() {
            _ = answer.send(Err("the job has ended".to_owned()));
        }
    }
}

fn is_loopback(address: &str) -> bool {
    address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
}
