//! `egret bench look`: messages of one connection beside idle ones.
//!
//! | file | what it has |
//! |---|---|
//! | `suite.rs` | the cases, and what each is held against |
//! | `many.rs` | a nic with many connections, of which almost all are idle |

pub(crate) mod many;
mod suite;

pub(crate) use suite::{LookArgs, suite};
