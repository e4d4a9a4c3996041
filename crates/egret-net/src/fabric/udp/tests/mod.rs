//! What holds whatever the network does, and that the checks for it can fail.

mod acceptor;
mod conformance;
mod ends;
mod group;
mod hostile;
mod joined;
mod lanes;
mod multicast;
mod nics;
mod over;
mod planted;
mod pulse;
mod recv;
mod relay;
mod sealed;
mod send;
mod stage;
mod wire;

use crate::fabric::tests::Rng;
