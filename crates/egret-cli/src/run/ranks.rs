//! Which process is which rank.

use rustix::process::Pid;

use super::fault::{Fault, planted};

/// The processes of the ranks that have not been waited for. Of these the number is their own; after
/// that it may be given to any process, also to one that this one adopts.
#[derive(Debug)]
pub(crate) struct Ranks(Vec<Option<Pid>>);

impl Ranks {
    /// Which rank this process was, if it was one. It has been waited for.
    pub(crate) fn ended(&mut self, pid: Pid) -> Option<u32> {
        let (rank, process) = (0..).zip(&mut self.0).find(|(_, process)| **process == Some(pid))?;
        if !planted(Fault::RanksKept) {
            *process = None;
        }
        Some(rank)
    }

    /// The group that a rank leads.
    pub(crate) fn group(&self, rank: u32) -> Option<Pid> {
        self.0.get(rank as usize).copied().flatten()
    }
}

impl FromIterator<Pid> for Ranks {
    fn from_iter<T: IntoIterator<Item = Pid>>(pids: T) -> Self {
        Self(pids.into_iter().map(Some).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::caught;
    use super::*;

    fn a_number_is_a_ranks_until_the_rank_has_ended() {
        let pid = |number| Pid::from_raw(number).unwrap();
        let mut ranks: Ranks = [pid(70), pid(71)].into_iter().collect();
        assert_eq!((ranks.group(0), ranks.group(1)), (Some(pid(70)), Some(pid(71))));
        assert_eq!(ranks.ended(pid(69)), None);
        assert_eq!(ranks.ended(pid(71)), Some(1));
        assert_eq!(ranks.ended(pid(71)), None, "another process of the same number");
        assert_eq!((ranks.group(0), ranks.group(1)), (Some(pid(70)), None));
    }

    #[test]
    fn a_rank_ends_once() {
        a_number_is_a_ranks_until_the_rank_has_ended();
        assert!(caught(Fault::RanksKept, a_number_is_a_ranks_until_the_rank_has_ended));
    }
}
