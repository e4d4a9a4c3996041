//! Keys of a connection.

use std::fmt;

use zeroize::Zeroizing;

use super::cipher::Cipher;

/// A key of one direction. It is not printed, and wiped when it is dropped.
pub(in crate::fabric) struct SealKey(Zeroizing<[u8; KEY]>);

/// What one end seals and opens by; the other end has the two the other way round.
#[derive(Debug)]
pub(in crate::fabric) struct SealKeys {
    /// What this end seals by.
    pub outgoing: SealKey,
    /// What this end opens by.
    pub incoming: SealKey,
}

/// Bytes of a key.
pub(in crate::fabric) const KEY: usize = 32;

impl SealKey {
    pub(in crate::fabric) fn new(bytes: [u8; KEY]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub(in crate::fabric) fn bytes(&self) -> &[u8; KEY] {
        &self.0
    }

    /// The first key of a connection, whose handshake has sealed its closing frame by this one.
    pub(in crate::fabric) fn after_handshake(&self) -> Self {
        self.next(&Cipher::new(self))
    }

    /// The key that follows, as `REKEY` of Noise makes it: 32 zero bytes, sealed under a number
    /// that no record has. It makes a [cipher](Cipher::new) for that.
    pub(super) fn next(&self, cipher: &Cipher) -> Self {
        let mut bytes = Zeroizing::new([0; KEY]);
        cipher.seal(u64::MAX, &[], &mut bytes[..]);
        Self(bytes)
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(..)")
    }
}
