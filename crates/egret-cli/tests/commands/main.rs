//! The commands beside `run`, as their users run them. One binary, for each costs seconds to build.

mod bench;
#[path = "../support/dir.rs"]
mod dir;
mod info;
mod secret;
