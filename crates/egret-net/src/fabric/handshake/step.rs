//! The steps of a handshake, and how one is put together from any pieces. `docs/wire/handshake.md` has the
//! bytes.

use super::fault::{self, Fault, planted};
use crate::fabric::common::bytes::{LENGTH, STEP};
use crate::vi::{HelloError, PROTOCOL_VERSION};

/// Which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StepKind {
    Opening = 1,
    Asking = 2,
    Welcome = 3,
    Refusal = 4,
}

/// A step that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandshakeStep {
    pub kind: StepKind,
    pub flags: u8,
    /// Of the sender. Ours, unless this is a refusal.
    pub version: u16,
    pub body: Vec<u8>,
}

/// The part of a step that has arrived.
#[derive(Debug, Default)]
pub(super) struct StepReader(Vec<u8>);

impl HandshakeStep {
    /// One of ours.
    pub(super) const fn new(kind: StepKind, flags: u8, body: Vec<u8>) -> Self {
        Self { kind, flags, version: PROTOCOL_VERSION, body }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        debug_assert!(self.body.len() <= BODY_MAX, "{} bytes", self.body.len());
        let len = u16::try_from(self.body.len()).expect("a step of at most STEP_MAX bytes");
        let mut bytes = Vec::with_capacity(HEAD + self.body.len());
        bytes.extend(MAGIC);
        bytes.extend(ORDER_MARK.to_ne_bytes());
        bytes.extend(self.version.to_le_bytes());
        bytes.extend([self.kind as u8, self.flags]);
        bytes.extend(len.to_le_bytes());
        bytes.extend(&self.body);
        bytes
    }
}

impl StepReader {
    /// Takes of `input` what belongs to the step: how many bytes that were, and the
    /// step if that was the rest of it.
    pub(super) fn feed(
        &mut self,
        input: &[u8],
    ) -> Result<(usize, Option<HandshakeStep>), HelloError> {
        let head_at = self.fill(HEAD, input);
        let Some(head) = self.0.first_chunk::<HEAD>() else {
            let is_ours = MAGIC.starts_with(&self.0[..self.0.len().min(MAGIC.len())]);
            return if is_ours { Ok((head_at, None)) } else { Err(HelloError::NotEgret) };
        };
        let (head, body_len) = StepHead::read(*head)?;
        let consumed = head_at + self.fill(HEAD + body_len, &input[head_at..]);
        if self.0.len() < HEAD + body_len {
            return Ok((consumed, None));
        }
        let mut whole = std::mem::take(&mut self.0);
        let body = whole.split_off(HEAD);
        let consumed = fault::consumed(consumed, input);
        let StepHead { kind, flags, version } = head;
        Ok((consumed, Some(HandshakeStep { kind, flags, version, body })))
    }

    /// Takes of `input` what is missing to `len` bytes.
    fn fill(&mut self, len: usize, input: &[u8]) -> usize {
        let taken = len.saturating_sub(self.0.len()).min(input.len());
        self.0.reserve_exact(taken);
        self.0.extend(&input[..taken]);
        taken
    }

    /// Bytes of memory it holds.
    #[cfg(test)]
    pub(super) const fn held(&self) -> usize {
        self.0.capacity()
    }
}

struct StepHead {
    kind: StepKind,
    flags: u8,
    version: u16,
}

impl StepHead {
    /// The head, and the length of the body.
    fn read(bytes: [u8; HEAD]) -> Result<(Self, usize), HelloError> {
        let [m0, m1, m2, m3, o0, o1, v0, v1, kind, flags, l0, l1] = bytes;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(HelloError::NotEgret);
        }
        let order = u16::from_ne_bytes([o0, o1]);
        if order != ORDER_MARK && order != ORDER_MARK.swap_bytes() {
            return Err(HelloError::NotEgret);
        }
        let version = u16::from_le_bytes([v0, v1]);
        let body_len = usize::from(u16::from_le_bytes([l0, l1]));
        let is_short = is_short(body_len);
        if kind == StepKind::Refusal as u8 && is_short {
            // Its numbers have their order, whatever the sender's, and all versions know it.
            return Ok((Self { kind: StepKind::Refusal, flags, version }, body_len));
        }
        if order != ORDER_MARK {
            return Err(HelloError::OtherByteOrder);
        }
        if is_other(version) {
            return Err(HelloError::Version { theirs: version, ours: PROTOCOL_VERSION });
        }
        let known = [StepKind::Opening, StepKind::Asking, StepKind::Welcome, StepKind::Refusal];
        let kind = known.into_iter().find(|known| *known as u8 == kind);
        let kind = kind.ok_or(HelloError::Malformed(STEP))?;
        if !is_short {
            return Err(HelloError::Malformed(LENGTH));
        }
        Ok((Self { kind, flags, version }, body_len))
    }
}

fn is_short(body_len: usize) -> bool {
    body_len <= BODY_MAX || planted(Fault::LengthUnchecked)
}

fn is_other(version: u16) -> bool {
    version != PROTOCOL_VERSION && !planted(Fault::VersionIgnored)
}

/// Bytes that a step has at most: it fits into one datagram on any path.
pub(crate) const STEP_MAX: usize = 1024;

/// Bytes before the body.
pub(super) const HEAD: usize = 12;
pub(super) const BODY_MAX: usize = STEP_MAX - HEAD;

const MAGIC: [u8; 4] = *b"EGRT";
const ORDER_MARK: u16 = 0x0102;
