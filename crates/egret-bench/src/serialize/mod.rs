//! `egret bench serialize`: objects in streams.
//!
//! | file | what it has |
//! |---|---|
//! | `suite.rs` | the cases, and what each is held against |
//! | `values.rs` | the values that are written and read |

mod suite;
pub(crate) mod values;

pub(crate) use suite::{NOTHING, SerializeArgs, aligned, memcpy, repeat, suite};
