//! What members report of themselves when the process of the registry asks, without I/O and clock.

use std::collections::BTreeMap;

use crate::pool::NodeId;

/// One round of questions: each member of that moment is asked once.
#[derive(Debug, Default)]
pub(super) struct ReportRound {
    number: u64,
    /// How far each member is.
    asked: BTreeMap<NodeId, ReportStage>,
}

#[derive(Debug)]
enum ReportStage {
    /// The member is asked when it requests events next.
    Due,
    Asked,
    Came(Vec<u8>),
}

impl ReportRound {
    /// Begins another round with these members.
    pub(super) fn begin(&mut self, members: impl Iterator<Item = NodeId>) {
        self.number += 1;
        self.asked = members.map(|node| (node, ReportStage::Due)).collect();
    }

    /// The number of the round, if this node is to be asked now.
    pub(super) fn ask(&mut self, node: NodeId) -> Option<u64> {
        let stage = self.asked.get_mut(&node)?;
        if !matches!(stage, ReportStage::Due) {
            return None;
        }
        *stage = ReportStage::Asked;
        Some(self.number)
    }

    /// A node has reported. What was not asked for is dropped.
    pub(super) fn take(&mut self, node: NodeId, number: u64, bytes: Vec<u8>) {
        if let Some(stage @ ReportStage::Asked) =
            self.asked.get_mut(&node).filter(|_| number == self.number && bytes.len() <= BYTES_MAX)
        {
            *stage = ReportStage::Came(bytes);
        }
    }

    /// Whether no report is missing, except of nodes that are no members any more.
    pub(super) fn is_complete(&self, is_member: impl Fn(NodeId) -> bool) -> bool {
        let missing = self.asked.iter().filter(|(_, it)| !matches!(it, ReportStage::Came(_)));
        !missing.into_iter().any(|(node, _)| is_member(*node))
    }

    /// The nodes that were to be asked, with the bytes of those that have reported.
    pub(super) fn end(&mut self) -> Vec<(NodeId, Option<Vec<u8>>)> {
        let came = |stage| if let ReportStage::Came(bytes) = stage { Some(bytes) } else { None };
        std::mem::take(&mut self.asked).into_iter().map(|(node, it)| (node, came(it))).collect()
    }
}

/// Bytes of a report: a member sends no longer one.
const BYTES_MAX: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(rank: u32) -> NodeId {
        NodeId { rank, incarnation: 1 }
    }

    #[test]
    fn each_member_is_asked_once_and_only_its_answer_of_this_round_counts() {
        let mut round = ReportRound::default();
        round.begin((0..3).map(id));
        assert_eq!((round.ask(id(0)), round.ask(id(0)), round.ask(id(7))), (Some(1), None, None));
        round.take(id(1), 1, vec![1]);
        round.take(id(0), 2, vec![2]);
        round.take(id(0), 1, vec![0; BYTES_MAX + 1]);
        assert!(!round.is_complete(|node| node == id(0)));
        assert!(round.is_complete(|node| node.rank > 2), "who is gone is not missed");
        round.take(id(0), 1, vec![3]);
        round.take(id(0), 1, vec![4]);
        assert!(round.is_complete(|node| node == id(0)));
        assert_eq!(round.end(), [(id(0), Some(vec![3])), (id(1), None), (id(2), None)]);
        round.begin([id(0)].into_iter());
        assert_eq!(round.ask(id(0)), Some(2));
    }
}
