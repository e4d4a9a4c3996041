//! The contents of messages: made from a number, and known again by it.

use super::check::{Outcome, Wrong};

/// The bytes that belong to `seed`.
pub(super) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(seed, &mut bytes);
    bytes
}

/// Fills `into` with the bytes that belong to `seed`.
pub(super) fn fill(seed: u64, into: &mut [u8]) {
    let block = block(seed, into.len());
    for (number, piece) in into.chunks_mut(BLOCK).enumerate() {
        piece.copy_from_slice(&block[..piece.len()]);
        stamp(seed, number, piece);
    }
}

/// Whether `seen` are the bytes that belong to `seed`; if not, which is the
/// first that is not.
#[track_caller]
pub(super) fn verify(seed: u64, seen: &[u8]) -> Outcome {
    let mut block = block(seed, seen.len());
    for (number, piece) in seen.chunks(BLOCK).enumerate() {
        stamp(seed, number, &mut block[..piece.len()]);
        let expected = &block[..piece.len()];
        if piece == expected {
            continue;
        }
        let at = piece.iter().zip(expected).position(|(seen, expected)| seen != expected);
        let at = at.unwrap_or_default();
        let (seen_byte, expected_byte) = (piece[at], expected[at]);
        let place = number * BLOCK + at;
        return Err(Wrong::new(format!(
            "byte {place} of {}: expected {expected_byte:#04x}, saw {seen_byte:#04x}",
            seen.len()
        )));
    }
    Ok(())
}

/// No divisor of anything a fabric cuts messages at.
const BLOCK: usize = 4093;

/// What all blocks have in common, as much of it as `len` bytes need.
fn block(seed: u64, len: usize) -> Vec<u8> {
    let len = len.min(BLOCK);
    let mut bytes = Vec::with_capacity(len + 8);
    for word in 0..len.div_ceil(8) as u64 {
        bytes.extend_from_slice(&mix(seed.wrapping_add(word)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// What tells a block from the others.
fn stamp(seed: u64, number: usize, piece: &mut [u8]) {
    let word = mix(seed ^ (number as u64).rotate_right(20)).to_le_bytes();
    let len = piece.len().min(word.len());
    piece[..len].copy_from_slice(&word[..len]);
}

/// A bijection that leaves no bit where it was.
const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_wrong_byte_is_found() {
        for len in [1, 7, 8, 9, 64, BLOCK, BLOCK + 1, 3 * BLOCK + 100] {
            let whole = bytes(5, len);
            verify(5, &whole).unwrap();
            for at in [0, len / 2, len - 1] {
                let mut damaged = whole.clone();
                damaged[at] ^= 1;
                let said = format!("{:?}", verify(5, &damaged).unwrap_err());
                assert!(said.contains(&format!("byte {at} of {len}")), "{said}");
            }
        }
    }

    #[test]
    fn other_numbers_and_other_blocks_have_other_bytes() {
        let whole = bytes(5, 2 * BLOCK);
        assert!(verify(6, &whole).is_err());
        assert_ne!(whole[..BLOCK], whole[BLOCK..]);
    }
}
