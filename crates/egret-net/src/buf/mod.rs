//! Buffers with owners.

mod plain;

pub use egret_derive::Plain;
pub use plain::{FINGERPRINT_SEED, Kind, Plain, fingerprint};
