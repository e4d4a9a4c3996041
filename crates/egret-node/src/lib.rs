//! Nodes, links and ports (layers 4 and 5). Empty so far.
#![forbid(unsafe_code)]

pub use egret_stream as stream;
