//! `egret run --add` and `--remove`: another command changes an open job that runs.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Result, bail};
use egret::node::NodeId;
use serde::{Deserialize, Serialize};

use super::inbox::Inbox;
use super::outpost::HostSlots;
use crate::monitor::{self, ChangeAnswer, ChangeTaker, IsWanted, MemberReport};

/// What is asked of a job that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum JobChange {
    /// Start more processes: on these machines, or on that of the launcher if there are none.
    Add { processes: NonZeroU32, hosts: Vec<HostSlots> },
    /// Tell the process of this node to end.
    Remove { node: RemovedNode },
}

/// A node as `egret top` shows it: `3#7`, or its rank alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct RemovedNode {
    rank: u32,
    /// Of which life of the rank; the one that is there if that is not said.
    incarnation: Option<u64>,
}

impl RemovedNode {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (rank, incarnation) = match text.split_once('#') {
            Some((rank, incarnation)) => (rank, Some(incarnation)),
            None => (text, None),
        };
        let wrong = || "a node as `egret top` shows it, `3#7`, or its rank, `3`".to_owned();
        let incarnation = incarnation.map(|text| text.parse().map_err(|_| wrong())).transpose()?;
        Ok(Self { rank: rank.parse().map_err(|_| wrong())?, incarnation })
    }

    fn is(self, node: NodeId) -> bool {
        node.rank == self.rank && self.incarnation.is_none_or(|life| life == node.incarnation)
    }
}

impl fmt::Display for RemovedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, incarnation } = self;
        write!(f, "{rank}")?;
        incarnation.map_or(Ok(()), |life| write!(f, "#{life}"))
    }
}

/// What the launcher is to do.
#[derive(Debug)]
pub(crate) enum LauncherChange {
    Add {
        processes: NonZeroU32,
        hosts: Vec<HostSlots>,
    },
    /// Tell the process of this rank of the job to end, which is this node.
    Remove {
        rank: u32,
        node: String,
    },
}

/// A change with the caller that waits for the answer, and whether it still does.
pub(crate) struct ChangeRequest {
    pub(crate) change: LauncherChange,
    pub(crate) answer: Sender<ChangeAnswer>,
    pub(crate) is_wanted: IsWanted,
}

impl fmt::Debug for ChangeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeRequest").field("change", &self.change).finish_non_exhaustive()
    }
}

/// Where the launcher of an open job takes changes.
pub(crate) type ChangeDesk = Inbox<ChangeRequest>;

/// Asks the job for a change, and says what has become of it.
pub(crate) fn ask(job: Option<&str>, change: &JobChange) -> Result<()> {
    match monitor::change(job, serde_json::to_value(change)?)? {
        Ok(done) => {
            crate::system::tell(&done);
            Ok(())
        }
        Err(why) => bail!(why),
    }
}

/// Brings changes to the launcher, and waits for its answers.
pub(crate) fn taker(job: &str, desk: ChangeDesk) -> ChangeTaker {
    let job = job.to_owned();
    Box::new(move |change, registry, is_wanted| match serde_json::from_value(change) {
        Ok(change) => bring((&job, &desk), change, is_wanted, || registry.reports(ANSWERED)),
        Err(why) => Err(format!("the job runs with another version of egret: {why}")),
    })
}

fn bring(
    (job, desk): (&str, &ChangeDesk),
    change: JobChange,
    is_wanted: IsWanted,
    reports: impl FnOnce() -> Vec<MemberReport>,
) -> ChangeAnswer {
    let change = match change {
        JobChange::Add { processes, hosts } => LauncherChange::Add { processes, hosts },
        JobChange::Remove { node } => {
            removal(job, node, &reports()).map_err(|why| format!("{why:#}"))?
        }
    };
    let (answer, answered) = channel();
    desk.put(ChangeRequest { change, answer, is_wanted });
    answered.recv().unwrap_or_else(|_| Err("the job has ended".to_owned()))
}

/// The process of this job that a node is.
fn removal(job: &str, node: RemovedNode, reports: &[MemberReport]) -> Result<LauncherChange> {
    let Some((id, report)) = reports.iter().find(|(id, _)| node.is(*id)) else {
        let members: Vec<_> = reports.iter().map(|(id, _)| id.to_string()).collect();
        if members.is_empty() {
            bail!(
                "no node {node} is a member of the pool, which has none: has the program joined?"
            );
        }
        bail!("no node {node} is a member of the pool; members are {}", members.join(", "));
    };
    let Some(report) = report else {
        bail!("node {id} does not answer, so it is not known which process it is");
    };
    match &report.job {
        Some(own) if own.name == job => {
            Ok(LauncherChange::Remove { rank: own.rank, node: id.to_string() })
        }
        _ => bail!(
            "node {id} (process {} at {}) was not started by this egret run",
            report.process,
            report.location
        ),
    }
}

/// How long members have to say which processes they are.
const ANSWERED: Duration = Duration::from_secs(2);
