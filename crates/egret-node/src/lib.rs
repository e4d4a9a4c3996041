//! Nodes, links and ports (layers 4 and 5). Filled by the issues that follow the foundation.
#![forbid(unsafe_code)]

pub use egret_stream as stream;
