//! The first bytes of every connection.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | `EGRT` |
//! | 4 | 2 | the number 0x0102 in the sender's own byte order |
//! | 6 | 2 | protocol version |
//! | 8 | 1 | reliability level |
//! | 9 | 1 | length of the service name |
//! | 10 | 8 | tag |
//! | 18 | n | service name, UTF-8 |
//!
//! Numbers are little-endian except the mark at 4. The payloads that follow
//! are in the sender's order, so a peer of the other order is refused here.

use thiserror::Error;

use super::Reliability;

/// What a connecting side says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The level it asks for.
    pub reliability: Reliability,
    /// The service it wants.
    pub service: String,
    /// The connection's tag.
    pub tag: u64,
}

/// Why a handshake was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HelloError {
    /// Not the first bytes of an egret connection.
    #[error("not an egret peer")]
    NotEgret,
    /// The peer's machine orders its bytes the other way.
    #[error("the peer has the other byte order; egret connects machines of one byte order only")]
    OtherByteOrder,
    /// Another protocol version.
    #[error("the peer speaks protocol version {theirs}, this side {ours}")]
    Version {
        /// The peer's.
        theirs: u16,
        /// This side's.
        ours: u16,
    },
    /// Too short, too long, or with a field out of its range.
    #[error("the handshake is malformed: {0}")]
    Malformed(&'static str),
}

/// What is wrong with the secrets of two sides. Neither has told its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SecretError {
    /// They have different ones.
    #[error("the peer has another secret")]
    Different,
    /// They have different ones, or the peer's key is not the one that the caller expects.
    #[error("the peer has another secret, or another key than this side expects")]
    Stranger,
    /// The peer has none.
    #[error("this side has a secret and the peer has none")]
    OnlyOurs,
    /// This side has none.
    #[error("the peer has a secret and this side has none")]
    OnlyTheirs,
}

/// What is wrong with the key of the side that was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The peer has another key than the address, or the secret, says: another process answers there.
    #[error(
        "the peer has another key than was expected; another process answers there, or the peer has begun \
         another life"
    )]
    Other,
    /// Which one it should have is not known, and the secret could be guessed by the process that answers.
    #[error(
        "which key the peer should have is not known, and the process that answers could guess this secret; \
         give the address the peer's key, or take a random secret"
    )]
    Unknown,
    /// A group has no key to prove, and the secret could be guessed by a host that receives what members
    /// sign.
    #[error(
        "any host that receives messages of the group could guess this secret, by which its members sign; take a random \
         secret (Secret::random, or `egret secret FILE`)"
    )]
    Group,
}

/// The version this code speaks.
pub const PROTOCOL_VERSION: u16 = 5;

const MAGIC: [u8; 4] = *b"EGRT";
const ORDER_MARK: u16 = 0x0102;
const FIXED: usize = 18;
const SERVICE_MAX: usize = 255;

impl Hello {
    /// The bytes to send.
    ///
    /// # Panics
    ///
    /// If the service name is longer than 255 bytes; listening and connecting refuse it before.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let service_len = u8::try_from(self.service.len()).expect("a service name of ≤ 255 bytes");
        let mut bytes = Vec::with_capacity(FIXED + SERVICE_MAX);
        bytes.extend(MAGIC);
        bytes.extend(ORDER_MARK.to_ne_bytes());
        bytes.extend(PROTOCOL_VERSION.to_le_bytes());
        bytes.push(self.reliability as u8);
        bytes.push(service_len);
        bytes.extend(self.tag.to_le_bytes());
        bytes.extend(self.service.as_bytes());
        bytes
    }

    /// Reads what a peer sent.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the bytes; nothing in them can panic.
    pub fn decode(bytes: &[u8]) -> Result<Self, HelloError> {
        let (fixed, service) =
            bytes.split_first_chunk::<FIXED>().ok_or(HelloError::Malformed("too short"))?;
        let [m0, m1, m2, m3, o0, o1, v0, v1, level, service_len, tag @ ..] = *fixed;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(HelloError::NotEgret);
        }
        match u16::from_ne_bytes([o0, o1]) {
            ORDER_MARK => {}
            mark if mark == ORDER_MARK.swap_bytes() => return Err(HelloError::OtherByteOrder),
            _ => return Err(HelloError::NotEgret),
        }
        let theirs = u16::from_le_bytes([v0, v1]);
        if theirs != PROTOCOL_VERSION {
            return Err(HelloError::Version { theirs, ours: PROTOCOL_VERSION });
        }
        let reliability =
            Reliability::from_wire(level).ok_or(HelloError::Malformed("reliability level"))?;
        if service.len() != usize::from(service_len) {
            return Err(HelloError::Malformed("length of the service name"));
        }
        let service =
            str::from_utf8(service).map_err(|_| HelloError::Malformed("service name"))?.to_owned();
        Ok(Self { reliability, service, tag: u64::from_le_bytes(tag) })
    }
}

/// Whether a service name fits the handshake.
pub(crate) const fn service_fits(service: &str) -> bool {
    service.len() <= SERVICE_MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hello() -> Hello {
        Hello { reliability: Reliability::Delivery, service: "grid".into(), tag: 0x0102_0304 }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_bytes_are_these() {
        let expected = b"EGRT\x02\x01\x05\x00\x01\x04\x04\x03\x02\x01\0\0\0\0grid";
        assert_eq!(hello().encode(), expected);
        assert_eq!(Hello::decode(expected), Ok(hello()));
    }

    #[test]
    fn the_other_byte_order_is_refused_by_name() {
        let mut bytes = hello().encode();
        bytes.swap(4, 5);
        assert_eq!(Hello::decode(&bytes), Err(HelloError::OtherByteOrder));
        let said = HelloError::OtherByteOrder.to_string();
        assert!(said.contains("byte order"), "{said}");
    }

    #[test]
    fn another_version_is_refused_with_both() {
        let mut bytes = hello().encode();
        bytes[6] = 9;
        assert_eq!(Hello::decode(&bytes), Err(HelloError::Version { theirs: 9, ours: 5 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(hello) = Hello::decode(&bytes) {
                prop_assert_eq!(hello.encode(), bytes);
            }
        }

        #[test]
        fn one_flipped_byte_never_reads_as_the_same(at in 0..22_usize, flip in 1..=255_u8) {
            let mut bytes = hello().encode();
            bytes[at] ^= flip;
            prop_assert_ne!(Hello::decode(&bytes), Ok(hello()));
        }

        #[test]
        fn what_is_written_is_read(service in "\\PC{0,60}", tag: u64, level in 0..3_u8) {
            let reliability = Reliability::from_wire(level).unwrap();
            let hello = Hello { reliability, service, tag };
            prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        }
    }
}
