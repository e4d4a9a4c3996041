//! Objects that refer to each other, in memory that can travel as it is.
//!
//! A [`Graph`] is one block of memory with objects of several types in it. They refer to each
//! other by [`Ref`]s, in cycles if need be. To send the graph is to send the memory: nothing is
//! visited and nothing rewritten, here or there. Who receives it looks at each object once, and
//! uses it where it is.
//!
//! ```
//! use egret_stream::graph::{Graph, Object, Ref, Slice, Text};
//!
//! #[derive(Clone, Copy, Object)]
//! #[repr(C)]
//! struct Map {
//!     towns: Slice<Ref<Town>>,
//! }
//!
//! #[derive(Clone, Copy, Object)]
//! #[repr(C)]
//! struct Town {
//!     name: Text,
//!     next: Option<Ref<Town>>,
//! }
//!
//! let graph = Graph::build(|graph| {
//!     let names = ["Brest", "Vannes", "Nantes"];
//!     let towns = names.map(|name| {
//!         let name = graph.insert_text(name);
//!         graph.insert(Town { name, next: None })
//!     });
//!     for (town, next) in towns.iter().zip(towns.iter().cycle().skip(1)) {
//!         graph[*town].next = Some(*next);
//!     }
//!     let towns = graph.insert_slice(&towns);
//!     graph.insert(Map { towns })
//! });
//!
//! let there = Graph::<Map>::from_bytes(&graph.to_vec())?;
//! let first = there[there.root().towns][0];
//! let second = there[first].next.unwrap();
//! assert_eq!(&there[there[second].name], "Vannes");
//! # Ok::<(), egret_stream::graph::GraphError>(())
//! ```
//!
//! A program that depends on `egret` has this as `egret::graph`.
//!
//! # In memory
//!
//! ```text
//!   Graph ─▶ block   head │ slots of class 0 │ slots of class 1 │ … │ elements of slices │ …
//!
//!   slot     header (class, stamp) │ value
//!   Ref<T>   class 8 bits │ stamp 24 │ index 32
//! ```
//!
//! All objects of a type lie in one array, so that where an object begins is arithmetic and none
//! can lie on another. A reference is the number of a class and an index, which is right wherever
//! the block is; growing moves arrays and changes no reference. The *stamp* tells an object from
//! one that had its place before, and those of one graph from those of another.
//!
//! # What is checked
//!
//! On arrival, in one pass: the types (by fingerprints of their structure), that all lies inside
//! the message and nothing on anything else, every header, `bool`, `char`, tag and text, that
//! every reference leads to an object that lives and is of its type, that slices lie in their
//! elements, and what types say of themselves (`#[object(check = fn)]`). Slices of numbers are not
//! looked at. A [`GraphError`] names the place and the reason.
//!
//! At each access: that the class is the type asked for, that the index is one of its slots,
//! that class and stamp stand before the object, and, for types of which not all bytes are
//! values, that these are one. So a reference that is stale, of another graph, or invented finds
//! nothing, and memory is safe also where a graph was believed unchecked
//! ([`GraphTrust::SameProcessImage`]).
//!
//! `docs/reference/graphs.md` has the bytes and the costs.

mod arena;
mod check;
mod class;
mod column;
mod compact;
#[doc(hidden)]
pub mod dynamic;
mod error;
mod fault;
mod file;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../../../fuzz/models/egret-stream/graph/fuzzing/mod.rs"]
pub(crate) mod fuzzing;
#[expect(clippy::module_inception, reason = "a graph is what this is about")]
mod graph;
mod head;
mod hint;
mod message;
mod object;
mod slot;
mod store;
#[cfg(test)]
mod tests;
mod transport;

pub use class::DescribeObject;
#[doc(hidden)]
pub use class::GraphClass;
pub use egret_derive::Object;
pub use egret_net::buf::{IsA, Ref};
pub use error::{GraphDefect, GraphError, GraphRefusal};
pub use graph::Graph;
#[doc(hidden)]
pub use hint::ClassHint;
pub use object::{Object, RenewRefs, SeeRefs, Target};
#[doc(hidden)]
pub use store::Store;
pub use transport::GraphTrust;

/// A reference to a slice of a graph: its length is fixed when it is
/// [inserted](Graph::insert_slice), its elements can be written.
pub type Slice<T> = Ref<[T]>;

/// A reference to a text of a graph.
///
/// ```
/// use egret_stream::graph::{Graph, Object, Text};
///
/// #[derive(Clone, Copy, Object)]
/// #[repr(C)]
/// struct Town {
///     name: Text,
/// }
///
/// let graph = Graph::build(|graph| {
///     let name = graph.insert_text("Delft");
///     graph.insert(Town { name })
/// });
/// assert_eq!(&graph[graph.root().name], "Delft");
/// ```
pub type Text = Ref<str>;
