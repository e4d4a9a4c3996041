//! The payload of a record of one line as words, made of parts.
//!
//! A word that is stored in pieces and then loaded as a whole waits until all stores before it
//! are done, those of the last record among them. So words are put together in registers.

use super::super::memory::WORD;
use super::INLINE_WORDS;

/// The payload that these parts make in a row. They have room in one line.
pub(super) fn payload(parts: &[&[u8]]) -> [u64; INLINE_WORDS] {
    let (mut payload, mut at) = ([0; INLINE_WORDS], 0);
    for part in parts {
        if at % WORD == 0 {
            fill(part, &mut payload[at / WORD..]);
        } else {
            // Of parts that are not whole words, the next one is put together in memory.
            copy_short(part, &mut bytemuck::bytes_of_mut(&mut payload)[at..]);
        }
        at += part.len();
    }
    payload
}

/// The words of a part that has at most as many bytes as they.
#[inline(always)]
pub(super) fn words<const WORDS: usize>(part: &[u8]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    fill(part, &mut words);
    words
}

/// The same of at most 16 bytes.
#[inline(always)]
pub(super) fn pair(part: &[u8]) -> [u64; 2] {
    let (first, len) = (part.first_chunk(), part.len());
    match first {
        Some(first) if len > WORD => [u64::from_ne_bytes(*first), last(part, len % WORD)],
        Some(first) => [u64::from_ne_bytes(*first), 0],
        None => [short(part), 0],
    }
}

#[inline(always)]
fn fill(part: &[u8], words: &mut [u64]) {
    let (whole, rest) = part.as_chunks();
    for (word, bytes) in words.iter_mut().zip(whole) {
        *word = u64::from_ne_bytes(*bytes);
    }
    if !rest.is_empty() {
        words[whole.len()] = end(part, rest.len());
    }
}

/// The last word of a part that ends with `len` bytes of it.
#[inline(always)]
pub(super) fn end(part: &[u8], len: usize) -> u64 {
    if part.len() < WORD { short(part) } else { last(part, len) }
}

/// The last `len` bytes of a part with a word or more; of a whole word, if they are none.
#[inline(always)]
fn last(part: &[u8], len: usize) -> u64 {
    let end = part.last_chunk().map_or(0, |end| u64::from_le_bytes(*end));
    (end >> (BITS * (WORD - len) % (BITS * WORD))).to_le()
}

/// A word of fewer bytes than it has, zeroes behind them.
#[inline(always)]
fn short(part: &[u8]) -> u64 {
    let len = part.len();
    let shifted = |value: u64, bytes: usize| value << (BITS * bytes);
    let word = match (part.first_chunk(), part.last_chunk()) {
        (Some(first), Some(last)) => {
            let [first, last] = [*first, *last].map(|half| u64::from(u32::from_le_bytes(half)));
            first | shifted(last, len - HALF)
        }
        // The same byte once more, at the same place, where there are fewer than three.
        _ if len > 0 => {
            let byte = |at: usize| shifted(u64::from(part[at]), at);
            byte(0) | byte(len / 2) | byte(len - 1)
        }
        _ => 0,
    };
    word.to_le()
}

/// Copies at most a line, by loads and stores of fixed sizes: a call would take longer, and single
/// bytes too.
#[inline(always)]
fn copy_short(from: &[u8], to: &mut [u8]) {
    let len = from.len();
    let to = &mut to[..len];
    if len >= 16 {
        let mut at = 0;
        while at + 16 <= len {
            to[at..at + 16].copy_from_slice(&from[at..at + 16]);
            at += 16;
        }
        to[len - 16..].copy_from_slice(&from[len - 16..]);
    } else if len >= 8 {
        to[..8].copy_from_slice(&from[..8]);
        to[len - 8..].copy_from_slice(&from[len - 8..]);
    } else if len >= 4 {
        to[..4].copy_from_slice(&from[..4]);
        to[len - 4..].copy_from_slice(&from[len - 4..]);
    } else {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

const HALF: usize = WORD / 2;
/// Of a byte.
const BITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_any_length_are_words_in_a_row() {
        let bytes: Vec<u8> = (1..=48).collect();
        for first in 0..=48 {
            for second in first..=48 {
                let mut line = [0; 48];
                line[..second].copy_from_slice(&bytes[..second]);
                let line: [u64; INLINE_WORDS] = bytemuck::cast(line);
                let (head, tail) = bytes[..second].split_at(first);
                assert_eq!(payload(&[head, tail]), line, "{first} of {second} bytes");
                assert_eq!(words(&bytes[..second]), line, "{second} bytes");
                if second <= 16 {
                    assert_eq!(pair(&bytes[..second]), line[..2], "{second} bytes");
                }
            }
        }
    }
}
