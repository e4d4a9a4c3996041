//! A lock, a role for threads that share a nic, and who is on duty while another stands by.

mod mutex;

pub use mutex::Mutex;

pub use crate::atomics::{Baton, Begun, Duty, Entered, Ground, Next, Seat, Seated, Turn, Waited};
