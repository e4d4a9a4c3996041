//! The locks and roles of this module, by the model checker.

mod baton;
mod duty;
mod lean;
mod roster;
