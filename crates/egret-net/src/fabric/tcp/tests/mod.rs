//! What holds over TCP whatever the peer does, and that the checks for it can fail.

mod acceptor;
mod asleep;
mod closing;
mod conformance;
mod crowd;
mod death;
mod eager;
mod fuzzed;
mod hostile;
mod planted;
mod processes;
mod raw;
mod sealed;
mod split;
mod turns;
mod wire;

pub(super) use sealed::is_sealed;
