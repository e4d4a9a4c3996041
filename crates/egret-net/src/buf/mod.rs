//! Buffers with owners: regions, pools, and the states of a buffer.
//!
//! A buffer is a slot of a [`Pool`], which is cut from a [`Region`] mapped once.
//! Which state it is in is its type, so what may be done with it is checked
//! when the program is compiled:
//!
//! ```text
//!            take                typed                 share
//!   Pool ───────────▶ Buf ◀──────────────▶ Typed<T> ──────────▶ Shared<T> ⟲ clone
//!    ▲                 │ ⟲ split, join        │  ▲                │  │
//!    │                 │ hold                 │  └── try_unique ──┘  │ last clone
//!    │ drop            ▼          hold        │                      ▼
//!    └──────────── Held<T> ◀──────────────────┘            callback(Buf), or Pool
//! ```
//!
//! | type | holders | may |
//! |---|---|---|
//! | [`Buf`] | one | get a type, be split and joined, be posted, be dropped |
//! | [`Typed<T>`](Typed) | one | be used as `&mut [T]`, become a `Buf`, be split into a `Typed<T>` and a `Buf` |
//! | [`Shared<T>`](Shared) | many | be read, cloned, posted for sending; the last may become a `Typed<T>` |
//! | [`Held<T>`](Held) | one | be kept; it is on the heap if the pool was low |
//!
//! # Costs
//!
//! The first thread that takes from a class has a cache of free slots of it and takes and
//! returns there without an atomic operation but plain loads and stores: 80 instructions for
//! the two together. Other threads use the class's list, with one compare-and-swap for each; so
//! do all from the moment on at which one of them finds the list empty or has to wait.
//!
//! No reference count of the pool, no lock, no counter, and no system call unless the cache is
//! revoked, once, or a thread sleeps in [`wait_take`](Pool::wait_take). The bytes of the buffer
//! are not touched at all. `docs/design/buffers.md` has what was measured.

mod biased;
mod block;
mod buffer;
mod builder;
mod class;
mod counts;
mod error;
mod fault;
#[doc(hidden)]
pub mod flat;
mod free_list;
mod held;
mod hidden;
mod lent;
mod mapped_file;
mod mapping;
mod plain;
mod plan;
mod pool;
mod reference;
mod region;
mod shared;
mod slot;
mod slot_cache;
mod stats;
#[cfg(test)]
mod tests;
mod typed;
mod visit;
mod waiters;

pub use block::{Block, BlockMemory};
pub use buffer::Buf;
pub use builder::PoolBuilder;
pub(crate) use class::VisitHost;
#[cfg(test)]
pub(crate) use counts::{arrive, depart, let_go};
pub use egret_derive::Plain;
pub(crate) use error::AdoptError;
pub use error::MemoryError;
#[cfg(test)]
pub(crate) use fault::{Fault as BufFault, caught as buf_caught};
pub use flat::Flat;
pub use held::Held;
pub(crate) use hidden::Hidden;
pub(crate) use lent::{LendError, LentBuf};
pub use mapped_file::MappedFile;
pub use plain::{FINGERPRINT_SEED, Kind, Plain, fingerprint};
pub(crate) use plan::{PlanError, PoolPlan};
pub use pool::Pool;
pub use reference::{IsA, Ref};
pub use region::{Pinned, Region, RegionBuilder};
pub use shared::Shared;
pub use stats::PoolStats;
pub use typed::Typed;
#[cfg(test)]
pub(crate) use visit::is_here;
pub(crate) use visit::{PoolVisit, VisitError};
