//! The offers of the two sides of a handshake, beside their hello and welcome: memory, its
//! descriptors, and trust.
//!
//! The bytes stand in `docs/wire/shm.md`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::super::socket::ControlPacket;
use super::trust::{CooperationReply, CooperationRequest};
use crate::fabric::common::bytes::{
    ByteReader, FLAGS, MISSING, Malformed, PACKET_TOO_LONG, ROLES, push_text,
};
use crate::fabric::handshake::{Handshake, HandshakeError, HandshakeEvent, HandshakeSide};

/// The offer of the connecting side, sent with its hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct ConnectOffer {
    /// The name of its own nic, at most 255 bytes.
    pub host: String,
    /// What it says of its memory.
    pub terms: SegmentTerms,
    /// Whether it would cooperate.
    pub wish: CooperationRequest,
}

/// The offer of the listening side, sent with its welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct AcceptOffer {
    pub terms: SegmentTerms,
    pub verdict: CooperationReply,
}

/// The memory that one side offers. The sizes are what that side claims; the side that maps the
/// memory asks the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct SegmentTerms {
    /// Descriptors that may be outstanding on each of its queues.
    pub depth: u32,
    /// Size of its control region.
    pub control_bytes: u64,
}

/// The descriptors that go with a handshake and with its acceptance: borrowed
/// to be sent, owned when received.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct OfferedDescriptors<F> {
    /// The control region of this connection.
    pub control: F,
    /// The doorbell handle that wakes this end.
    pub bell: F,
}

impl ConnectOffer {
    pub(in super::super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.terms.push(&mut bytes);
        push_text(&mut bytes, &self.host);
        self.wish.push(&mut bytes);
        bytes
    }

    /// Reads what stands in the step that came in this packet, with its descriptors.
    pub(in super::super) fn decode(
        bytes: &[u8],
        packet: &mut ControlPacket,
    ) -> Result<(Self, OfferedDescriptors<OwnedFd>), Malformed> {
        decode(bytes, packet, |terms, reader| {
            Ok(Self {
                host: reader.text()?.to_owned(),
                terms,
                wish: CooperationRequest::read(reader)?,
            })
        })
    }
}

impl AcceptOffer {
    pub(in super::super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.terms.push(&mut bytes);
        self.verdict.push(&mut bytes);
        bytes
    }

    /// The same of an acceptance.
    pub(in super::super) fn decode(
        bytes: &[u8],
        packet: &mut ControlPacket,
    ) -> Result<(Self, OfferedDescriptors<OwnedFd>), Malformed> {
        decode(bytes, packet, |terms, reader| {
            Ok(Self { terms, verdict: CooperationReply::read(reader)? })
        })
    }
}

/// Reads terms with their descriptors, and by `rest` what stands behind them, which is all.
fn decode<T>(
    bytes: &[u8],
    packet: &mut ControlPacket,
    rest: impl FnOnce(SegmentTerms, &mut ByteReader<'_>) -> Result<T, Malformed>,
) -> Result<(T, OfferedDescriptors<OwnedFd>), Malformed> {
    let mut reader = ByteReader::new(bytes);
    let (terms, handles) = SegmentTerms::read(&mut reader, packet)?;
    let said = rest(terms, &mut reader)?;
    reader.end()?;
    Ok((said, handles))
}

/// Feeds a packet, one step of a handshake.
pub(in super::super) fn hear<T: HandshakeSide>(
    handshake: &mut Handshake<T>,
    packet: &ControlPacket,
) -> Result<HandshakeEvent, HandshakeError> {
    if packet.cut_off {
        Err(Malformed(PACKET_TOO_LONG).into())
    } else {
        handshake.feed_step(&packet.bytes)
    }
}

impl SegmentTerms {
    pub(in super::super) fn push(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::try_from(DescriptorRole::ALL.len()).expect("two"));
        bytes.extend([0; 3]);
        bytes.extend(self.depth.to_le_bytes());
        bytes.extend(self.control_bytes.to_le_bytes());
        bytes.extend(DescriptorRole::ALL.map(|role| role as u8));
    }

    pub(in super::super) fn read(
        reader: &mut ByteReader<'_>,
        packet: &mut ControlPacket,
    ) -> Result<(Self, OfferedDescriptors<OwnedFd>), Malformed> {
        let declared = usize::from(reader.u8()?);
        if reader.array()? != [0; 3] {
            return Err(Malformed(FLAGS));
        }
        let depth = reader.u32()?;
        let control_bytes = reader.u64()?;
        let roles = reader.bytes(declared)?;
        let fds = packet.take_fds(declared).ok_or(Malformed(MISSING))?;
        let handles = OfferedDescriptors::by_role(roles, fds)?;
        Ok((Self { depth, control_bytes }, handles))
    }
}

/// What a descriptor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in super::super) enum DescriptorRole {
    Control = 1,
    Bell = 2,
}

impl DescriptorRole {
    pub(in super::super) const ALL: [Self; 2] = [Self::Control, Self::Bell];
}

impl<F: AsFd> OfferedDescriptors<F> {
    /// In the order of [`DescriptorRole::ALL`].
    pub(in super::super) fn borrowed(&self) -> [BorrowedFd<'_>; 2] {
        [self.control.as_fd(), self.bell.as_fd()]
    }
}

impl OfferedDescriptors<OwnedFd> {
    fn by_role(roles: &[u8], fds: Vec<OwnedFd>) -> Result<Self, Malformed> {
        let mut slots = [None, None];
        for (role, fd) in roles.iter().zip(fds) {
            let place = DescriptorRole::ALL.iter().position(|known| *known as u8 == *role);
            let slot = place.map(|place| &mut slots[place]).ok_or(Malformed(ROLES))?;
            if slot.replace(fd).is_some() {
                return Err(Malformed(ROLES));
            }
        }
        let [Some(control), Some(bell)] = slots else { return Err(Malformed(ROLES)) };
        Ok(Self { control, bell })
    }
}
