//! `egret bench idle`: connections over which nothing goes.
//!
//! | file | what it has |
//! |---|---|
//! | `suite.rs` | the cases, and what each is held against |
//! | `still.rs` | a process with idle connections: its memory and processor time |
//! | `quiet.rs` | a process with mapped endpoints or channels that are idle |

pub(crate) mod quiet;
pub(crate) mod still;
mod suite;

pub(crate) use suite::{IdleArgs, suite};
