//! Objects in streams and in place (layer 3). Empty so far.
#![forbid(unsafe_code)]

pub use egret_net as net;
