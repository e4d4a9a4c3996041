//! The bytes of a datagram; `docs/wire/window.md` has them in words.

use super::fault::{Fault, planted};
use super::lane::{LANES, WindowLane};
use super::violation::WindowViolation;

/// Bytes of a head without gaps.
pub(super) const HEAD: usize = 16 + LANES * 4;
/// Bytes of a head with gaps in all lanes.
pub(super) const HEAD_MAX: usize = HEAD + LANES * 8;
/// Bytes before those of a piece.
pub(super) const PIECE: usize = 8;
/// Bytes before those of a message's first piece.
pub(super) const PIECE_MAX: usize = PIECE + 16;
/// The longest piece that can be written down.
pub(super) const LEN_MAX: usize = (1 << 24) - 1;

const VERSION: u8 = 1;
const ANSWER: u8 = 1;
/// Flags of lanes with gaps begin here.
const GAPS: u8 = 2;
const HELD: u8 = 1 << 5;
const FLAGS: usize = 5;

/// What every datagram begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DatagramHead {
    /// Of all datagrams that an end has sent, repeats included, none has the same.
    pub(super) number: u64,
    /// Whether a message waits at the sender of this until there is a place for it: what the sender
    /// says is missing has come.
    pub(super) held: bool,
    /// Whether the sender can go on only with an acknowledgement.
    pub(super) answer: bool,
    pub(super) acks: [Ack; LANES],
}

/// What of a lane has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ack {
    /// All pieces before this one.
    pub(super) next: u32,
    /// Bit `i`: and the piece `next + i`. Bit 0 is never set.
    pub(super) bits: u64,
}

/// A piece of a message as it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WindowPiece<'a> {
    pub(super) lane: WindowLane,
    pub(super) number: u32,
    /// If it is the first piece of its message.
    pub(super) begins: Option<MessageStart>,
    pub(super) bytes: &'a [u8],
}

/// What the first piece of a message says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fabric::window) struct MessageStart {
    pub(in crate::fabric::window) len: u64,
    pub(in crate::fabric::window) tag: u64,
}

impl DatagramHead {
    /// Begins a datagram, to be [sealed](seal).
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let gaps = |flags, lane: usize| flags | u8::from(self.acks[lane].bits != 0) << (lane + 1);
        let held = if self.held { HELD } else { 0 };
        let flags = (0..LANES).fold(u8::from(self.answer) | held, gaps);
        out.extend_from_slice(&[0, 0, 0, 0, VERSION, flags, 0, 0]);
        out.extend_from_slice(&self.number.to_le_bytes());
        for ack in self.acks {
            out.extend_from_slice(&ack.next.to_le_bytes());
        }
        for ack in self.acks.iter().filter(|ack| ack.bits != 0) {
            out.extend_from_slice(&ack.bits.to_le_bytes());
        }
    }

    /// Reads the head of an [intact](is_intact) datagram; the pieces are left in `from`.
    pub(super) fn read(from: &mut &[u8]) -> Result<Self, WindowViolation> {
        let [_, _, _, _, version, flags, 0, 0] = take(from)? else {
            return Err(WindowViolation::Malformed("reserved bytes are set"));
        };
        if version != VERSION || flags >= 1 << 6 {
            return Err(WindowViolation::Malformed("another version"));
        }
        let number = u64::from_le_bytes(take(from)?);
        let mut acks = [Ack::default(); LANES];
        for ack in &mut acks {
            ack.next = u32::from_le_bytes(take(from)?);
        }
        for (lane, ack) in acks.iter_mut().enumerate() {
            if flags & GAPS << lane != 0 {
                ack.bits = gaps(u64::from_le_bytes(take(from)?))?;
            }
        }
        let (answer, held) = (flags & ANSWER != 0, flags & HELD != 0);
        Ok(Self { number, held, answer, acks })
    }
}

fn gaps(bits: u64) -> Result<u64, WindowViolation> {
    match bits {
        0 => Err(WindowViolation::Malformed("an empty gap field")),
        _ if bits & 1 != 0 => Err(WindowViolation::Malformed("a gap at the first missing piece")),
        _ => Ok(bits),
    }
}

/// Asks for an acknowledgement at once.
pub(super) fn ask(out: &mut [u8]) {
    out[FLAGS] |= ANSWER;
}

/// Writes the checksum, when all else is written.
pub(in crate::fabric::window) fn seal(out: &mut [u8]) {
    let sum = crc32fast::hash(&out[4..]);
    out[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Whether the checksum of a datagram is right.
pub(super) fn is_intact(datagram: &[u8]) -> bool {
    match datagram.split_first_chunk() {
        Some((sum, rest)) if rest.len() >= HEAD - 4 => {
            u32::from_le_bytes(*sum) == crc32fast::hash(rest) || planted(Fault::Unchecked)
        }
        _ => false,
    }
}

impl<'a> WindowPiece<'a> {
    /// Writes what stands before the bytes of a piece.
    pub(super) fn write_head(
        lane: WindowLane,
        number: u32,
        begins: Option<MessageStart>,
        len: u32,
        out: &mut Vec<u8>,
    ) {
        let word = len | (lane as u32) << 24 | u32::from(begins.is_some()) << 31;
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&word.to_le_bytes());
        if let Some(begins) = begins {
            out.extend_from_slice(&begins.len.to_le_bytes());
            out.extend_from_slice(&begins.tag.to_le_bytes());
        }
    }

    /// Reads the next piece; `None` at the end.
    pub(super) fn read(from: &mut &'a [u8]) -> Result<Option<Self>, WindowViolation> {
        if from.is_empty() {
            return Ok(None);
        }
        let number = u32::from_le_bytes(take(from)?);
        let word = u32::from_le_bytes(take(from)?);
        let lane = WindowLane::ALL.get((word >> 24 & 0x7f) as usize);
        let lane = *lane.ok_or(WindowViolation::Malformed("there is no such lane"))?;
        let begins = match word >> 31 {
            0 => None,
            _ => Some(MessageStart {
                len: u64::from_le_bytes(take(from)?),
                tag: u64::from_le_bytes(take(from)?),
            }),
        };
        let cut = || WindowViolation::Malformed("it ends in the middle of a piece");
        let (bytes, rest) = from.split_at_checked((word & 0xff_ffff) as usize).ok_or_else(cut)?;
        *from = rest;
        Ok(Some(Self { lane, number, begins, bytes }))
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], WindowViolation> {
    let (bytes, rest) =
        from.split_first_chunk().ok_or(WindowViolation::Malformed("it ends too soon"))?;
    *from = rest;
    Ok(*bytes)
}

/// The lower half of a number, which is what travels of it.
#[expect(clippy::cast_possible_truncation, reason = "the half that travels")]
pub(super) const fn low(number: u64) -> u32 {
    number as u32
}

/// The number nearest to `near` whose lower half this is; `None` if that is before 0.
pub(super) fn whole(low_half: u32, near: u64) -> Option<u64> {
    let distance = low_half.wrapping_sub(low(near)).cast_signed();
    near.checked_add_signed(i64::from(distance))
}
