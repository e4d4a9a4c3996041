//! A nic with windows, over worlds and networks that lose.

mod asleep;
mod conformance;
mod ends;
mod fuzzed;
mod hostile;
mod leaving;
mod planted;
mod processes;
mod silent;
