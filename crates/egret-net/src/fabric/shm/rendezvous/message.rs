//! What the ends of a connection tell each other beside its rings.
//!
//! The bytes stand in `docs/wire/shm.md`.

use std::os::fd::OwnedFd;

use super::super::socket::ControlPacket;
use crate::buf::Kind;
use crate::fabric::common::bytes::{
    ByteReader, MISSING, Malformed, PACKET_TOO_LONG, UNKNOWN_PACKET, push_kind, read_kind,
};
use crate::fabric::common::close_reason::CloseReason;

/// A message of a connection that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum ControlMessage {
    /// The descriptor beside it is the sender's region of this number. Sent
    /// before anything in the rings refers to it.
    Region {
        /// Counted by the sender.
        number: u32,
    },
    /// The descriptor beside it is a region whose buffers may be handed over, and
    /// this is how its pool is cut. Only between processes that cooperate.
    CooperatingRegion {
        /// Counted by the sender, apart from the others.
        number: u16,
        /// Some words for each class.
        plan: Vec<u64>,
    },
    /// The receiver may write the memory under a key by itself, for as long as a
    /// gate is open. Only between processes that cooperate.
    DirectWrite {
        /// Of the key.
        secret: u64,
        /// Which gate.
        gate: u16,
        /// What the gate says while it is open.
        number: u64,
        /// The buffer under the key, in a region that was announced.
        place: u64,
        /// Its length.
        len: u64,
    },
    /// What elements of this fingerprint are called, for the errors of the
    /// receiver. Names are cut to 255 bytes.
    Kind(Kind),
    /// The sender has closed the connection.
    Close(CloseReason),
}

impl ControlMessage {
    pub(in super::super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.number(), self.descriptors()];
        match self {
            Self::Region { number } => bytes.extend(number.to_le_bytes()),
            Self::CooperatingRegion { number, plan } => {
                bytes.extend(number.to_le_bytes());
                bytes.extend(plan.iter().flat_map(|word| word.to_le_bytes()));
            }
            Self::DirectWrite { secret, gate, number, place, len } => {
                bytes.extend(gate.to_le_bytes());
                bytes
                    .extend([secret, number, place, len].into_iter().flat_map(|w| w.to_le_bytes()));
            }
            Self::Kind(kind) => push_kind(&mut bytes, kind),
            Self::Close(reason) => reason.push(&mut bytes),
        }
        bytes
    }

    /// Reads what a peer sent, and takes the descriptors that belong to it.
    pub(in super::super) fn decode(
        mut packet: ControlPacket,
    ) -> Result<(Self, Vec<OwnedFd>), Malformed> {
        if packet.cut_off {
            return Err(Malformed(PACKET_TOO_LONG));
        }
        let bytes = std::mem::take(&mut packet.bytes);
        let mut reader = ByteReader::new(&bytes);
        let (number, declared) = (reader.u8()?, reader.u8()?);
        let message = match number {
            REGION => Self::Region { number: reader.u32()? },
            COOPERATING_REGION => {
                Self::CooperatingRegion { number: reader.u16()?, plan: reader.words()? }
            }
            DIRECT_WRITE => Self::DirectWrite {
                gate: reader.u16()?,
                secret: reader.u64()?,
                number: reader.u64()?,
                place: reader.u64()?,
                len: reader.u64()?,
            },
            KIND => Self::Kind(read_kind(&mut reader)?),
            CLOSE => Self::Close(CloseReason::read(&mut reader)?),
            _ => return Err(Malformed(UNKNOWN_PACKET)),
        };
        reader.end()?;
        if declared != message.descriptors() {
            return Err(Malformed(MISSING));
        }
        let fds = packet.take_fds(declared.into()).ok_or(Malformed(MISSING))?;
        Ok((message, fds))
    }

    const fn number(&self) -> u8 {
        match self {
            Self::Region { .. } => REGION,
            Self::CooperatingRegion { .. } => COOPERATING_REGION,
            Self::DirectWrite { .. } => DIRECT_WRITE,
            Self::Kind(_) => KIND,
            Self::Close(_) => CLOSE,
        }
    }

    /// How many descriptors go beside it.
    pub(in super::super) const fn descriptors(&self) -> u8 {
        match self {
            Self::Region { .. } | Self::CooperatingRegion { .. } => 1,
            Self::DirectWrite { .. } | Self::Kind(_) | Self::Close(_) => 0,
        }
    }
}

const REGION: u8 = 1;
const KIND: u8 = 2;
const CLOSE: u8 = 3;
const COOPERATING_REGION: u8 = 4;
const DIRECT_WRITE: u8 = 5;
