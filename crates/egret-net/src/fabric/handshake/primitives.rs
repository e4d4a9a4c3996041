//! The primitives that the Noise handshake is given: Curve25519, AES-256 in GCM, SHA-256, and the
//! randomness of this crate, which a simulated world can foretell.

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes256Gcm, KeyInit, Tag};
use curve25519_dalek::MontgomeryPoint;
use sha2::{Digest, Sha256};
use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::Zeroizing;

use crate::vi::{KEY_BYTES, random_key};

/// Has one of each.
#[derive(Debug, Clone, Default)]
pub(super) struct Primitives {
    /// The private half of the key that is made for one handshake; a random one if it is `None`.
    pub ephemeral: Option<[u8; KEY_BYTES]>,
}

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(self.clone()))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::<KeyPair>::default() as _)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::SHA256).then(|| Box::<HashState>::default() as _)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        matches!(choice, CipherChoice::AESGCM).then(|| Box::<AesGcm>::default() as _)
    }
}

impl Random for Primitives {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        for part in dest.chunks_mut(KEY_BYTES) {
            let bytes = self.ephemeral.map_or_else(random_key, Zeroizing::new);
            part.copy_from_slice(&bytes[..part.len()]);
        }
        Ok(())
    }
}

/// A key pair of Curve25519.
#[derive(Default)]
struct KeyPair {
    private: Zeroizing<[u8; KEY_BYTES]>,
    public: [u8; KEY_BYTES],
}

impl Dh for KeyPair {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY_BYTES
    }

    fn priv_len(&self) -> usize {
        KEY_BYTES
    }

    fn set(&mut self, private: &[u8]) {
        self.private.copy_from_slice(private);
        self.public = multiply(&self.private, None);
    }

    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        let mut private = Zeroizing::new([0; KEY_BYTES]);
        random.try_fill_bytes(&mut *private)?;
        self.set(&*private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &*self.private
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let (public, out) = (public.first_chunk(), out.first_chunk_mut::<KEY_BYTES>());
        let (Some(public), Some(out)) = (public, out) else { return Err(Error::Dh) };
        *out = multiply(&self.private, Some(public));
        // Of a point that leaves nothing secret.
        if *out == [0; KEY_BYTES] { Err(Error::Dh) } else { Ok(()) }
    }
}

/// A point of the curve, or the one that public keys are made of, as often as a private key says.
fn multiply(private: &[u8; KEY_BYTES], point: Option<&[u8; KEY_BYTES]>) -> [u8; KEY_BYTES] {
    let multiply = || match point {
        Some(point) => MontgomeryPoint(*point).mul_clamped(*private).to_bytes(),
        None => MontgomeryPoint::mul_base_clamped(*private).to_bytes(),
    };
    // The keys of a fuzzer are the same ones: its time is not for multiplying them.
    #[cfg(feature = "fuzzing")]
    return super::fuzzing::products::remember((*private, point.copied()), multiply);
    #[cfg(not(feature = "fuzzing"))]
    multiply()
}

/// AES-256 in Galois/Counter Mode.
#[derive(Default)]
struct AesGcm(Option<Box<Aes256Gcm>>);

impl AesGcm {
    fn cipher(&self) -> &Aes256Gcm {
        self.0.as_ref().expect("a cipher is given its key first")
    }
}

/// As the Noise Protocol says: four bytes of zero, and the number with its highest byte first.
fn nonce(number: u64) -> [u8; 12] {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    [0, 0, 0, 0, a, b, c, d, e, f, g, h]
}

impl Cipher for AesGcm {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; KEY_BYTES]) {
        self.0 = Some(Box::new(Aes256Gcm::new(key.into())));
    }

    fn encrypt(&self, number: u64, beside: &[u8], plain: &[u8], out: &mut [u8]) -> usize {
        let (sealed, tag) = out[..plain.len() + TAG].split_at_mut(plain.len());
        let both = InOutBuf::new(plain, sealed).expect("of one length");
        let made = self.cipher().encrypt_inout_detached(&nonce(number).into(), beside, both);
        tag.copy_from_slice(&made.expect("a step of a handshake is short"));
        plain.len() + TAG
    }

    fn decrypt(
        &self,
        number: u64,
        beside: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let (sealed, tag) = sealed.split_last_chunk::<TAG>().ok_or(Error::Decrypt)?;
        let out = out.get_mut(..sealed.len()).ok_or(Error::Decrypt)?;
        let both = InOutBuf::new(sealed, out).map_err(|_| Error::Decrypt)?;
        let opened = self.cipher().decrypt_inout_detached(
            &nonce(number).into(),
            beside,
            both,
            &Tag::from(*tag),
        );
        opened.map(|()| sealed.len()).map_err(|_| Error::Decrypt)
    }
}

/// SHA-256.
#[derive(Default)]
struct HashState(Sha256);

impl Hash for HashState {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = Sha256::new();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        out[..32].copy_from_slice(&self.0.finalize_reset());
    }
}

/// Bytes of a tag.
pub(super) const TAG: usize = 16;
