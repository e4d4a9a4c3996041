//! The head of a message of a path, and which messages have come.

use super::fault::{Fault, planted};

/// What stands before the bytes of a message: its number, and a sum over port, number and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathHead {
    number: u32,
    sum: u32,
}

impl PathHead {
    pub(super) const LEN: usize = 8;

    pub(super) fn of(port: u64, number: u32, parts: &[&[u8]]) -> Self {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&port.to_le_bytes());
        sum.update(&number.to_le_bytes());
        parts.iter().for_each(|part| sum.update(part));
        Self { number, sum: sum.finalize() }
    }

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    /// The number and the bytes of a message to this port, unless it was damaged.
    pub(super) fn open(port: u64, message: &[u8]) -> Option<(u32, &[u8])> {
        let (head, bytes) = message.split_first_chunk::<{ Self::LEN }>()?;
        let number = u32::from_le_bytes(*head.first_chunk()?);
        let is_whole = Self::of(port, number, &[bytes]).to_bytes() == *head;
        (is_whole || planted(Fault::Damaged)).then_some((number, bytes))
    }
}

/// Which of the messages have come, so that none comes twice. Of those that are more than 127 behind
/// the latest nothing is known: they are too late.
#[derive(Debug)]
pub(super) struct ReceivedNumbers {
    latest: u32,
    /// A bit for each number, the latest first.
    bits: u128,
}

impl Default for ReceivedNumbers {
    /// The first message has the number 1.
    fn default() -> Self {
        Self { latest: 0, bits: 1 }
    }
}

impl ReceivedNumbers {
    /// A message has come. Whether it may be taken.
    pub(super) fn take(&mut self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.latest).cast_signed();
        if ahead > 0 {
            self.bits = self.bits.checked_shl(ahead.unsigned_abs()).unwrap_or(0);
            self.latest = number;
        }
        let behind = self.latest.wrapping_sub(number);
        let bit = 1_u128.checked_shl(behind).unwrap_or(0);
        let is_new = bit & !self.bits != 0;
        self.bits |= bit;
        is_new || planted(Fault::Doubled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_message_are_these_for_ever() {
        let head = PathHead::of(258, 3, &[b"to ", b"you"]);
        assert_eq!(&head.to_bytes(), b"\x03\0\0\0\xff\x75\x97\xbc");
        let message = [&head.to_bytes()[..], b"to you"].concat();
        assert_eq!(PathHead::open(258, &message), Some((3, &b"to you"[..])));
    }

    #[test]
    fn a_wrong_bit_is_found_wherever_it_is() {
        let (port, bytes) = (0x0123_4567_89ab_cdef, b"some bytes");
        let head = PathHead::of(port, u32::MAX, &[bytes]).to_bytes();
        let message = [&head[..], bytes].concat();
        assert!(PathHead::open(port, &message).is_some());
        for bit in 0..64 {
            assert_eq!(PathHead::open(port ^ 1 << bit, &message), None);
        }
        for bit in 0..message.len() * 8 {
            let mut wrong = message.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(PathHead::open(port, &wrong), None);
        }
        for len in 0..message.len() {
            assert_eq!(PathHead::open(port, &message[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn each_number_is_taken_once_and_not_too_late() {
        let mut came = ReceivedNumbers::default();
        assert!(!came.take(0) && came.take(1) && !came.take(1) && came.take(3) && came.take(2));
        assert!(!came.take(2) && came.take(200) && came.take(73) && !came.take(73));
        assert!(!came.take(72), "too late");
        let mut came = ReceivedNumbers { latest: u32::MAX, bits: 1 };
        assert!(came.take(2) && came.take(0) && !came.take(u32::MAX) && came.take(u32::MAX - 1));
        assert!(came.take(1 << 31) && !came.take(2));
    }
}
