//! What is sealed opens once, in its place and unchanged, and nothing else does.

mod cipher;
mod counted;
mod numbered;
mod planted;

use super::SealKey;

fn key(seed: u8) -> SealKey {
    SealKey::new(std::array::from_fn(|at| seed.wrapping_mul(31).wrapping_add(at.to_le_bytes()[0])))
}
