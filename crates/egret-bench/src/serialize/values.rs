//! The values that `egret bench serialize` writes and reads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use egret::buf::Plain;
use egret::wire::Wire;

/// A node of a tree, with four numbers.
#[derive(Debug, Clone, Wire)]
pub(crate) struct TreeNode {
    values: [i32; 4],
    left: Option<Box<TreeNode>>,
    right: Option<Box<TreeNode>>,
}

impl TreeNode {
    /// What tells one tree from another.
    pub(crate) fn mark(&self) -> u32 {
        self.values[0].cast_unsigned()
    }

    pub(crate) fn set_mark(&mut self, mark: u8) {
        self.values[0] = mark.into();
    }
}

/// A node of a tree, with one number.
#[derive(Debug, Clone, Wire)]
pub(crate) struct Leaf {
    value: i32,
    left: Option<Box<Leaf>>,
    right: Option<Box<Leaf>>,
}

/// An element of a linked list, with `N` numbers.
#[derive(Debug, Clone, Wire)]
pub(crate) struct ListItem<const N: usize> {
    values: [i32; N],
    next: Option<Box<ListItem<N>>>,
}

/// An object of a graph: two numbers, and others that it knows.
#[derive(Debug, Default, Wire)]
pub(crate) struct MeshObject {
    values: [i32; 2],
    known: Vec<Rc<RefCell<MeshObject>>>,
}

/// A graph whose objects all hold each other, until it is dropped; its clone is one of
/// the same shape.
#[derive(Debug, Wire)]
pub(crate) struct MeshGraph(Rc<RefCell<MeshObject>>);

impl Drop for MeshGraph {
    fn drop(&mut self) {
        let mut open = std::mem::take(&mut self.0.borrow_mut().known);
        while let Some(object) = open.pop() {
            open.append(&mut object.borrow_mut().known);
        }
    }
}

impl Clone for MeshGraph {
    fn clone(&self) -> Self {
        let mut copies = BTreeMap::new();
        let root = copied(&self.0, &mut copies);
        Self(root)
    }
}

type Copies = BTreeMap<*const RefCell<MeshObject>, Rc<RefCell<MeshObject>>>;

fn copied(object: &Rc<RefCell<MeshObject>>, copies: &mut Copies) -> Rc<RefCell<MeshObject>> {
    if let Some(copy) = copies.get(&Rc::as_ptr(object)) {
        return Rc::clone(copy);
    }
    let copy = Rc::new(RefCell::new(MeshObject::default()));
    copies.insert(Rc::as_ptr(object), Rc::clone(&copy));
    let known = object.borrow().known.iter().map(|known| copied(known, copies)).collect();
    *copy.borrow_mut() = MeshObject { values: object.borrow().values, known };
    copy
}

/// A graph of `count` objects: each knows the two below it, the one above, and one
/// of the first.
pub(crate) fn graph(count: usize) -> MeshGraph {
    let objects: Vec<Rc<RefCell<MeshObject>>> = (0..count).map(|_| Rc::default()).collect();
    for (at, object) in objects.iter().enumerate() {
        let known = [2 * at + 1, 2 * at + 2, at.saturating_sub(1) / 2, at / 8];
        let known = known.iter().filter_map(|&known| objects.get(known)).map(Rc::clone).collect();
        *object.borrow_mut() = MeshObject { values: [1, 2], known };
    }
    MeshGraph(Rc::clone(&objects[0]))
}

/// A plain struct.
#[derive(Debug, Clone, Copy, Plain, Wire)]
#[wire(plain)]
#[repr(C)]
pub(crate) struct Complex {
    pub(crate) re: f64,
    pub(crate) im: f64,
}

/// Nodes of the tree of both papers' measurements.
pub(crate) const NODES: i32 = 1023;

/// A balanced tree of `count` nodes.
pub(crate) fn nodes(count: i32) -> Option<Box<TreeNode>> {
    let below = count - 1;
    (count > 0).then(|| {
        let (left, right) = (nodes(below / 2), nodes(below - below / 2));
        Box::new(TreeNode { values: [count; 4], left, right })
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
pub(crate) fn items<const N: usize>(count: i32) -> Option<Box<ListItem<N>>> {
    (0..count).fold(None, |next, value| Some(Box::new(ListItem { values: [value; N], next })))
}
