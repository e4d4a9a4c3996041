//! Payloads that differ from message to message.
//!
//! A benchmark that sends the same bytes again and again measures caches that
//! no program ever sees. So every message is rewritten before it is sent, and
//! looked at when it arrives.

/// Makes `payload` message `sequence`: every byte is written, and the number
/// itself stands at both ends.
pub fn rewrite(payload: &mut [u8], sequence: u64) {
    payload.fill(filler(sequence));
    let stamp = sequence.to_le_bytes();
    let ends = stamp.len().min(payload.len());
    let tail = payload.len() - ends;
    payload[tail..].copy_from_slice(&stamp[..ends]);
    payload[..ends].copy_from_slice(&stamp[..ends]);
}

/// Whether `payload` begins and ends like message `sequence`: cheap enough for
/// every arrival.
#[inline]
#[must_use]
pub fn has_ends(payload: &[u8], sequence: u64) -> bool {
    let stamp = sequence.to_le_bytes();
    let ends = stamp.len().min(payload.len());
    payload[..ends] == stamp[..ends]
        && (payload.len() < 2 * ends || payload[payload.len() - ends..] == stamp[..ends])
}

/// Whether every byte of `payload` is that of message `sequence`.
#[must_use]
pub fn is_whole(payload: &[u8], sequence: u64) -> bool {
    let ends = size_of::<u64>();
    if payload.len() <= 2 * ends {
        return has_ends(payload, sequence);
    }
    // All bytes are the same if each is its neighbour, which is one fast comparison.
    let middle = &payload[ends..payload.len() - ends];
    has_ends(payload, sequence)
        && middle[0] == filler(sequence)
        && middle[1..] == middle[..middle.len() - 1]
}

fn filler(sequence: u64) -> u8 {
    sequence.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_seen_at_every_size() {
        for bytes in [1, 4, 8, 15, 16, 17, 1000] {
            let mut payload = vec![0; bytes];
            rewrite(&mut payload, 0x0102_0304_0506_0708);
            assert!(is_whole(&payload, 0x0102_0304_0506_0708), "{bytes}");
            assert!(!has_ends(&payload, 0x0102_0304_0506_0709), "{bytes}");
            payload[0] ^= 0x80;
            assert!(!has_ends(&payload, 0x0102_0304_0506_0708), "{bytes}");
        }
        let mut payload = vec![0; 1000];
        rewrite(&mut payload, 7);
        payload[500] = 0;
        assert!(has_ends(&payload, 7) && !is_whole(&payload, 7));
    }
}
