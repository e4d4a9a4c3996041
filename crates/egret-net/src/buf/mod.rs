//! Buffers with owners.

mod plain;

pub use plain::{FINGERPRINT_SEED, Kind, Plain, fingerprint};
