//! Graphs between real nodes, and over every fabric.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod back;
mod ends;
mod failures;
mod large;
mod processes;
mod ranks;
mod rewritten;
mod split;
mod transport;
mod world;
