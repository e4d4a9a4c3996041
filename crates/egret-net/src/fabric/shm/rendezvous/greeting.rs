//! The first packet of a connection, and what it carries: who asks for what,
//! and the descriptors of the memory to meet in.
//!
//! The bytes stand in `docs/shm-wire.md`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::fault::{Fault, planted};
use super::socket::Packet;
use crate::fabric::hub::bytes::{
    FLAGS, MISSING, Malformed, PACKET_TOO_LONG, ROLES, Reader, push_text,
};
use crate::vi::{Hello, HelloError, Nonce, PROTOCOL_VERSION};

/// What a connecting side says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The service, tag and level it asks for.
    pub hello: Hello,
    /// The name of its own nic, at most 255 bytes.
    pub host: String,
    /// What it says of its memory.
    pub terms: Terms,
    /// There if it asks to cooperate.
    pub asks: Option<Nonce>,
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
        let mut bytes = self.hello.encode();
        self.terms.push(&mut bytes);
        push_text(&mut bytes, &self.host);
        bytes.push(u8::from(self.asks.is_some()));
        bytes.extend(self.asks.iter().flat_map(|nonce| nonce.0));
        bytes
    }

    /// Reads what anybody may have sent.
    pub(super) fn decode(mut packet: Packet) -> Result<(Self, Handles<OwnedFd>), HelloError> {
        let bytes = std::mem::take(&mut packet.bytes);
        let (hello, rest) = split_hello(&bytes);
        let hello = decode_hello(hello)?;
        if packet.cut_off {
            return Err(HelloError::Malformed(PACKET_TOO_LONG));
        }
        let mut reader = Reader::new(rest);
        let (terms, handles) = Terms::read(&mut reader, &mut packet)?;
        let host = reader.text()?.to_owned();
        let asks = match reader.u8()? {
            ASKS_NOTHING => None,
            ASKS_TO_COOPERATE => Some(Nonce(reader.array()?)),
            _ => return Err(HelloError::Malformed(FLAGS)),
        };
        reader.end()?;
        Ok((Self { hello, host, terms, asks }, handles))
    }
}

/// The bytes of the hello, which tell their number, and what follows them.
fn split_hello(bytes: &[u8]) -> (&[u8], &[u8]) {
    let service_len = bytes.get(HELLO_SERVICE_LEN).copied().unwrap_or_default();
    bytes.split_at_checked(HELLO_FIXED + usize::from(service_len)).unwrap_or((bytes, &[]))
}

fn decode_hello(bytes: &[u8]) -> Result<Hello, HelloError> {
    if planted(Fault::VersionIgnored) && bytes.len() >= HELLO_FIXED {
        let mut bytes = bytes.to_vec();
        bytes[6..8].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        return Hello::decode(&bytes);
    }
    Hello::decode(bytes)
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

/// Bytes of a hello before its service name, and the one that tells its length.
const HELLO_FIXED: usize = 18;
const HELLO_SERVICE_LEN: usize = 9;
const ASKS_NOTHING: u8 = 0;
const ASKS_TO_COOPERATE: u8 = 1;
