//! What is called, with what, and what has to come of it.

use anyhow::{Result, ensure};

use crate::values::{Node, nodes};

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Nothing there, nothing back.
    Null,
    /// So many bytes there, four back.
    Bytes(usize),
    /// A tree of 1023 nodes there, its sum back.
    Tree,
}

impl Call {
    /// What it is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bytes(1024) => "bytes-1k",
            Self::Bytes(_) => "bytes-100k",
            Self::Tree => "tree1023",
        }
    }
}

/// A measurement: a call, and how many are under way at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub call: Call,
    pub inflight: usize,
}

/// Everything that is measured.
pub const CASES: [Case; 5] = [
    Case { call: Call::Null, inflight: 1 },
    Case { call: Call::Null, inflight: 64 },
    Case { call: Call::Bytes(1024), inflight: 1 },
    Case { call: Call::Bytes(100_000), inflight: 1 },
    Case { call: Call::Tree, inflight: 1 },
];

/// What every byte of a round's payload is.
#[expect(clippy::cast_possible_truncation, reason = "less than a byte")]
pub const fn mark(round: u64) -> u8 {
    (round % 251) as u8
}

/// What a server says about bytes that have come: how many, and both ends.
pub fn ends(bytes: &[u8]) -> u32 {
    let end = |end: Option<&u8>| end.copied().map_or(0, u32::from);
    end(bytes.first()) | end(bytes.last()) << 8 | (bytes.len() as u32) << 16
}

/// Whether it says what it has to in a round with `len` bytes.
pub fn is_ends(round: u64, len: usize, got: u32) -> Result<()> {
    let end = u32::from(mark(round));
    ensure!(got == end | end << 8 | (len as u32) << 16, "bytes arrived damaged");
    Ok(())
}

/// A round's tree.
pub fn tree(round: u64) -> Node {
    let mut tree = *nodes(1023).expect("it has nodes");
    tree.values[0] = i32::from(mark(round));
    tree
}

/// What a server says about a tree.
pub fn total(tree: &Node) -> i64 {
    let below = |node: &Option<Box<Node>>| node.as_ref().map_or(0, |node| total(node));
    tree.values.iter().map(|&value| i64::from(value)).sum::<i64>()
        + below(&tree.left)
        + below(&tree.right)
}

/// What it says about a tree as it is made, before a round marks it.
pub fn plain() -> i64 {
    total(&tree(0)) - i64::from(mark(0))
}

/// Whether it says what it has to in a round.
pub fn is_total(round: u64, plain: i64, got: i64) -> Result<()> {
    ensure!(got == plain + i64::from(mark(round)), "a tree arrived damaged");
    Ok(())
}
