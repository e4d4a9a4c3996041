//! Graphs between real nodes, and over every fabric.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod ends;
mod failures;
mod processes;
mod ranks;
mod rewritten;
mod split;
mod transport;
mod world;
