//! `egret run` with real processes, as its users run it.

mod app;
mod changes;
#[path = "../support/dir.rs"]
mod dir;
mod ends;
mod job;
mod kills;
mod machines;
mod nodes;
mod output;
mod registry;
mod rounds;
mod secret;
mod signals;
mod spawn;
mod start;
mod terminal;
mod top;
