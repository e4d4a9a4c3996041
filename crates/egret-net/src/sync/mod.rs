//! A role for threads that share a nic.

mod baton;

pub use baton::{Baton, Entered, Next, Seat, Seated, Turn, Waited};

pub use crate::atomics::Ground;
