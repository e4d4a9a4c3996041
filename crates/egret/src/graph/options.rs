//! How the graphs of a node are to be, and the rank from which they come.

use std::fmt;

/// How the graphs of a node are to be. The defaults are right for most.
///
/// ```
/// use egret::prelude::*;
/// use egret::graph::GraphsOptions;
///
/// # #[derive(Clone, Copy, Object)]
/// # #[repr(C)]
/// # struct Car {
/// #     year: u64,
/// # }
/// # let pool = egret::local::pool(1)?;
/// let options = GraphsOptions::default().name("old cars").bytes_max(1 << 20);
/// let cars = Graphs::<Car>::join_with(&pool[0], options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphsOptions {
    /// What they are called: graphs of one name go to those of the same. Otherwise their type
    /// is.
    pub name: Option<String>,
    /// Most bytes of a graph that is received. Larger ones are refused before they are sent.
    pub bytes_max: u64,
}

impl Default for GraphsOptions {
    fn default() -> Self {
        Self { name: None, bytes_max: 256 << 20 }
    }
}

impl GraphsOptions {
    /// Calls them so: for several at once of one type, or of types with the same name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Receives graphs of at most so many bytes.
    #[must_use]
    pub const fn bytes_max(mut self, bytes: u64) -> Self {
        self.bytes_max = bytes;
        self
    }
}

/// The source of a graph: a rank, or [`ANY`].
/// The [module](super) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Of this rank.
    Rank(u32),
    /// Of any.
    Any,
}

/// A graph of any rank.
pub const ANY: Source = Source::Any;

impl Source {
    pub(super) fn is(self, rank: u32) -> bool {
        matches!(self, Self::Any) || self == Self::Rank(rank)
    }
}

impl From<u32> for Source {
    fn from(rank: u32) -> Self {
        Self::Rank(rank)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Any => f.write_str("any rank"),
        }
    }
}
