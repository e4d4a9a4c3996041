//! Objects in streams and in place (layer 3). Filled by the issues that follow the foundation.
#![forbid(unsafe_code)]

pub use egret_net as net;
