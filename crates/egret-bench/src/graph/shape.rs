//! The graphs that `egret bench graph` measures.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::map::RoadMap;

/// A graph that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum GraphShape {
    /// A balanced tree of 1,023 nodes
    Tree1023,
    /// A map of 10 towns
    Map29,
    /// Of 100
    Map355,
    /// Of 500
    Map1760,
    #[value(name = "map100k")]
    Map100k,
    #[value(name = "map1m")]
    Map1m,
}

impl GraphShape {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tree1023 => "tree1023",
            Self::Map29 => "map29",
            Self::Map355 => "map355",
            Self::Map1760 => "map1760",
            Self::Map100k => "map100k",
            Self::Map1m => "map1m",
        }
    }

    pub(crate) const fn objects(self) -> usize {
        match self {
            Self::Tree1023 => 1023,
            Self::Map29 => 29,
            Self::Map355 => 355,
            Self::Map1760 => 1760,
            Self::Map100k => 100_000,
            Self::Map1m => 1_000_000,
        }
    }

    /// What the graph is made after; a tree needs no more than its number of nodes.
    pub(crate) fn map(self) -> Option<RoadMap> {
        let towns = match self {
            Self::Tree1023 => return None,
            Self::Map29 => 10,
            Self::Map355 => 100,
            Self::Map1760 => 500,
            Self::Map100k => 28_400,
            Self::Map1m => 284_000,
        };
        Some(RoadMap::draw(towns, self.objects()))
    }
}
