//! AES-256-GCM. Two implementations do the same to the same bytes: the fast one asks more of the
//! processor than the other, and ends agree whichever each of them has.
//!
//! graviola is the fastest of those without C that were tried, at every length from 16 bytes to 64 KiB, on
//! a processor with VAES: aes-gcm took two to four times as long, chacha20poly1305 six times and more.
//! graviola works in place only; a copy beside it costs far less than what the others take more. What the cipher takes on a
//! machine is the limit `aead` of `egret bench limits --fabric tcp`: two seals with a copy, two opens.

use std::fmt;

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes256Gcm, KeyInit};

use super::SealError;
use super::fault::{Fault, planted};
use super::key::SealKey;

/// What shows that a record is genuine.
pub(in crate::fabric) type Tag = [u8; TAG];

/// Bytes of a tag.
pub(in crate::fabric) const TAG: usize = 16;

/// A key, made ready. Its memory is wiped when it is dropped.
pub(super) enum Cipher {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Fast(Box<graviola::aead::AesGcm>),
    Portable(Box<Aes256Gcm>),
}

impl Cipher {
    pub(super) fn new(key: &SealKey) -> Self {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if is_fast() {
            return Self::Fast(Box::new(graviola::aead::AesGcm::new(key.bytes())));
        }
        Self::portable(key)
    }

    /// One that every processor has.
    pub(super) fn portable(key: &SealKey) -> Self {
        Self::Portable(Box::new(Aes256Gcm::new(key.bytes().into())))
    }

    /// Seals in place.
    #[inline]
    pub(super) fn seal(&self, number: u64, beside: &[u8], bytes: &mut [u8]) -> Tag {
        let nonce = nonce(number);
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Self::Fast(cipher) => {
                let mut tag = [0; TAG];
                cipher.encrypt(&nonce, beside, bytes, &mut tag);
                tag
            }
            Self::Portable(cipher) => cipher
                .encrypt_inout_detached(&nonce.into(), beside, InOutBuf::from(bytes))
                .expect("a record is shorter than 64 GiB")
                .into(),
        }
    }

    /// Opens in place; bytes that are not genuine are gone. As fast as [`seal`](Self::seal).
    #[inline]
    pub(super) fn open(
        &self,
        number: u64,
        beside: &[u8],
        bytes: &mut [u8],
        tag: &Tag,
    ) -> Result<(), SealError> {
        if planted(Fault::TagUnchecked) {
            // What is sealed twice is open.
            self.seal(number, beside, bytes);
            return Ok(());
        }
        self.open_genuine(number, beside, bytes, tag)
    }

    #[inline]
    fn open_genuine(
        &self,
        number: u64,
        beside: &[u8],
        bytes: &mut [u8],
        tag: &Tag,
    ) -> Result<(), SealError> {
        let nonce = nonce(number);
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Self::Fast(cipher) => {
                cipher.decrypt(&nonce, beside, bytes, tag).map_err(|_| SealError::Forged)
            }
            Self::Portable(cipher) => cipher
                .decrypt_inout_detached(&nonce.into(), beside, InOutBuf::from(bytes), tag.into())
                .map_err(|_| SealError::Forged),
        }
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Self::Fast(_) => "Fast(..)",
            Self::Portable(_) => "Portable(..)",
        })
    }
}

/// The nonce of a record.
fn nonce(number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// Whether this processor has what the fast implementation panics without.
#[cfg(target_arch = "x86_64")]
pub(super) fn is_fast() -> bool {
    is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("adx")
        && is_x86_feature_detected!("avx")
        && is_x86_feature_detected!("avx2")
}

/// Whether this processor has what the fast implementation panics without.
#[cfg(target_arch = "aarch64")]
pub(super) fn is_fast() -> bool {
    use std::arch::is_aarch64_feature_detected;
    is_aarch64_feature_detected!("neon")
        && is_aarch64_feature_detected!("aes")
        && is_aarch64_feature_detected!("pmull")
        && is_aarch64_feature_detected!("sha2")
}
