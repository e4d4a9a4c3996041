//! A role for threads that share a nic.

pub use crate::atomics::{Baton, Entered, Ground, Next, Seat, Seated, Turn, Waited};
