//! Which process is which rank.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process_group};

use super::descendants::{self, Strangers};
use super::fault::{Fault, planted};

/// The processes of the ranks here that have not been waited for. Of these the number is their own; after
/// that it may be given to any process, also to one that this one adopts.
#[derive(Debug, Default)]
pub(crate) struct Ranks(Vec<(u32, Option<Pid>)>);

impl Ranks {
    /// The processes of the ranks from this one on.
    pub(crate) fn new(first: u32, processes: impl IntoIterator<Item = Pid>) -> Self {
        Self((first..).zip(processes.into_iter().map(Some)).collect())
    }

    /// Adds the processes of other ranks.
    pub(crate) fn add(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The rank behind the last.
    pub(crate) fn end(&self) -> u32 {
        self.0.iter().map(|(rank, _)| rank + 1).max().unwrap_or(0)
    }

    /// How many ranks there are or were.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Which rank this process was, if it was one. It has been waited for.
    pub(crate) fn ended(&mut self, pid: Pid) -> Option<u32> {
        let (rank, process) = self.0.iter_mut().find(|(_, process)| *process == Some(pid))?;
        if !planted(Fault::RanksKept) {
            *process = None;
        }
        Some(*rank)
    }

    /// The ranks that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = u32> {
        self.groups().map(|(rank, _)| rank)
    }

    /// The ranks that run, and the group that each leads.
    fn groups(&self) -> impl Iterator<Item = (u32, Pid)> {
        self.0.iter().filter_map(|(rank, process)| Some((*rank, (*process)?)))
    }

    /// Sends `signal` to the group of one rank, if that runs here.
    pub(crate) fn pass_to(&self, rank: u32, signal: Signal) {
        let group = self.groups().find(|(known, _)| *known == rank);
        let _ = group.map(|(_, group)| kill_process_group(group, signal));
    }

    /// Sends `signal` to the groups of the processes that run, and gives those groups.
    ///
    /// A process that has not been reaped keeps its number, so no stranger is meant.
    pub(crate) fn pass(&self, signal: Signal, spare: Option<u32>) -> BTreeSet<i32> {
        let sent = self.groups().map(|(rank, group)| {
            if Some(rank) != spare {
                let _ = kill_process_group(group, signal);
            }
            group.as_raw_pid()
        });
        sent.collect()
    }

    /// Sends `signal` to every descendant of this process but the strangers, and the group of one rank.
    pub(crate) fn end_all(&self, signal: Signal, spare: Option<u32>, strangers: &Strangers) {
        let groups = self.pass(signal, spare);
        let others = descendants::all(strangers);
        let others = others.iter().filter(|kin| !groups.contains(&kin.group));
        others.for_each(|kin| kin.send(signal));
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::caught;
    use super::*;

    fn a_number_is_a_ranks_until_the_rank_has_ended() {
        let pid = |number| Pid::from_raw(number).unwrap();
        let mut ranks = Ranks::new(4, [pid(70), pid(71)]);
        let groups = |ranks: &Ranks| ranks.groups().collect::<Vec<_>>();
        assert_eq!(groups(&ranks), [(4, pid(70)), (5, pid(71))]);
        assert_eq!(ranks.end(), 6);
        assert_eq!(ranks.ended(pid(69)), None);
        assert_eq!(ranks.ended(pid(71)), Some(5));
        assert_eq!(ranks.ended(pid(71)), None, "another process of the same number");
        assert_eq!(groups(&ranks), [(4, pid(70))]);
        ranks.add(Ranks::new(9, [pid(71)]));
        assert_eq!((ranks.end(), ranks.count()), (10, 3));
        assert_eq!(ranks.ended(pid(71)), Some(9));
    }

    #[test]
    fn a_rank_ends_once() {
        a_number_is_a_ranks_until_the_rank_has_ended();
        assert!(caught(Fault::RanksKept, a_number_is_a_ranks_until_the_rank_has_ended));
    }
}
