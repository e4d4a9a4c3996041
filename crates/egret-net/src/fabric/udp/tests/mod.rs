//! What holds whatever the network does, and that the checks for it can fail.

mod acceptor;
mod conformance;
mod ends;
mod group;
mod hostile;
mod joined;
mod keep_alive;
mod lanes;
mod message_history;
mod multicast;
mod nics;
mod planted;
mod recv;
mod relay;
mod sealed;
mod send;
mod stage;
mod wire;
