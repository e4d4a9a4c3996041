//! Faults that tests plant, to show that the checks find them.
//!
//! Outside of tests [`planted`] is the constant `false` and nothing remains of a fault.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

use super::names::KeptNames;
use crate::pool::NodeId;
use crate::pool::wire::LogEntry;

egret_net::faults! {
    /// Faults in the registry.
    pub(crate) enum Fault {
        /// A key that had a life gets another.
        KeyReused,
        /// A node may have the host of another member.
        HostShared,
        /// A member may write as many entries as it likes.
        Unthrottled,
        /// Nodes join a pool that is closed.
        ClosedOpen,
        /// A node that was declared dead is served.
        NotFenced,
        /// A rank that is joined again has the incarnation that it had.
        SameIncarnation,
        /// Names outlive their node.
        NamesKept,
        /// A node misses an event.
        Skipped,
        /// A node gets events in another order.
        Reordered,
        /// A node that was probed and does not answer is never declared dead.
        Deaf,
        /// A silent node is not probed.
        Unasked,
        /// The time in which the registry was stopped counts.
        Unforgiving,
        /// A node that is gone dies again with its link.
        TwiceDead,
        /// A name is taken back whatever it stands for by now.
        AnyUnbound,
        /// The names of all nodes may take any number of bytes.
        NamesUnlimited,
        /// A wait for a name is not answered when the name is bound.
        WaitForgotten,
        /// A wait for a name goes on although nobody is left to bind it.
        InVain,
        /// An answer leaves before what it promises is on disk.
        AnsweredEarly,
        /// A torn frame stays at the end of the log on disk.
        TornKept,
        /// A frame counts as whole whatever its checksum is.
        ChecksumUnread,
        /// Entries of views are left out when the log on disk is read.
        ViewsUnread,
        /// A snapshot has no names.
        NamesUnsaved,
        /// A node that makes another link gets an event again that it knows.
        Doubled,
        /// A node that was declared dead comes back by a new link.
        DeadResumed,
        /// A registry that is started again counts lives anew.
        LivesForgotten,
        /// A question that is asked again is carried out again.
        CarriedOutTwice,
        /// Any process that asks is taken for the operator.
        AnyOperator,
        /// Members are not waited for after the registry was started again.
        Graceless,
    }
}

/// The names in a snapshot.
#[inline]
pub(super) fn saved(names: KeptNames) -> KeptNames {
    if planted(Fault::NamesUnsaved) { KeptNames::default() } else { names }
}

/// The entries of the log that a node is told, in their order, and whether other nodes are told the same.
#[inline]
pub(super) fn told(
    (mut entries, is_same): (Vec<LogEntry>, bool),
    first: Option<&LogEntry>,
    node: NodeId,
) -> (Vec<LogEntry>, bool) {
    if planted(Fault::Skipped) && entries.len() > 1 {
        entries.pop();
        entries.splice(0..0, first.cloned());
    }
    if planted(Fault::Doubled) && first.is_some_and(|first| !entries.contains(first)) {
        entries.splice(0..0, first.cloned());
    }
    if planted(Fault::Reordered) && node.rank == 1 {
        entries.reverse();
    }
    (entries, is_same && !planted(Fault::Reordered))
}
