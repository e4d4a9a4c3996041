//! A lock, a role for threads that share a nic, and the threads of which one is on duty.

pub mod deferred;
mod mutex;

pub use mutex::Mutex;

pub use crate::atomics::{
    DriverKind, DrivingRole, DutyTask, Employment, NextHolder, QueuedWaiter, RoleAttempt,
    RoleGuard, RoleWait, RoleWaiter, Roster, RosterOrder,
};
