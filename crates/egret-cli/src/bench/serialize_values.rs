//! The values that `egret bench serialize` writes and reads.

use egret::net::buf::Plain;
use egret::stream::Wire;

/// A node of a tree, with four numbers.
#[derive(Debug, Clone, Wire)]
#[wire(crate = egret::stream)]
pub(crate) struct Node {
    values: [i32; 4],
    left: Option<Box<Node>>,
    right: Option<Box<Node>>,
}

/// A node of a tree, with one number.
#[derive(Debug, Clone, Wire)]
#[wire(crate = egret::stream)]
pub(crate) struct Leaf {
    value: i32,
    left: Option<Box<Leaf>>,
    right: Option<Box<Leaf>>,
}

/// An element of a linked list, with `N` numbers.
#[derive(Debug, Clone, Wire)]
#[wire(crate = egret::stream)]
pub(crate) struct Item<const N: usize> {
    values: [i32; N],
    next: Option<Box<Item<N>>>,
}

/// A plain struct.
#[derive(Debug, Clone, Copy, Plain, Wire)]
#[plain(crate = egret::net)]
#[wire(crate = egret::stream, plain)]
#[repr(C)]
pub(crate) struct Complex {
    pub(crate) re: f64,
    pub(crate) im: f64,
}

/// A balanced tree of `count` nodes.
pub(crate) fn nodes(count: i32) -> Option<Box<Node>> {
    let below = count - 1;
    (count > 0).then(|| {
        let (left, right) = (nodes(below / 2), nodes(below - below / 2));
        Box::new(Node { values: [count; 4], left, right })
    })
}

/// A balanced tree of `count` numbers.
pub(crate) fn leaves(count: i32) -> Option<Box<Leaf>> {
    let below = count - 1;
    (count > 0).then(|| {
        let (left, right) = (leaves(below / 2), leaves(below - below / 2));
        Box::new(Leaf { value: count, left, right })
    })
}

/// A list of `count` elements.
pub(crate) fn items<const N: usize>(count: i32) -> Option<Box<Item<N>>> {
    (0..count).fold(None, |next, value| Some(Box::new(Item { values: [value; N], next })))
}
