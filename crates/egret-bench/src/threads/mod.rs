//! `egret bench threads`: requests of several threads of one process.
//!
//! | file | what it has |
//! |---|---|
//! | `suite.rs` | the cases, and what each is held against |
//! | `team.rs` | the threads that send requests |

mod suite;
mod team;

pub(crate) use suite::{ThreadsArgs, suite};
