//! The commands beside `run`, as their users run them. One binary, for each costs seconds to build.

mod bench;
mod info;
mod secret;
