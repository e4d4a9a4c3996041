//! `egret bench graph`: objects that refer to each other.
//!
//! | file | what it has |
//! |---|---|
//! | `suite.rs` | the cases, and what each is held against |
//! | `shape.rs` | the graphs that are measured, by name |
//! | `map.rs` | a map of towns, crossroads and roads, and a tree, as graphs of egret; `benches/peers` has this file too |
//! | `owned.rs` | the same without egret: counted references, numbers of places in vectors, boxes |
//! | `walk.rs` | a visit to every object, by the same steps for all of them |
//! | `memory.rs` | what a graph costs in one process |
//! | `pair.rs`, `trip.rs` | what a graph costs between two processes |
//! | `load.rs`, `body.rs` | what is sent on such a trip, and in which way |

mod body;
mod load;
mod map;
mod memory;
mod owned;
mod pair;
mod shape;
mod suite;
pub(crate) mod trip;
mod walk;

pub(crate) use suite::{GraphArgs, suite};
