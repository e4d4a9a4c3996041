//! The locks and roles of this module, by the model checker.

mod biased_lock;
mod duty;
mod role;
mod roster;
