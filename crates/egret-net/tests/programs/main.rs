//! The crate as a program meets it: nothing but what is public. One binary, for each costs seconds to
//! build.

mod draining;
mod flights;
mod places;
mod plain;
mod queues;
mod sim;
mod spin;
mod waiting;
mod watching;
