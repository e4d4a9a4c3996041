//! Objects in streams and in place (layer 3).
//!
//! A value of a type that derives [`Wire`] is written by a [`Writer`], which yields a
//! list of memory to send: its own bytes, and large arrays where they are. A
//! [`Reader`] makes values of what arrived: owned ones, or such that borrow from the
//! buffer. `docs/wire/streams.md` has the bytes.
//!
//! ```text
//!   T: Wire ──write──▶ Writer ──gather──▶ [&[u8]]          blocking sends
//!                        │ └──into_descriptor──▶ Descriptor  posts; all owned
//!                        └ flushing: chunks, while it writes
//!   T: Wire ──write──▶ Page ──finish──▶ Buf                 one buffer, or Full
//!
//!   [u8], chunks ──▶ Reader ──read──▶ T: FromWire           owned, or borrowed: &str, &[T], &T
//!   a source ──▶ Reader::pulling ──read──▶ T                owned, while it arrives
//!   Buf, Span<T> ──▶ KeptBuffer ──hold──▶ Held<T>           kept in its buffer
//! ```
//!
//! Over a connection there are numbers for the types of `dyn` values ([`Names`]), the
//! connection itself for types that ask ([`WireContext`]), and plans to read what another version
//! of a type has written ([`ReadPlan`]).
//!
//! A program that depends on `egret` has this as `egret::wire` and `egret::graph`.
#![forbid(unsafe_code)]

#[cfg(not(target_endian = "little"))]
compile_error!("arrays travel as they lie in memory, and that must be little-endian");

#[cfg(not(target_pointer_width = "64"))]
compile_error!("numbers from other machines are used as offsets, and those have 64 bits");

// The code that the derive writes names the crate.
#[cfg(any(test, feature = "fuzzing"))]
extern crate self as egret_stream;

mod carried;
mod context;
mod depth;
mod describe;
pub mod dynamic;
mod error;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[path = "../../../fuzz/models/egret-stream/fuzzing.rs"]
pub mod fuzzing;
pub mod graph;
mod impls;
mod page;
mod reader;
pub mod serde;
mod share;
mod span;
#[cfg(test)]
mod tests;
mod wire;
mod writer;

pub use self::serde::Serde;
pub use context::WireContext;
pub use depth::STACK_BYTES;
pub use describe::{Describe, PlanCursor, ReadPlan, Schema, fingerprint};
pub use dynamic::{Dynamic, Names};
pub use egret_derive::Wire;
pub use egret_net as net;
pub use error::{Cause, Invalid, WireError};
pub use impls::canonical;
pub use page::Page;
pub use reader::{MEMORY_BYTES, MEMORY_FACTOR, Reader, ShortReader, read};
pub use span::{KeptBuffer, Span};
pub use wire::{Boxed, Bulk, FromWire, InPlace, Stop, Wire, WireSize, Written};
pub use writer::{IN_PLACE_BYTES, ShortWriter, Writer, write};

/// What the code written by this crate's macros refers to. Not for use.
#[doc(hidden)]
pub mod __private;
