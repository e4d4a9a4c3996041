//! Locks, and a role for threads that share a nic.

mod baton;
mod lean;
mod mutex;

pub use baton::{Baton, Entered, Next, Seat, Seated, Turn, Waited};
pub use lean::{Lean, LeanGuard};
pub use mutex::Mutex;

pub use crate::atomics::Ground;
