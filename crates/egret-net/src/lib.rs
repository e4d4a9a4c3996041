//! Regions, pools and buffers with owners; the virtual interface; its fabrics.

mod atomics;
pub mod buf;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod fabric;
mod fault;
#[cfg(feature = "heap")]
pub mod heap;
pub mod rt;
/// For the crates that build on a nic.
#[doc(hidden)]
pub mod sync;
pub mod vi;

/// What the code written by this crate's macros refers to. Not for use.
#[doc(hidden)]
pub mod __private {
    pub use bytemuck;
}
