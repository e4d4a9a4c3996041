//! What a registry has promised, and must not forget when it is killed and started again.

use std::collections::{BTreeMap, BTreeSet};

use super::super::record::KeptState;
use crate::node::Node;
use crate::pool::wire::LogEntry;
use crate::pool::{Event, NodeError, NodeId, RegistryRefusal};

/// Something that holds for as long as the node that asked is a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Promise {
    /// A name that one node binds once.
    Bound(String),
    /// A view that nobody exits: an election.
    Entered(String),
    /// A signal that is sent once.
    Signalled(Vec<u8>),
}

/// What was promised, and what was seen, since the first start of a registry.
#[derive(Default)]
pub(super) struct Promises {
    asked: u64,
    kept: Vec<(NodeId, Promise)>,
    lives: BTreeSet<NodeId>,
    /// The winner of each epoch of each election.
    winners: BTreeMap<(&'static str, u64), NodeId>,
}

impl Promises {
    /// Another promise to be asked for.
    pub(super) fn next(&mut self) -> Promise {
        self.asked += 1;
        match self.asked % 3 {
            0 => Promise::Bound(format!("own {}", self.asked)),
            1 => {
                let post = usize::try_from(self.asked).unwrap() % POSTS.len();
                Promise::Entered(POSTS[post].to_owned())
            }
            _ => Promise::Signalled(self.asked.to_le_bytes().to_vec()),
        }
    }

    /// The registry has answered.
    pub(super) fn answered(
        &mut self,
        node: NodeId,
        promise: &Promise,
        answer: &Result<(), NodeError>,
    ) {
        let is_twice = matches!(answer, Err(NodeError::Refused(RegistryRefusal::NameTaken { owner })) if *owner == node);
        assert!(!is_twice, "{promise:?} of {node} was carried out twice");
        if answer.is_ok() {
            self.kept.push((node, promise.clone()));
        }
    }

    /// A node has joined.
    pub(super) fn begin_life(&mut self, node: NodeId) {
        assert!(self.lives.insert(node), "{node} is another node already");
    }

    /// Notes who has won, as a node sees it.
    pub(super) fn look_at(&mut self, node: &Node) {
        for post in POSTS {
            let Some((winner, epoch)) = node.elected(post) else { continue };
            let first = *self.winners.entry((post, epoch)).or_insert(winner);
            assert_eq!(first, winner, "{post} has two winners in epoch {epoch}");
        }
    }

    /// Checks that nothing is forgotten.
    pub(super) fn check(&self, kept: &KeptState, log: &[LogEntry]) {
        let mut signals = BTreeSet::new();
        for entry in log {
            if let LogEntry::Signal { bytes, .. } = entry
                && bytes.len() == size_of::<u64>()
            {
                assert!(signals.insert(bytes), "a signal twice: {bytes:?}");
            }
        }
        for (node, promise) in &self.kept {
            let is_gone = kept.pool.fate(*node).is_some();
            let holds = match promise {
                Promise::Bound(name) => kept.names.owner(name) == Some(*node) || is_gone,
                Promise::Entered(view) => {
                    kept.pool.view(view).is_some_and(|view| view.has(*node)) || is_gone
                }
                Promise::Signalled(bytes) => signals.contains(bytes),
            };
            assert!(holds, "{promise:?} of {node} is forgotten");
        }
    }

    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }
}

/// Checks that what a node has seen is a part of the events of the log without a gap, but for those that a
/// [`Event::Resync`] stands for; returns how many it has not seen yet.
pub(super) fn check_seen(seen: &[Event], log: &[(u64, Event)], node: NodeId) -> usize {
    let mut at = 0;
    for event in seen {
        if let Event::Resync { from, to } = event {
            let next = log.get(at).map(|(number, _)| *number);
            assert!(next.is_none_or(|next| next >= *from), "{node} skips {next:?} without a word");
            at = log.partition_point(|(number, _)| number < to);
            continue;
        }
        let next = log.get(at).map(|(_, event)| event);
        assert_eq!(Some(event), next, "{node} after {at} events: {seen:#?}\nof {log:#?}");
        at += 1;
    }
    log.len() - at
}

/// The elections.
const POSTS: [&str; 2] = ["post 0", "post 1"];
