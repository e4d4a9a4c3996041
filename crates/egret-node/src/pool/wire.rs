//! The messages between nodes and the registry, as objects of a stream.
//!
//! A node sends requests, and the registry answers each once, now or later. There is nothing else:
//! events are the answer to a [`Follow`](RegistryQuestion::Follow) that the node has sent before.

use egret_stream::{Reader, Wire, Writer};

use super::{Departure, FabricOffer, Location, Member, NodeId, RegistryRefusal};

/// A request of a node.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) enum RegistryQuestion {
    /// Makes the requesting node a member.
    Join(JoinRequest),
    /// Requests the events from this entry of the log on. Answered when there are some, or with none
    /// to probe whether the node lives.
    Follow { next: u64 },
    /// Binds a name to some bytes.
    Bind { name: String, bytes: Vec<u8>, replace: bool },
    /// Takes a name back if it is bound to these bytes.
    Unbind { name: String, bytes: Vec<u8> },
    /// Looks a name up; waits so many milliseconds until it is bound.
    Lookup { name: String, wait_ms: u64 },
    /// Leaves the pool.
    Leave,
    /// Enters a view.
    Enter { view: String },
    /// Exits a view.
    Exit { view: String },
    /// Sends a signal to these nodes.
    Signal { to: Vec<NodeId>, bytes: Vec<u8> },
    /// Closes the pool for nodes that have not joined.
    Close,
    /// Declares that the work of the pool is done.
    Terminate,
    /// Has the registry probe whether a member lives.
    Suspect { node: NodeId },
    /// Requests the bound names that begin so, from behind one of them on.
    Names { prefix: String, after: Option<String> },
    /// Frees a name that the requesting node has bound, whatever it is bound to.
    Free { name: String },
    /// Makes this link that of a member, which knows the entries of the log below `next`: it has lost its link to the
    /// registry.
    Resume { id: NodeId, next: u64 },
    /// Reports what the requesting node does and waits for, as the registry has asked with this number.
    Report { number: u64, bytes: Vec<u8> },
    /// Requests what the registry serves, for the operator of this pool.
    Operate { pool: String },
    /// Declares a member dead; for the operator alone.
    DeclareDead { node: NodeId, why: String },
    /// Reports that the process of a rank has ended, whose life as a node is a later one than the first `lives`; for
    /// the operator alone.
    Ended { rank: u32, lives: u64, why: String },
}

/// The description of a node that joins.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) struct JoinRequest {
    pub(crate) pool: String,
    /// The pool's size as the node knows it.
    pub(crate) size: Option<u32>,
    /// Whether the node joins an open pool only.
    pub(crate) is_open: bool,
    /// The rank that the node requests; else the lowest free one.
    pub(crate) rank: Option<u32>,
    pub(crate) machine: String,
    pub(crate) location: Location,
    pub(crate) fabrics: Vec<FabricOffer>,
}

/// An answer of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) enum RegistryAnswer {
    /// The node is a member now, of a closed pool of this size, or of an open one of so many members at most.
    /// `heard_ms` is the longest time in milliseconds between two messages of the registry; `resume_ms` is how long
    /// the registry waits for its members when it was started again, and 0 if it forgets them.
    Welcome { id: NodeId, size: u32, is_open: bool, heard_ms: u64, resume_ms: u64 },
    /// Events, from this entry of the log on.
    Events { first: u64, entries: Vec<LogEntry> },
    /// The request was carried out.
    Done,
    /// The owner of a name, and the bytes it is bound to.
    Bound { owner: NodeId, bytes: Vec<u8> },
    /// The name is not bound.
    NotBound,
    /// The request was refused.
    Refused(RegistryRefusal),
    /// The name is not bound, and the node that had it last is gone.
    OwnerGone { name: String, owner: NodeId, fate: Departure },
    /// The name is not bound, and all other nodes are gone.
    NobodyLeft { name: String },
    /// The name is not bound: its last owner, a member, has taken it back.
    Withdrawn { owner: NodeId },
    /// A piece of the state of the pool, in place of entries of the log: its bytes from `offset` on, of
    /// `total`. The next [`Follow`](RegistryQuestion::Follow) is answered by the next piece.
    Snapshot { offset: u64, total: u64, bytes: Vec<u8> },
    /// The request was carried out, and what came of it is in the entries of the log below this number.
    Reached { next: u64 },
    /// Bound names and their owners; whether there are more.
    Names { names: Vec<(String, NodeId)>, more: bool },
    /// In place of events: the node is to send a [`Report`](RegistryQuestion::Report) with this number, and the same
    /// [`Follow`](RegistryQuestion::Follow) again.
    Report { number: u64 },
    /// The size of a closed pool, or how many members an open one has at most, and how many lives have begun.
    Terms { size: u32, is_open: bool, lives: u64 },
}

/// One event in the registry's log.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) enum LogEntry {
    Joined(Member),
    Left(NodeId),
    Died {
        node: NodeId,
        why: String,
    },
    Entered {
        view: String,
        node: NodeId,
    },
    Exited {
        view: String,
        node: NodeId,
    },
    /// To nodes that it is not for it says only that there was one.
    Signal {
        from: NodeId,
        to: Vec<NodeId>,
        bytes: Vec<u8>,
    },
    Closed {
        by: NodeId,
    },
    Terminated {
        by: NodeId,
    },
}

impl RegistryQuestion {
    /// Whether the question may change what lasts of the registry.
    pub(crate) const fn is_change(&self) -> bool {
        match self {
            Self::Join(_)
            | Self::Bind { .. }
            | Self::Unbind { .. }
            | Self::Leave
            | Self::Enter { .. }
            | Self::Exit { .. }
            | Self::Signal { .. }
            | Self::Close
            | Self::Terminate
            | Self::Free { .. }
            | Self::DeclareDead { .. }
            | Self::Ended { .. } => true,
            Self::Follow { .. }
            | Self::Lookup { .. }
            | Self::Suspect { .. }
            | Self::Names { .. }
            | Self::Resume { .. }
            | Self::Report { .. }
            | Self::Operate { .. } => false,
        }
    }

    /// Whether only the operator of the registry may ask this.
    pub(crate) const fn is_of_operator(&self) -> bool {
        matches!(self, Self::Operate { .. } | Self::DeclareDead { .. } | Self::Ended { .. })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        bytes_of(self)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Reader::new(bytes).read_last().ok()
    }
}

impl RegistryAnswer {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        bytes_of(self)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Reader::new(bytes).read_last().ok()
    }
}

impl LogEntry {
    pub(crate) fn len(&self) -> usize {
        bytes_of(self).len()
    }

    /// The node that has joined, if one has.
    pub(crate) const fn joined(&self) -> Option<&Member> {
        if let Self::Joined(member) = self { Some(member) } else { None }
    }

    /// Whether the entry is an event at this node.
    pub(crate) fn is_for(&self, node: Option<NodeId>) -> bool {
        match self {
            Self::Signal { to, .. } => node.is_some_and(|node| to.contains(&node)),
            _ => true,
        }
    }

    /// The entry as it is sent to this node.
    pub(crate) fn sent_to(&self, node: NodeId) -> Self {
        match self {
            Self::Signal { from, .. } if !self.is_for(Some(node)) => {
                Self::Signal { from: *from, to: Vec::new(), bytes: Vec::new() }
            }
            entry => entry.clone(),
        }
    }
}

pub(crate) fn bytes_of<T: Wire>(value: &T) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.write_copy(value).expect("a frame that is not deep");
    writer.to_vec()
}

/// Nodes of a pool.
pub(crate) const SIZE_MAX: u32 = 65_536;
/// Bytes of a name.
pub(crate) const NAME_MAX: usize = 255;
/// The version of the protocol: the first word of every request. The request of a member that may be asked again has
/// two more: its number, and the number below which the member asks none again.
pub(crate) const VERSION: u64 = 5;
/// The endpoint that the registry is.
pub(crate) const ENDPOINT: &str = "egret.registry";
/// The handler of all requests there.
pub(crate) const ASK: u8 = 0;
/// The handler, at the node, of answers to [`RegistryQuestion::Follow`].
pub(crate) const EVENTS: u8 = 1;
/// The handler of other answers: none, they are the answers of their calls.
pub(crate) const PLAIN: u8 = u8::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Properties;
    use crate::pool::state::PoolState;

    fn shown(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_bytes_are_these_for_ever() {
        let id = NodeId { rank: 2, incarnation: 17 };
        let offer = FabricOffer::new("tcp", "h:1", Properties::network().with("k", "v"));
        let (pool, machine) = ("p".to_owned(), "m".to_owned());
        let location = "c@h@r@s".parse().unwrap();
        let (size, rank, is_open, fabrics) = (Some(4), None, false, vec![offer]);
        let join = JoinRequest { pool, size, is_open, rank, machine, location, fabrics };
        let lookup = RegistryQuestion::Lookup { name: "n".into(), wait_ms: 500 };
        let bind = RegistryQuestion::Bind { name: "n".into(), bytes: vec![7], replace: true };
        let unbind = RegistryQuestion::Unbind { name: "n".into(), bytes: vec![7] };
        let died = vec![LogEntry::Left(id), LogEntry::Died { node: id, why: "w".into() }];
        let owner_gone = |fate| RegistryAnswer::OwnerGone { name: "n".into(), owner: id, fate };
        for (bytes, golden) in [
            (
                RegistryQuestion::Join(join).to_bytes(),
                "00010000007001040000000000010000006d0100000063010000006801000000720100000073010000000300000074637003000000683a3101010101000001000000010000006b0100000076",
            ),
            (RegistryQuestion::Follow { next: 5 }.to_bytes(), "010500000000000000"),
            (bind.to_bytes(), "02010000006e010000000701"),
            (unbind.to_bytes(), "03010000006e0100000007"),
            (lookup.to_bytes(), "04010000006ef401000000000000"),
            (RegistryQuestion::Leave.to_bytes(), "05"),
            (
                RegistryAnswer::Welcome {
                    id,
                    size: 4,
                    is_open: false,
                    heard_ms: 10_000,
                    resume_ms: 30_000,
                }
                .to_bytes(),
                "00020000001100000000000000040000000010270000000000003075000000000000",
            ),
            (
                RegistryAnswer::Events { first: 5, entries: died }.to_bytes(),
                "0105000000000000000200000001020000001100000000000000020200000011000000000000000100000077",
            ),
            (
                RegistryAnswer::Refused(RegistryRefusal::NameTaken { owner: id }).to_bytes(),
                "050a020000001100000000000000",
            ),
            (
                RegistryAnswer::Refused(RegistryRefusal::Version { theirs: 3 }).to_bytes(),
                "05000300000000000000",
            ),
            (
                RegistryAnswer::Refused(RegistryRefusal::TooLarge { what: "w".into(), most: 4 })
                    .to_bytes(),
                "050b01000000770400000000000000",
            ),
            (owner_gone(Departure::Left).to_bytes(), "06010000006e02000000110000000000000000"),
            (
                owner_gone(Departure::Died { why: "w".into() }).to_bytes(),
                "06010000006e020000001100000000000000010100000077",
            ),
            (RegistryAnswer::NobodyLeft { name: "n".into() }.to_bytes(), "07010000006e"),
            (RegistryAnswer::Withdrawn { owner: id }.to_bytes(), "08020000001100000000000000"),
        ] {
            assert_eq!(shown(&bytes), golden);
        }
    }

    #[test]
    fn the_bytes_of_a_registry_that_lasts_are_these_for_ever() {
        let id = NodeId { rank: 2, incarnation: 17 };
        for (bytes, golden) in [
            (
                RegistryQuestion::Resume { id, next: 5 }.to_bytes(),
                "0e0200000011000000000000000500000000000000",
            ),
            (
                RegistryQuestion::Report { number: 5, bytes: vec![7] }.to_bytes(),
                "0f05000000000000000100000007",
            ),
            (RegistryAnswer::Report { number: 5 }.to_bytes(), "0c0500000000000000"),
            (
                RegistryAnswer::Refused(RegistryRefusal::Unwritten { why: "w".into() }).to_bytes(),
                "05100100000077",
            ),
            (
                RegistryAnswer::Refused(RegistryRefusal::OlderState { knows: 5, has: 4 })
                    .to_bytes(),
                "051105000000000000000400000000000000",
            ),
            (RegistryQuestion::Operate { pool: "p".into() }.to_bytes(), "100100000070"),
            (
                RegistryQuestion::DeclareDead { node: id, why: "w".into() }.to_bytes(),
                "110200000011000000000000000100000077",
            ),
            (
                RegistryQuestion::Ended { rank: 2, lives: 17, why: "w".into() }.to_bytes(),
                "120200000011000000000000000100000077",
            ),
            (
                RegistryAnswer::Terms { size: 4, is_open: true, lives: 17 }.to_bytes(),
                "0d04000000011100000000000000",
            ),
            (RegistryAnswer::Refused(RegistryRefusal::NotOperator).to_bytes(), "0513"),
        ] {
            assert_eq!(shown(&bytes), golden);
        }
    }

    #[test]
    fn the_bytes_of_views_and_signals_are_these_for_ever() {
        let id = NodeId { rank: 2, incarnation: 17 };
        let view = || "v".to_owned();
        let names = vec![("n".to_owned(), id)];
        let log = [
            LogEntry::Entered { view: view(), node: id },
            LogEntry::Exited { view: view(), node: id },
            LogEntry::Signal { from: id, to: vec![id], bytes: vec![7] },
            LogEntry::Closed { by: id },
            LogEntry::Terminated { by: id },
        ];
        for (bytes, golden) in [
            (RegistryQuestion::Enter { view: view() }.to_bytes(), "060100000076"),
            (RegistryQuestion::Exit { view: view() }.to_bytes(), "070100000076"),
            (
                RegistryQuestion::Signal { to: vec![id], bytes: vec![7] }.to_bytes(),
                "08010000000200000011000000000000000100000007",
            ),
            (RegistryQuestion::Close.to_bytes(), "09"),
            (RegistryQuestion::Terminate.to_bytes(), "0a"),
            (RegistryQuestion::Suspect { node: id }.to_bytes(), "0b020000001100000000000000"),
            (
                RegistryQuestion::Names { prefix: "p".into(), after: Some("q".into()) }.to_bytes(),
                "0c0100000070010100000071",
            ),
            (RegistryQuestion::Free { name: "n".into() }.to_bytes(), "0d010000006e"),
            (
                RegistryAnswer::Snapshot { offset: 1, total: 2, bytes: vec![7] }.to_bytes(),
                "09010000000000000002000000000000000100000007",
            ),
            (RegistryAnswer::Reached { next: 5 }.to_bytes(), "0a0500000000000000"),
            (
                RegistryAnswer::Names { names, more: true }.to_bytes(),
                "0b01000000010000006e02000000110000000000000001",
            ),
            (
                RegistryAnswer::Refused(RegistryRefusal::PoolClosed { by: id }).to_bytes(),
                "050f020000001100000000000000",
            ),
            (RegistryAnswer::Refused(RegistryRefusal::OpenPool).to_bytes(), "050e"),
            (bytes_of(&log[0]), "030100000076020000001100000000000000"),
            (bytes_of(&log[1]), "040100000076020000001100000000000000"),
            (
                bytes_of(&log[2]),
                "05020000001100000000000000010000000200000011000000000000000100000007",
            ),
            (bytes_of(&log[3]), "06020000001100000000000000"),
            (bytes_of(&log[4]), "07020000001100000000000000"),
        ] {
            assert_eq!(shown(&bytes), golden);
        }
        let mut state = PoolState::of_size(None);
        state.apply(
            &LogEntry::Joined(Member::new(id, "m".into(), Location::default(), Vec::new(), None)),
            |_| {},
        );
        log.iter().for_each(|entry| state.apply(entry, |_| {}));
        assert_eq!(
            shown(&state.to_bytes()),
            "0006000000000000000100000002000000020000001100000000000000010000006d0000000000000000000000000000000000000000000000000000000000000000001100000000000000000000000102000000110000000000000001020000001100000000000000"
        );
    }

    #[test]
    fn cut_or_too_long_questions_are_refused() {
        let bytes = RegistryQuestion::Unbind { name: "name".into(), bytes: vec![7] }.to_bytes();
        for len in 0..bytes.len() {
            assert_eq!(RegistryQuestion::from_bytes(&bytes[..len]), None);
        }
        assert_eq!(RegistryQuestion::from_bytes(&[&bytes[..], &[0]].concat()), None);
    }
}
