//! What nodes and the registry say to each other, as objects of a stream.
//!
//! A node asks, the registry answers once, now or later. There is nothing else: what the
//! registry has to tell of its own accord is the answer to a [`Follow`](Ask::Follow) that
//! it was asked before.

use egret_stream::{Reader, Wire, Writer};

use crate::node::{Fate, Member, NodeId, Offer, Refused};

/// What a node asks.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) enum Ask {
    /// Makes the node that asks a member.
    Join(Join),
    /// What happened, from this entry of the log on. Answered when there is something, or
    /// with nothing to see whether the node lives.
    Follow { next: u64 },
    /// Gives a name to some bytes.
    Bind { name: String, bytes: Vec<u8>, replace: bool },
    /// Takes a name back if it stands for these bytes.
    Unbind { name: String, bytes: Vec<u8> },
    /// What a name stands for; waits so many milliseconds for somebody to bind it.
    Lookup { name: String, wait_ms: u64 },
    /// Is no member any more.
    Leave,
}

/// Who wants to join.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) struct Join {
    pub(crate) pool: String,
    /// What it takes the pool's size for.
    pub(crate) size: Option<u32>,
    /// Which place it wants; else the lowest free.
    pub(crate) rank: Option<u32>,
    pub(crate) machine: String,
    pub(crate) fabrics: Vec<Offer>,
}

/// What the registry answers.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) enum Answer {
    /// The node is a member now, and hears from the registry so often at least, in
    /// milliseconds.
    Welcome { id: NodeId, size: u32, heard_ms: u64 },
    /// What happened, from this entry on.
    Events { first: u64, entries: Vec<Entry> },
    /// It was done.
    Done,
    /// What a name stands for.
    Bound { owner: NodeId, bytes: Vec<u8> },
    /// Nobody has bound the name.
    NotBound,
    /// It was not done.
    Refused(Refused),
    /// Nobody has bound the name, and the node that had it last is gone.
    OwnerGone { name: String, owner: NodeId, fate: Fate },
    /// Nobody has bound the name, and all others are gone.
    NobodyLeft { name: String },
    /// Nobody has bound the name since the node that had it last, a member, has taken it back.
    Withdrawn { owner: NodeId },
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) enum Entry {
    Joined(Member),
    Left(NodeId),
    Died { node: NodeId, why: String },
}

impl Ask {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        bytes_of(self)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Reader::new(bytes).read_last().ok()
    }
}

impl Answer {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        bytes_of(self)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Reader::new(bytes).read_last().ok()
    }
}

impl Entry {
    pub(crate) fn len(&self) -> usize {
        bytes_of(self).len()
    }
}

fn bytes_of<T: Wire>(value: &T) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.write_copy(value).expect("a frame that is not deep");
    writer.to_vec()
}

/// What both sides speak: the word of every request.
pub(crate) const VERSION: u64 = 2;
/// The endpoint that the registry is.
pub(crate) const ENDPOINT: &str = "egret.registry";
/// The handler of all requests there.
pub(crate) const ASK: u8 = 0;
/// The handler, at the node, of answers to [`Ask::Follow`].
pub(crate) const EVENTS: u8 = 1;
/// The handler of other answers: none, they go to who asked.
pub(crate) const PLAIN: u8 = u8::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Properties;

    fn shown(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_bytes_are_these_for_ever() {
        let id = NodeId { rank: 2, incarnation: 17 };
        let offer = Offer::new("tcp", "h:1", Properties::network().with("k", "v"));
        let (pool, machine) = ("p".to_owned(), "m".to_owned());
        let join = Join { pool, size: Some(4), rank: None, machine, fabrics: vec![offer] };
        let lookup = Ask::Lookup { name: "n".into(), wait_ms: 500 };
        let bind = Ask::Bind { name: "n".into(), bytes: vec![7], replace: true };
        let unbind = Ask::Unbind { name: "n".into(), bytes: vec![7] };
        let died = vec![Entry::Left(id), Entry::Died { node: id, why: "w".into() }];
        let owner_gone = |fate| Answer::OwnerGone { name: "n".into(), owner: id, fate };
        for (bytes, golden) in [
            (
                Ask::Join(join).to_bytes(),
                "000100000070010400000000010000006d010000000300000074637003000000683a3101010101000001000000010000006b0100000076",
            ),
            (Ask::Follow { next: 5 }.to_bytes(), "010500000000000000"),
            (bind.to_bytes(), "02010000006e010000000701"),
            (unbind.to_bytes(), "03010000006e0100000007"),
            (lookup.to_bytes(), "04010000006ef401000000000000"),
            (Ask::Leave.to_bytes(), "05"),
            (
                Answer::Welcome { id, size: 4, heard_ms: 10_000 }.to_bytes(),
                "00020000001100000000000000040000001027000000000000",
            ),
            (
                Answer::Events { first: 5, entries: died }.to_bytes(),
                "0105000000000000000200000001020000001100000000000000020200000011000000000000000100000077",
            ),
            (
                Answer::Refused(Refused::NameTaken { owner: id }).to_bytes(),
                "050a020000001100000000000000",
            ),
            (Answer::Refused(Refused::Version { theirs: 3 }).to_bytes(), "05000300000000000000"),
            (
                Answer::Refused(Refused::TooLarge { what: "w".into(), most: 4 }).to_bytes(),
                "050b01000000770400000000000000",
            ),
            (owner_gone(Fate::Left).to_bytes(), "06010000006e02000000110000000000000000"),
            (
                owner_gone(Fate::Died { why: "w".into() }).to_bytes(),
                "06010000006e020000001100000000000000010100000077",
            ),
            (Answer::NobodyLeft { name: "n".into() }.to_bytes(), "07010000006e"),
            (Answer::Withdrawn { owner: id }.to_bytes(), "08020000001100000000000000"),
        ] {
            assert_eq!(shown(&bytes), golden);
        }
    }

    #[test]
    fn what_is_cut_or_too_long_is_no_question() {
        let bytes = Ask::Unbind { name: "name".into(), bytes: vec![7] }.to_bytes();
        for len in 0..bytes.len() {
            assert_eq!(Ask::from_bytes(&bytes[..len]), None);
        }
        assert_eq!(Ask::from_bytes(&[&bytes[..], &[0]].concat()), None);
    }
}
