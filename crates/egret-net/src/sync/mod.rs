//! A lock, a role for threads that share a nic, and the threads of which one is on duty.

pub mod behind;
mod mutex;

pub use mutex::Mutex;

pub use crate::atomics::{
    Baton, Begun, Employed, Entered, Ground, Next, Order, Roster, Seat, Seated, Turn, Waited,
};
