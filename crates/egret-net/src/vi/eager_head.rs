//! The head of an eager message that travels as a posted one.
//!
//! | byte | |
//! |---|---|
//! | 0 | what it is: 0 message, 1 credit, 2 request for credit |
//! | 1 | its lane: 0 talk, 1 bulk; of credit 0 |
//! | 2–3 | zero |
//! | 4–7 | the position of the message or request in its lane, the low bits; of credit 0 |
//! | 8–11, 12–15 | the highest position of the peer's talk and bulk that was drained, the low bits |

use super::eager::Lane;

/// What stands before the bytes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EagerHead {
    pub what: EagerKind,
    pub lane: Lane,
    /// How far its writer has sent on the lane, with this message or request; the low bits.
    pub position: u32,
    /// How far its writer has drained each of the peer's lanes, the low bits.
    pub drained: [u32; 2],
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EagerKind {
    Message = 0,
    Credit = 1,
    Ask = 2,
}

impl EagerHead {
    /// Bytes that it has.
    pub(super) const LEN: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        (bytes[0], bytes[1]) = (self.what as u8, self.lane as u8);
        let [talk, bulk] = self.drained;
        for (to, number) in bytes[4..].chunks_exact_mut(4).zip([self.position, talk, bulk]) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// The head of what a peer has sent; `None` if no peer sends that.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let head = bytes.first_chunk::<{ Self::LEN }>()?;
        let [what, lane, 0, 0, ref numbers @ ..] = *head else { return None };
        let what =
            [EagerKind::Message, EagerKind::Credit, EagerKind::Ask].get(usize::from(what))?;
        let lane = Lane::ALL.get(usize::from(lane))?;
        let (numbers, _) = numbers.as_chunks();
        let [position, talk, bulk] = *numbers else { return None };
        let drained = [talk, bulk].map(u32::from_le_bytes);
        let position = u32::from_le_bytes(position);
        Some(Self { what: *what, lane: *lane, position, drained })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads `bytes`: a head that is the same when it is written, or no head for a reason.
    fn read(bytes: &[u8]) -> bool {
        let is_head = bytes.len() >= EagerHead::LEN
            && bytes[0] <= 2
            && bytes[1] <= 1
            && bytes[2..4] == [0, 0];
        let head = EagerHead::from_bytes(bytes);
        assert_eq!(head.is_some(), is_head, "{bytes:?}");
        head.inspect(|head| assert_eq!(head.to_bytes(), bytes[..EagerHead::LEN])).is_some()
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_head_or_none(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            read(&bytes);
        }

        #[test]
        fn what_is_nearly_a_head_is_read_or_refused(
            (what, lane, zeros) in (0..4_u8, 0..3_u8, prop::sample::select(vec![0, 0, 0, 1])),
            numbers: [u32; 3],
            len in 0..=EagerHead::LEN + 4,
        ) {
            let mut bytes = vec![what, lane, zeros, 0];
            bytes.extend(numbers.map(u32::to_le_bytes).as_flattened());
            bytes.resize(len, 7);
            let is_whole = len >= EagerHead::LEN;
            prop_assert_eq!(read(&bytes), is_whole && what < 3 && lane < 2 && zeros == 0);
        }
    }

    #[test]
    fn the_bytes_of_a_head_are_these_for_ever() {
        let (what, lane) = (EagerKind::Ask, Lane::Bulk);
        let head = EagerHead { what, lane, position: 0x0102_0304, drained: [5, 0x0600_0000] };
        assert_eq!(head.to_bytes(), *b"\x02\x01\0\0\x04\x03\x02\x01\x05\0\0\0\0\0\0\x06");
    }

    #[test]
    fn every_head_is_read_as_it_was_written() {
        for what in [EagerKind::Message, EagerKind::Credit, EagerKind::Ask] {
            for lane in Lane::ALL {
                for (position, drained) in [(7, [0, u32::MAX]), (1 << 31, [1 << 24, 0x0102_0304])] {
                    let head = EagerHead { what, lane, position, drained };
                    assert_eq!(EagerHead::from_bytes(&head.to_bytes()), Some(head));
                }
            }
        }
    }
}
