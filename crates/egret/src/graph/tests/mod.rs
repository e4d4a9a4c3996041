//! Graphs by rank, over seeds of simulated worlds.

mod planted;
mod town;
mod trials;
