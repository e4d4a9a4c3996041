//! Regions, pools and buffers with owners; the virtual interface; its fabrics.

pub mod buf;
#[cfg(feature = "limits")]
pub mod limit;
pub mod rt;
