//! Memory that peers may read or write by a key.
//!
//! The buffer under a live key belongs to the [`Keys`] table. Remote accesses
//! are executed here, by the target's own fabric, under a lock, or by a
//! cooperating peer itself, if the fabric has opened the memory to it; the
//! program reaches the bytes only by copying through [`Exposed`], and gets a
//! slice of them again when it has [revoked](Exposed::revoke) the key.

use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;

use super::{Keys, Registration};
use crate::buf::Buf;

/// What a key grants to its holder.
/// [`Exposed`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// Remote reads.
    pub read: bool,
    /// Remote writes.
    pub write: bool,
}

impl Access {
    /// Remote reads only.
    pub const READ: Self = Self { read: true, write: false };
    /// Remote writes only.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Both.
    pub const READ_WRITE: Self = Self { read: true, write: true };
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self { read: self.read | other.read, write: self.write | other.write }
    }
}

/// Names exposed memory to a peer. Carries what it grants; cannot be guessed.
/// [`Exposed`] has an example.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteKey {
    secret: u64,
    len: u64,
    access: Access,
}

impl RemoteKey {
    /// How [`to_bytes`](Self::to_bytes) writes it.
    pub const BYTES: usize = 17;

    pub(super) const fn new(secret: u64, len: u64, access: Access) -> Self {
        Self { secret, len, access }
    }

    /// The key as its target knows it: by the secret alone.
    pub(crate) const fn of(secret: u64) -> Self {
        Self { secret, len: 0, access: Access { read: false, write: false } }
    }

    pub(crate) const fn secret(&self) -> u64 {
        self.secret
    }

    /// Bytes exposed under it.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is exposed under it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it grants.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.access
    }

    /// A part of the exposed memory. Bounds are checked by the target.
    #[must_use]
    pub const fn at(self, offset: u64) -> RemoteSlice {
        RemoteSlice { key: self, offset }
    }

    /// To send it to a peer inside a message.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.secret.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16] = u8::from(self.access.read) | u8::from(self.access.write) << 1;
        bytes
    }

    /// Reads what a peer sent. Every byte string is some key; a wrong one is
    /// refused by the target.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let [s0, s1, s2, s3, s4, s5, s6, s7, len @ .., access] = *bytes;
        Self {
            secret: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            len: u64::from_le_bytes(len),
            access: Access { read: access & 1 != 0, write: access & 2 != 0 },
        }
    }
}

impl fmt::Debug for RemoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteKey({} bytes, {:?})", self.len, self.access)
    }
}

/// A place in a peer's exposed memory.
/// [`Exposed`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteSlice {
    /// The memory.
    pub key: RemoteKey,
    /// The first byte in it.
    pub offset: u64,
}

/// A buffer under a live key; made by [`Nic::expose`](super::Nic::expose).
///
/// Peers may change the bytes at any moment, so there is no slice of them:
///
/// ```compile_fail,E0599
/// fn first(exposed: &egret_net::vi::Exposed) -> &[u8] {
///     exposed.bytes() // there is no such method; `revoke` first
/// }
/// ```
///
/// Dropping it revokes the key and returns the buffer to its pool.
///
/// ```
/// use egret_net::buf::Pool;
/// use egret_net::rt::Deadline;
/// use egret_net::vi::{Access, AccessError, Address, Descriptor, RemoteKey, ViError, ViOptions};
///
/// # let sim = egret_net::fabric::sim::Sim::new(1);
/// # let (a, b) = (sim.nic("a"), sim.nic("b"));
/// # let listener = b.listen("x", 0, &ViOptions::default())?;
/// # let to = Address::new("b", "x", 0);
/// # let connecting = a.connect(&to, &ViOptions::default(), Deadline::DEFAULT);
/// # let there = listener.wait_accept(Deadline::DEFAULT)?;
/// # let here = a.block_on(connecting)?;
/// let pool = Pool::new(4096, 1)?;
/// let exposed = b.expose(pool.take(4096)?, Access::WRITE)?;
/// let key = RemoteKey::from_bytes(&exposed.key().to_bytes()); // it travels in a message
///
/// here.post_write(Descriptor::new(b"here I am".to_vec()), key.at(100))?;
/// here.send_queue().wait(Deadline::DEFAULT)?.done()?;
/// here.post_read(Descriptor::new(vec![0_u8; 9]), key.at(100))?;
/// let refused = here.send_queue().wait(Deadline::DEFAULT)?.done();
/// assert_eq!(refused, Err(ViError::RemoteAccess(AccessError::Forbidden { asked: "read" })));
///
/// assert_eq!(&exposed.revoke().bytes()[100..109], b"here I am");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Exposed {
    key: RemoteKey,
    keys: Arc<Keys>,
    _registration: Registration,
}

impl Exposed {
    pub(super) fn new(keys: Arc<Keys>, key: RemoteKey, registration: Registration) -> Self {
        Self { key, keys, _registration: registration }
    }

    /// The key to give to peers.
    #[must_use]
    pub const fn key(&self) -> RemoteKey {
        self.key
    }

    /// Copies bytes out.
    ///
    /// # Panics
    ///
    /// If the range is not inside the buffer.
    pub fn read_at(&self, offset: usize, to: &mut [u8]) {
        self.keys.copy_out(self.key, offset, to);
    }

    /// Copies bytes in.
    ///
    /// # Panics
    ///
    /// If the range is not inside the buffer.
    pub fn write_at(&self, offset: usize, from: &[u8]) {
        self.keys.copy_in(self.key, offset, from);
    }

    /// Takes the key back. When this returns no access is under way and none
    /// will follow; peers that try are refused.
    ///
    /// A write that has succeeded is in the buffer. One that is under way, by a
    /// cooperating peer that writes for itself, is waited for, but no longer than
    /// a second: if the peer stands still in the middle of it, the answer is a
    /// copy of what is there by then, in memory of its own, and the write fails.
    /// The pool has the buffer back when the peer has gone on, or is gone.
    ///
    /// # Panics
    ///
    /// Never: only this object takes the memory out of the table.
    #[must_use]
    pub fn revoke(self) -> Buf {
        self.keys.remove(self.key).expect("revoked only by consuming this").into_buf()
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        if let Some(removed) = self.keys.remove(self.key) {
            removed.discard();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_these_bytes() {
        let access = Access::READ | Access::WRITE;
        let key = RemoteKey { secret: 0x0102_0304_0506_0708, len: 4096, access };
        let bytes = *b"\x08\x07\x06\x05\x04\x03\x02\x01\x00\x10\0\0\0\0\0\0\x03";
        assert_eq!(key.to_bytes(), bytes);
        assert_eq!(RemoteKey::from_bytes(&bytes), key);
        assert!(!format!("{key:?}").contains("0102"), "the secret stays secret");
    }
}
