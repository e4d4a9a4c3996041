//! Regions, pools and buffers with owners; the virtual interface; its fabrics.

pub mod buf;
pub mod rt;
