//! Channels over real fabrics and the simulator.
#![expect(clippy::unwrap_used, reason = "what fails here is a test")]
#![expect(clippy::cast_possible_truncation, reason = "numbers of a test, all of them small")]

mod ends;
mod faces;
mod idle;
mod killed;
mod messages;
mod pair;
mod posted;
mod stalled;
