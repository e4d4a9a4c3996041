//! What the two sides of a connection say beside their hello and welcome: where they meet, and
//! the descriptors of the memory to meet in.
//!
//! The bytes stand in `docs/shm-wire.md`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::socket::Packet;
use super::trust::{Verdict, Wish};
use crate::fabric::greet::{GreetError, Greeter, News, Speaker};
use crate::fabric::hub::bytes::{
    FLAGS, MISSING, Malformed, PACKET_TOO_LONG, ROLES, Reader, push_text,
};

/// What a connecting side says beside its hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The name of its own nic, at most 255 bytes.
    pub host: String,
    /// What it says of its memory.
    pub terms: Terms,
    /// Whether it would cooperate.
    pub wish: Wish,
}

/// What a listening side says beside its welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acceptance {
    pub terms: Terms,
    pub verdict: Verdict,
}

/// What one end says of its memory. The sizes are what it says of its
/// descriptors; whoever maps one asks the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Descriptors that may be outstanding on each of its queues.
    pub depth: u32,
    /// Size of its control region.
    pub control_bytes: u64,
}

/// The descriptors that go with a greeting and with its acceptance: borrowed
/// to be sent, owned when received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handles<F> {
    /// The control region of this connection.
    pub control: F,
    /// The handle of the cord that wakes this end.
    pub bell: F,
}

impl Greeting {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.terms.push(&mut bytes);
        push_text(&mut bytes, &self.host);
        self.wish.push(&mut bytes);
        bytes
    }

    /// Reads what stands in the step that came in this packet, with its descriptors.
    pub(super) fn decode(
        bytes: &[u8],
        packet: &mut Packet,
    ) -> Result<(Self, Handles<OwnedFd>), Malformed> {
        decode(bytes, packet, |terms, reader| {
            Ok(Self { host: reader.text()?.to_owned(), terms, wish: Wish::read(reader)? })
        })
    }
}

impl Acceptance {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.terms.push(&mut bytes);
        self.verdict.push(&mut bytes);
        bytes
    }

    /// The same of an acceptance.
    pub(super) fn decode(
        bytes: &[u8],
        packet: &mut Packet,
    ) -> Result<(Self, Handles<OwnedFd>), Malformed> {
        decode(bytes, packet, |terms, reader| Ok(Self { terms, verdict: Verdict::read(reader)? }))
    }
}

/// Reads terms with their descriptors, and by `rest` what stands behind them, which is all.
fn decode<T>(
    bytes: &[u8],
    packet: &mut Packet,
    rest: impl FnOnce(Terms, &mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<(T, Handles<OwnedFd>), Malformed> {
    let mut reader = Reader::new(bytes);
    let (terms, handles) = Terms::read(&mut reader, packet)?;
    let said = rest(terms, &mut reader)?;
    reader.end()?;
    Ok((said, handles))
}

/// Hears a packet, which is one step of a greeting.
pub(super) fn hear<T: Speaker>(
    greeter: &mut Greeter<T>,
    packet: &Packet,
) -> Result<News, GreetError> {
    if packet.cut_off {
        Err(Malformed(PACKET_TOO_LONG).into())
    } else {
        greeter.feed_step(&packet.bytes)
    }
}

impl Terms {
    pub(super) fn push(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::try_from(Role::ALL.len()).expect("two"));
        bytes.extend([0; 3]);
        bytes.extend(self.depth.to_le_bytes());
        bytes.extend(self.control_bytes.to_le_bytes());
        bytes.extend(Role::ALL.map(|role| role as u8));
    }

    pub(super) fn read(
        reader: &mut Reader<'_>,
        packet: &mut Packet,
    ) -> Result<(Self, Handles<OwnedFd>), Malformed> {
        let declared = usize::from(reader.u8()?);
        if reader.array()? != [0; 3] {
            return Err(Malformed(FLAGS));
        }
        let depth = reader.u32()?;
        let control_bytes = reader.u64()?;
        let roles = reader.bytes(declared)?;
        let fds = packet.take_fds(declared).ok_or(Malformed(MISSING))?;
        let handles = Handles::by_role(roles, fds)?;
        Ok((Self { depth, control_bytes }, handles))
    }
}

/// What a descriptor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Role {
    Control = 1,
    Bell = 2,
}

impl Role {
    pub(super) const ALL: [Self; 2] = [Self::Control, Self::Bell];
}

impl<F: AsFd> Handles<F> {
    /// In the order of [`Role::ALL`].
    pub(super) fn borrowed(&self) -> [BorrowedFd<'_>; 2] {
        [self.control.as_fd(), self.bell.as_fd()]
    }
}

impl Handles<OwnedFd> {
    fn by_role(roles: &[u8], fds: Vec<OwnedFd>) -> Result<Self, Malformed> {
        let mut slots = [None, None];
        for (role, fd) in roles.iter().zip(fds) {
            let place = Role::ALL.iter().position(|known| *known as u8 == *role);
            let slot = place.map(|place| &mut slots[place]).ok_or(Malformed(ROLES))?;
            if slot.replace(fd).is_some() {
                return Err(Malformed(ROLES));
            }
        }
        let [Some(control), Some(bell)] = slots else { return Err(Malformed(ROLES)) };
        Ok(Self { control, bell })
    }
}
