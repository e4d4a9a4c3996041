//! A nic with windows, over worlds and networks that lose.

mod asleep;
mod closing;
mod conformance;
mod ends;
mod fuzzed;
mod hostile;
mod planted;
mod processes;
mod silent;
