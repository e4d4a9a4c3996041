//! A graph with some of everything.

use crate::graph::{Object, Ref, Slice, Text};
use crate::{graph_dynamic, graph_register};

/// The root.
#[derive(Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct World {
    pub(crate) first: Ref<Node>,
    pub(crate) numbers: Slice<u16>,
    pub(crate) all: Option<Slice<Ref<Node>>>,
    pub(crate) marks: Option<Slice<Mark>>,
    pub(crate) title: Option<Text>,
    pub(crate) thing: Option<Ref<dyn Thing>>,
}

/// References of all kinds, and values that not all bits are.
#[derive(Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct Node {
    pub(crate) id: u32,
    pub(crate) letter: char,
    pub(crate) kind: Kind,
    pub(crate) is_red: bool,
    pub(crate) fill: [u8; 6],
    pub(crate) next: [Option<Ref<Node>>; 2],
    pub(crate) name: Option<Text>,
    pub(crate) thing: Option<Ref<dyn Thing>>,
    pub(crate) way: Way,
}

#[derive(Clone, Copy, Object, PartialEq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Town,
    Port = 3,
    Bridge,
}

#[derive(Clone, Copy, Object)]
#[repr(u64)]
pub(crate) enum Way {
    Nowhere { fill: u64 },
    To(Ref<Node>),
    Said(Text),
}

/// An element of slices.
#[derive(Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct Mark {
    pub(crate) to: Option<Ref<Node>>,
    pub(crate) at: [u16; 3],
    pub(crate) is_red: bool,
    pub(crate) kind: Kind,
}

/// What is known of objects of two types.
pub(crate) trait Thing {
    fn size(&self) -> u64;
    fn resize(&mut self, size: u64);
}
graph_dynamic!(Thing);
graph_register!(Dot as dyn Thing, Line as dyn Thing);

#[derive(Clone, Copy, Object)]
#[object(check = is_small)]
#[repr(C)]
pub(crate) struct Dot(pub(crate) u64);

fn is_small(dot: &Dot) -> bool {
    dot.0 < DOT_END
}

/// No dot is as large.
pub(crate) const DOT_END: u64 = 1 << 32;

#[derive(Clone, Copy, Object)]
#[repr(C)]
pub(crate) struct Line {
    pub(crate) from: Ref<Node>,
    pub(crate) to: Option<Ref<dyn Thing>>,
}

impl Thing for Dot {
    fn size(&self) -> u64 {
        self.0
    }
    fn resize(&mut self, size: u64) {
        self.0 = size % DOT_END;
    }
}

impl Thing for Line {
    fn size(&self) -> u64 {
        1
    }
    fn resize(&mut self, _: u64) {}
}

/// The sorts of objects that a world has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    World,
    Node,
    Dot,
    Line,
    Text,
    Numbers,
    Nodes,
    Marks,
}

impl Sort {
    pub(crate) const ALL: [Self; 8] = [
        Self::World,
        Self::Node,
        Self::Dot,
        Self::Line,
        Self::Text,
        Self::Numbers,
        Self::Nodes,
        Self::Marks,
    ];

    /// Whether its reference with this number may lead to an object of sort `to`.
    pub(crate) fn refers(self, which: usize, to: Self) -> bool {
        let things = [Self::Dot, Self::Line];
        match (self, which) {
            (Self::World, 0) | (Self::Node, 0 | 1) | (Self::Line, 0) => to == Self::Node,
            (Self::Nodes | Self::Marks, _) => to == Self::Node,
            (Self::World, 1) => to == Self::Numbers,
            (Self::World, 2) => to == Self::Nodes,
            (Self::World, 3) => to == Self::Marks,
            (Self::World, 4) | (Self::Node, 2) => to == Self::Text,
            (Self::World, 5) | (Self::Node, 3) | (Self::Line, 1) => things.contains(&to),
            (Self::Node, 4) => [Self::Node, Self::Text].contains(&to),
            _ => false,
        }
    }

    /// Whether its reference with this number cannot be taken away by a compaction.
    pub(crate) fn needs(self, which: usize) -> bool {
        match self {
            Self::World => which < 2,
            Self::Node => which == 4,
            Self::Line => which == 0,
            Self::Nodes => true,
            _ => false,
        }
    }
}
