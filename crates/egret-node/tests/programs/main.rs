//! The crate as a program meets it, in one process or with processes that it kills. One binary, for
//! each costs seconds to build.

mod am;
mod channel;
mod event_loop;
mod gather;
mod shared;
