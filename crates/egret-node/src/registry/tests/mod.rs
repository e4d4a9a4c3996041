//! The registry and its nodes: by itself, and in simulated worlds.

mod disk;
mod ended;
mod fuzzed;
mod journal;
mod keys;
mod machine;
mod many;
mod open;
mod planted;
mod promises;
mod seeds;
mod trial;
