//! What happens to a job, decided without processes and without a clock.
//!
//! Events come in with the time at which they came ([`Supervisor::on`]), and what is to
//! be done comes out. The job *runs* until its first failure, a signal that ends it, its
//! timeout, the end of the guard, or the end of its last process. After a failure the others
//! have some time of *grace*: they learn of it by themselves, say what they have to say and
//! end. Then the job is *ending*: everybody was told to end and has until a moment to do so.
//! After that it is *killed*, again and again until no process is left. A job that is to [go on](OnDeath::GoOn) is told
//! of failures, and runs until its last process has ended. Processes come and go in a job that runs: one that was
//! [removed](SupervisorEvent::Removed) ends without that being a failure.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use egret::rt::Instant;
use rustix::process::Signal;

use super::args::OnDeath;
use super::fault::{self, Fault, planted};
use super::signals;
use super::status::{Status, signalled};

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SupervisorEvent {
    /// These processes have ended, in no known order.
    Exited(Vec<(u32, Status)>),
    /// The registry says that this one has failed, while it may still be ending.
    Failed(u32),
    /// A signal has come.
    Signal(Signal),
    /// The guard is no more.
    GuardGone,
    /// No descendant is left.
    Alone,
    /// These processes run as well from now on.
    Added(Range<u32>),
    /// This one is to end, and the others go on.
    Removed(u32),
    /// The time of [`Supervisor::wake_at`] has come.
    Tick,
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Give the signal to the groups of the processes that run.
    Pass(Signal),
    /// Give it to every descendant, except to the group of one.
    End { signal: Signal, spare: Option<u32> },
    /// Give it to the group of one process.
    EndOne { rank: u32, signal: Signal },
    /// Tell people.
    Tell(String),
    /// The job is over.
    Finish { code: u8 },
}

/// Decides for one job.
#[derive(Debug)]
pub(crate) struct Supervisor {
    running: Vec<bool>,
    /// How many processes the job has or had.
    started: usize,
    timeout: Option<Duration>,
    timeout_at: Option<Instant>,
    grace: Duration,
    phase: JobPhase,
    cause: JobEndCause,
    /// The first that failed; after it, that is for a cause.
    first: Option<(u32, Status)>,
    /// Of whom the registry said first that it failed.
    blamed: Option<u32>,
    on_death: OnDeath,
    /// The failures that the job has outlived, in their order.
    outlived: Vec<(u32, Status)>,
    /// Processes that were told to end, alone, and when they are killed; none if they were.
    removed: BTreeMap<u32, Option<Instant>>,
    hurried: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobPhase {
    Running,
    /// For so long, until then.
    Grace {
        time: Duration,
        end_at: Option<Instant>,
    },
    Ending {
        kill_at: Instant,
    },
    Killing {
        again_at: Instant,
        give_up_at: Instant,
    },
    Over,
}

/// Why a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobEndCause {
    /// All its processes have ended, or none of the below is known yet.
    Done,
    Failed,
    Asked(Signal),
    TimedOut,
    GuardGone,
}

impl Supervisor {
    /// For a job of `processes` that all run since `now`; it has so long to be done, and after a
    /// failure the others have `grace` to end by themselves, or go on.
    pub(crate) fn new(
        processes: u32,
        timeout: Option<Duration>,
        (on_death, grace): (OnDeath, Duration),
        now: Instant,
    ) -> Self {
        Self {
            running: vec![true; processes as usize],
            started: processes as usize,
            timeout,
            timeout_at: timeout.and_then(|timeout| now.checked_add(timeout)),
            grace,
            phase: JobPhase::Running,
            cause: JobEndCause::Done,
            first: None,
            blamed: None,
            on_death,
            outlived: Vec::new(),
            removed: BTreeMap::new(),
            hurried: false,
        }
    }

    /// What is to be done about `event`.
    pub(crate) fn on(&mut self, event: SupervisorEvent, now: Instant) -> Vec<Action> {
        match event {
            SupervisorEvent::Exited(ended) => self.exited(ended, now),
            SupervisorEvent::Failed(rank) => {
                if !self.goes_on() && self.phase == JobPhase::Running && self.running[rank as usize]
                {
                    self.blamed.get_or_insert(rank);
                }
                Vec::new()
            }
            SupervisorEvent::Signal(signal) => self.signalled(signal, now),
            SupervisorEvent::GuardGone => self.guard_gone(now),
            SupervisorEvent::Alone => self.alone(),
            SupervisorEvent::Added(ranks) => self.added(ranks),
            SupervisorEvent::Removed(rank) => self.remove(rank, now),
            SupervisorEvent::Tick => self.tick(now),
        }
    }

    /// When to say [`SupervisorEvent::Tick`].
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let kills = self.removed.values().copied().flatten();
        kills.chain(self.phase_ends_at()).min()
    }

    fn phase_ends_at(&self) -> Option<Instant> {
        match self.phase {
            JobPhase::Running => self.timeout_at,
            JobPhase::Grace { end_at, .. } => end_at,
            JobPhase::Ending { kill_at } => Some(kill_at),
            JobPhase::Killing { again_at, .. } => Some(again_at),
            JobPhase::Over => None,
        }
    }

    /// The processes that have not ended.
    pub(crate) fn running(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.running).filter_map(|(rank, runs)| runs.then_some(rank))
    }

    /// Whether processes may still be added and removed: the job is not ending.
    pub(crate) fn is_running(&self) -> bool {
        self.phase == JobPhase::Running && self.running.contains(&true)
    }

    /// Whether somebody has had enough, and asked a second time.
    pub(crate) fn is_hurried(&self) -> bool {
        self.hurried
    }

    fn exited(&mut self, mut ended: Vec<(u32, Status)>, now: Instant) -> Vec<Action> {
        // Of those that ended at once, a signal was the cause rather than the effect.
        ended.sort_by_key(|(rank, status)| (matches!(status, Status::Code(_)), *rank));
        for (rank, _) in &ended {
            if let Some(runs) = self.running.get_mut(*rank as usize) {
                *runs = false;
            }
        }
        let mut actions = Vec::new();
        for (rank, status) in ended {
            let is_removed = self.removed.remove(&rank).is_some();
            if is_removed && !planted(Fault::RemovalFails) {
                actions.push(Action::Tell(format!("rank {rank} {status}: it was removed")));
            } else if status.is_failure() {
                actions.extend(self.failed(rank, status, now));
            }
        }
        if !self.running.contains(&true) {
            actions.extend(self.all_exited(now));
        }
        actions
    }

    fn added(&mut self, ranks: Range<u32>) -> Vec<Action> {
        let (first, end) = (ranks.start as usize, ranks.end as usize);
        if self.running.len() < end {
            // Those between whose machines were not reached never run.
            self.running.resize(end, false);
        }
        self.running[first..end].fill(true);
        self.started += ranks.len();
        if matches!(self.phase, JobPhase::Ending { .. }) && self.cause == JobEndCause::Done {
            // All others have ended while these were being started: the job goes on with them.
            self.phase = JobPhase::Running;
        }
        Vec::new()
    }

    /// Tells one process to end.
    fn remove(&mut self, rank: u32, now: Instant) -> Vec<Action> {
        let runs = self.running.get(rank as usize).is_some_and(|runs| *runs);
        if !runs || self.removed.contains_key(&rank) {
            return Vec::new();
        }
        self.removed.insert(rank, Some(now + PATIENCE));
        vec![Action::EndOne { rank, signal: Signal::TERM }]
    }

    /// Kills the processes that were told to end, and have not.
    fn kill_removed(&mut self, now: Instant) -> Vec<Action> {
        let due = self.removed.iter_mut().filter(|(_, at)| at.is_some_and(|at| now >= at));
        due.map(|(rank, at)| {
            *at = None;
            Action::EndOne { rank: *rank, signal: Signal::KILL }
        })
        .collect()
    }

    /// No process of the job runs any more; what they started may.
    fn all_exited(&mut self, now: Instant) -> Vec<Action> {
        match self.phase {
            _ if planted(Fault::LeftBehind) => self.finish(),
            // Time to end by itself for what they started, as a `tee` at the end of a pipe.
            JobPhase::Running => {
                self.phase = JobPhase::Ending { kill_at: now + AFTER_TERM };
                Vec::new()
            }
            JobPhase::Grace { .. } => self.end(JobEndCause::Failed, now),
            _ => Vec::new(),
        }
    }

    fn guard_gone(&mut self, now: Instant) -> Vec<Action> {
        if self.cause == JobEndCause::GuardGone || planted(Fault::GuardForgotten) {
            return Vec::new();
        }
        self.end(JobEndCause::GuardGone, now)
    }

    /// Whether a failure now is one that the job outlives.
    fn goes_on(&self) -> bool {
        self.on_death == OnDeath::GoOn && self.phase == JobPhase::Running
    }

    /// The job goes on, if it has a process left.
    fn outlives(&mut self, rank: u32, status: Status) -> Vec<Action> {
        self.first.get_or_insert((rank, status));
        self.outlived.push((rank, status));
        let rest = match self.running().count() {
            0 => String::new(),
            1 => "; the other goes on".to_owned(),
            others => format!("; the other {others} go on"),
        };
        self.tell(format!("rank {rank} {status}{rest}"))
    }

    /// Who has failed, and how, at the end of a job that went on.
    fn account(&self) -> Option<Action> {
        if self.outlived.is_empty() || planted(Fault::FailuresUntold) {
            return None;
        }
        let (failed, processes) = (self.outlived.len(), self.started);
        let named = self.outlived.iter().take(NAMED_MAX);
        let mut named: Vec<_> =
            named.map(|(rank, status)| format!("rank {rank} {status}")).collect();
        if failed > NAMED_MAX {
            named.push(format!("and {} more", failed - NAMED_MAX));
        }
        let named = named.join(", ");
        Some(Action::Tell(format!("{failed} of {processes} processes failed: {named}")))
    }

    fn failed(&mut self, rank: u32, status: Status, now: Instant) -> Vec<Action> {
        if self.goes_on() {
            return self.outlives(rank, status);
        }
        let is_cause = self.is_cause(rank, status);
        if fault::sets_exit_code(is_cause) {
            self.first = Some((rank, status));
        }
        if is_cause && self.cause == JobEndCause::Failed {
            return vec![Action::Tell(format!("rank {rank} {status} before that"))];
        }
        if !self.ends_others() {
            return Vec::new();
        }
        let time = self.timeout_at.map_or(self.grace, |at| self.grace.min(at - now));
        let rest = match (self.running().count(), time.is_zero()) {
            (0, _) => String::new(),
            (1, true) => "; ending the other".to_owned(),
            (others, true) => format!("; ending the other {others}"),
            (1, false) => format!("; the other has {time:?} to finish"),
            (others, false) => format!("; the other {others} have {time:?} to finish"),
        };
        let mut actions = self.tell(format!("rank {rank} {status}{rest}"));
        if !self.has_grace(time) {
            actions.extend(self.end(JobEndCause::Failed, now));
        } else {
            self.cause = JobEndCause::Failed;
            self.phase = JobPhase::Grace { time, end_at: now.checked_add(time) };
        }
        actions
    }

    /// Whether a failure ends the other processes: no failure before has.
    fn ends_others(&self) -> bool {
        self.phase == JobPhase::Running && !planted(Fault::OthersGoOn)
    }

    /// Whether other processes run that have time to finish.
    fn has_grace(&self, time: Duration) -> bool {
        !time.is_zero() && self.running().count() > 0 && !planted(Fault::NoGrace)
    }

    /// Tells people about a failure, unless the failure is that the output has no reader any more: the
    /// reader wants no more to read.
    fn tell(&self, what: String) -> Vec<Action> {
        let is_unread = |(_, status)| status == Status::Signal(Signal::PIPE.as_raw());
        match self.first.is_some_and(is_unread) {
            true => Vec::new(),
            false => vec![Action::Tell(what)],
        }
    }

    /// Whether this end is why the job fails, rather than an effect of that.
    ///
    /// The kernel closes the connections of a killed process before it says that the
    /// process is no more, so that a peer may have failed of the loss and be gone first.
    fn is_cause(&self, rank: u32, status: Status) -> bool {
        let Some((_, first)) = self.first else { return true };
        let is_killed = [Status::Signal(Signal::KILL.as_raw()), Status::Lost].contains(&status);
        match self.phase {
            // No process was sent a signal.
            JobPhase::Grace { .. } if self.blamed == Some(rank) => true,
            // The rank that the registry blames was spared TERM, and no process was sent KILL.
            JobPhase::Ending { .. } if self.blamed == Some(rank) => !status.is_asked(),
            JobPhase::Grace { .. } | JobPhase::Ending { .. } => {
                is_killed && self.blamed.is_none() && matches!(first, Status::Code(_))
            }
            _ => self.blamed == Some(rank) && !is_killed,
        }
    }

    /// Whether somebody asks to end the job whose processes are ending already.
    fn is_second(&self, signal: Signal) -> bool {
        let is_told = !matches!(self.phase, JobPhase::Running | JobPhase::Grace { .. });
        let again = matches!(signal, Signal::INT | Signal::QUIT) && is_told;
        again && !planted(Fault::SecondPassedOn)
    }

    fn signalled(&mut self, signal: Signal, now: Instant) -> Vec<Action> {
        if self.is_second(signal) {
            self.hurried = true;
            return self.kill(now);
        }
        match self.phase {
            JobPhase::Running if signals::ends(signal) => {
                self.cause = JobEndCause::Asked(signal);
                self.phase = JobPhase::Ending { kill_at: now + PATIENCE };
            }
            // The job has failed before that.
            JobPhase::Grace { .. } if signals::ends(signal) => {
                self.phase = JobPhase::Ending { kill_at: now + AFTER_TERM };
            }
            _ => {}
        }
        vec![Action::Pass(signal)]
    }

    /// Tells everybody to end, because of `cause`.
    fn end(&mut self, cause: JobEndCause, now: Instant) -> Vec<Action> {
        self.cause = cause;
        let kill_at = now + AFTER_TERM;
        self.phase = match self.phase {
            JobPhase::Ending { kill_at: before } => {
                JobPhase::Ending { kill_at: before.min(kill_at) }
            }
            JobPhase::Running | JobPhase::Grace { .. } => JobPhase::Ending { kill_at },
            phase => phase,
        };
        // The rank that failed first is to come to its end undisturbed, for its exit code.
        let spare = self.blamed.filter(|rank| self.running[*rank as usize]);
        vec![Action::End { signal: Signal::TERM, spare }]
    }

    fn kill(&mut self, now: Instant) -> Vec<Action> {
        if planted(Fault::NeverKills) {
            self.phase = JobPhase::Ending { kill_at: now + AFTER_TERM };
            return Vec::new();
        }
        let give_up_at = match self.phase {
            JobPhase::Killing { give_up_at, .. } => give_up_at,
            _ => now + GIVE_UP,
        };
        self.phase = JobPhase::Killing { again_at: now + AGAIN, give_up_at };
        vec![Action::End { signal: Signal::KILL, spare: None }]
    }

    fn tick(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = self.kill_removed(now);
        actions.extend(self.end_phase(now));
        actions
    }

    fn end_phase(&mut self, now: Instant) -> Vec<Action> {
        match self.phase {
            JobPhase::Running if self.timeout_at.is_some_and(|at| now >= at) => {
                let time = self.timeout.unwrap_or_default();
                let mut actions =
                    vec![Action::Tell(format!("not done in {time:?}; ending the job"))];
                actions.extend(self.end(JobEndCause::TimedOut, now));
                actions
            }
            JobPhase::Grace { time, end_at } if end_at.is_some_and(|at| now >= at) => {
                let mut running = self.running();
                let what = match (running.next(), running.count()) {
                    (Some(rank), 0) => {
                        format!("rank {rank} has not finished in {time:?}; ending it")
                    }
                    (_, more) => {
                        let all = more + 1;
                        format!("{all} processes have not finished in {time:?}; ending them")
                    }
                };
                let mut actions = self.tell(what);
                actions.extend(self.end(JobEndCause::Failed, now));
                actions
            }
            JobPhase::Killing { give_up_at, .. } if now >= give_up_at => self.finish(),
            JobPhase::Ending { kill_at: at } | JobPhase::Killing { again_at: at, .. }
                if now >= at =>
            {
                self.kill(now)
            }
            _ => Vec::new(),
        }
    }

    fn alone(&mut self) -> Vec<Action> {
        match self.running.contains(&true) {
            true => Vec::new(),
            false => self.finish(),
        }
    }

    fn finish(&mut self) -> Vec<Action> {
        if self.phase == JobPhase::Over {
            return Vec::new();
        }
        self.phase = JobPhase::Over;
        self.account().into_iter().chain([Action::Finish { code: self.code() }]).collect()
    }

    fn code(&self) -> u8 {
        let failed = self.first.map_or(0, |(_, status)| status.code());
        match self.cause {
            JobEndCause::TimedOut if !planted(Fault::TimeoutUntold) => TIMED_OUT,
            // A process that had to be killed did not answer; the signal that it was sent is the reason.
            JobEndCause::Asked(signal) if failed == KILLED => signalled(signal.as_raw()),
            JobEndCause::GuardGone => KILLED,
            _ => failed,
        }
    }
}

/// Failed processes that the last line names.
const NAMED_MAX: usize = 16;
/// From TERM to KILL, and for what is left when the last process has ended.
const AFTER_TERM: Duration = Duration::from_secs(1);
/// From a signal that somebody sent to KILL: it may mean a lot of work.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two rounds of KILL.
const AGAIN: Duration = Duration::from_millis(20);
/// How long the kernel may take to end what was killed.
const GIVE_UP: Duration = Duration::from_secs(2);
/// The exit code of a job that took too long, as of `timeout`.
const TIMED_OUT: u8 = 124;
const KILLED: u8 = 128 + 9;
