//! The payloads, with everybody's traits.

use bincode::{Decode, Encode};
use egret_net::buf::Plain;
use egret_stream::Wire;
use serde::{Deserialize, Serialize};
use speedy::{Readable, Writable};

macro_rules! node {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty),* } $($link:ident),*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Wire, Encode, Decode, Readable, Writable, Serialize, Deserialize)]
        #[derive(rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
        #[rkyv(serialize_bounds(__S: rkyv::ser::Writer, __S::Error: rkyv::rancor::Source))]
        #[rkyv(deserialize_bounds(__D::Error: rkyv::rancor::Source))]
        #[rkyv(bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source)))]
        pub struct $name {
            $(pub $field: $ty,)*
            $(#[rkyv(omit_bounds)] pub $link: Option<Box<$name>>,)*
        }
    };
}

node!(/// Four numbers and two children.
    Node { values: [i32; 4] } left, right);
node!(/// One number and two children.
    Leaf { value: i32 } left, right);

/// An element of a linked list.
pub type Item<const N: usize> = <Length<N> as Listed>::Item;

/// How many numbers an element has.
pub struct Length<const N: usize>;

/// Which type has so many.
pub trait Listed {
    /// It.
    type Item;
}

node!(/// One number.
    Item1 { values: [i32; 1] } next);
node!(/// Four numbers.
    Item4 { values: [i32; 4] } next);

impl Listed for Length<1> {
    type Item = Item1;
}
impl Listed for Length<4> {
    type Item = Item4;
}
impl Listed for Length<40> {
    type Item = Item40;
}

/// Forty numbers; serde knows arrays of up to 32, so these are two.
#[derive(
    Debug,
    Clone,
    Wire,
    Encode,
    Decode,
    Readable,
    Writable,
    Serialize,
    Deserialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
#[rkyv(serialize_bounds(__S: rkyv::ser::Writer, __S::Error: rkyv::rancor::Source))]
#[rkyv(deserialize_bounds(__D::Error: rkyv::rancor::Source))]
#[rkyv(bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source)))]
pub struct Item40 {
    pub values: [i32; 20],
    pub more: [i32; 20],
    #[rkyv(omit_bounds)]
    pub next: Option<Box<Item40>>,
}

/// A plain struct.
#[derive(
    Debug,
    Clone,
    Copy,
    Plain,
    Wire,
    Encode,
    Decode,
    Readable,
    Writable,
    Serialize,
    Deserialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
#[wire(plain)]
#[repr(C)]
pub struct Complex {
    pub re: f64,
    pub im: f64,
}

/// A balanced tree.
pub fn nodes(count: i32) -> Option<Box<Node>> {
    let below = count - 1;
    (count > 0).then(|| {
        let (left, right) = (nodes(below / 2), nodes(below - below / 2));
        Box::new(Node { values: [count; 4], left, right })
    })
}

/// A balanced tree.
pub fn leaves(count: i32) -> Option<Box<Leaf>> {
    let below = count - 1;
    (count > 0).then(|| {
        let (left, right) = (leaves(below / 2), leaves(below - below / 2));
        Box::new(Leaf { value: count, left, right })
    })
}

/// Makes an element before another.
pub trait Chain: Sized {
    /// It.
    fn link(value: i32, next: Option<Box<Self>>) -> Self;
}

impl Chain for Item1 {
    fn link(value: i32, next: Option<Box<Self>>) -> Self {
        Self { values: [value; 1], next }
    }
}
impl Chain for Item4 {
    fn link(value: i32, next: Option<Box<Self>>) -> Self {
        Self { values: [value; 4], next }
    }
}
impl Chain for Item40 {
    fn link(value: i32, next: Option<Box<Self>>) -> Self {
        Self { values: [value; 20], more: [value; 20], next }
    }
}

/// A list.
pub fn items<T: Chain>(count: i32) -> Option<Box<T>> {
    (0..count).fold(None, |next, value| Some(Box::new(T::link(value, next))))
}
