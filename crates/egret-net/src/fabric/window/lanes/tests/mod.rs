//! Two windows in one thread, over a network that does what networks do, and windows
//! whose peer is not one.

mod bytes;
mod ends;
mod fuzzed;
mod hostile;
mod manners;
mod network;
mod planted;
mod run;
mod seeds;
