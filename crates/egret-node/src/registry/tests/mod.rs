//! The registry and its nodes: by itself, and in simulated worlds.

mod ended;
mod fuzzed;
mod keys;
mod machine;
mod many;
mod open;
mod planted;
mod seeds;
mod trial;
