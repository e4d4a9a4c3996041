//! A lock, and a role for threads that share a nic.

mod mutex;

pub use mutex::Mutex;

pub use crate::atomics::{Baton, Entered, Ground, Next, Seat, Seated, Turn, Waited};
