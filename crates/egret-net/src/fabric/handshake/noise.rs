//! The part of the Noise Protocol in a handshake: its messages, and what both sides have at the end.
//!
//! The pattern is `XXpsk3`. Each side makes a key pair for this handshake alone, shows its own key
//! under it, and the secret of the pool goes in last, with the caller's key. So nothing that
//! depends on the secret is said before the callee has proven its key, and the callee says nothing
//! that depends on the secret before the caller has proven that it has the secret.

use std::fmt;

use snow::params::NoiseParams;
use snow::{Builder, HandshakeState, TransportState};

use super::credentials::Credentials;
use super::fault;
use super::primitives::{Primitives, TAG};
use super::step::BODY_MAX;
use crate::fabric::seal::{SealKey, SealKeys};
use crate::vi::machine::{ConnId, NewConnection};
use crate::vi::{KEY_BYTES, PROTOCOL_VERSION, PublicKey, Secret};

/// A handshake that is under way.
pub(crate) struct Noise {
    state: Box<HandshakeState>,
    secret: Secret,
}

/// A handshake that has come to its end: both sides have proven all.
pub(crate) struct NoiseTransport {
    transport: Box<TransportState>,
    pub(super) session: Session,
}

/// What a handshake leaves to both ends.
#[derive(Debug)]
pub(in crate::fabric) struct Session {
    pub known: PeerProof,
    /// The keys of this connection, if its bytes are to be sealed.
    pub keys: Option<SealKeys>,
}

/// What the peer has proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fabric) struct PeerProof {
    /// The key that it has proven.
    pub key: PublicKey,
    /// Whether the bytes of the connection are sealed.
    pub is_sealed: bool,
}

/// A message with a wrong tag: made with other keys, or changed on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotAuthentic;

/// What a handshake begins with beside its keys, as the caller said it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prologue {
    pub flags: u8,
}

impl Noise {
    pub(super) fn caller(credentials: &Credentials, prologue: Prologue) -> Self {
        Self::new(credentials, prologue, true)
    }

    pub(super) fn callee(credentials: &Credentials, prologue: Prologue) -> Self {
        Self::new(credentials, prologue, false)
    }

    fn new(credentials: &Credentials, Prologue { flags }: Prologue, is_caller: bool) -> Self {
        let params: NoiseParams = PATTERN.parse().expect("a pattern of the Noise Protocol");
        let [low, high] = PROTOCOL_VERSION.to_le_bytes();
        let prologue = [b"egret".as_slice(), &[low, high, flags], credentials.fabric.as_bytes()];
        let prologue = fault::prologue(prologue.concat());
        let private = credentials.identity.private();
        let primitives = Box::new(Primitives { ephemeral: credentials.ephemeral() });
        let builder = Builder::with_resolver(params, primitives)
            .local_private_key(&*private)
            .and_then(|builder| builder.prologue(&prologue));
        let state = builder.and_then(|builder| {
            if is_caller { builder.build_initiator() } else { builder.build_responder() }
        });
        let state = state.expect("a pattern and a private key are all that is needed");
        Self { state: Box::new(state), secret: credentials.secret.clone() }
    }

    /// Does a step with the secret at hand. Between steps the handshake's memory, which `snow`
    /// does not wipe, has no copy of the secret.
    fn with_secret<T>(&mut self, step: impl FnOnce(&mut HandshakeState) -> T) -> T {
        let secret = fault::secret(self.secret.shared_key(), &NO_SECRET);
        self.state.set_psk(PLACE, secret).expect("a secret of 32 bytes, at a place of the pattern");
        let done = step(&mut self.state);
        self.state.set_psk(PLACE, &NO_SECRET).expect("the same place");
        done
    }

    /// The next message, with a few bytes of this side's.
    pub(super) fn write(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut message = vec![0; BODY_MAX];
        let written = self.with_secret(|state| state.write_message(payload, &mut message));
        message.truncate(written.expect("this side's turn, and a step has room"));
        message
    }

    /// What the peer says in its next message.
    pub(super) fn read(&mut self, message: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
        let mut payload = vec![0; BODY_MAX];
        let read = self.with_secret(|state| state.read_message(message, &mut payload));
        let len = read.map_err(|_| NotAuthentic)?;
        payload.truncate(len);
        Ok(payload)
    }

    /// The key that the peer has proven, once it has.
    pub(super) fn peer(&self) -> Option<PublicKey> {
        let key = self.state.get_remote_static()?;
        key.try_into().ok().map(PublicKey)
    }

    /// Both have said all. The keys of the connection are kept if its bytes are to be sealed.
    pub(super) fn agreed(mut self, is_sealed: bool) -> NoiseTransport {
        let key = self.peer().expect("both keys are shown at the end");
        let keys = is_sealed.then(|| {
            let (callers, callees) = self.state.dangerously_get_raw_split();
            let callees = fault::callees_key(callees, callers);
            // The welcome is sealed by the callee's key itself.
            let [callers, callees] =
                [callers, callees].map(|key| SealKey::new(key).after_handshake());
            match self.state.is_initiator() {
                true => SealKeys { outgoing: callers, incoming: callees },
                false => SealKeys { outgoing: callees, incoming: callers },
            }
        });
        let transport = self.state.into_transport_mode().expect("the handshake is over");
        NoiseTransport {
            transport: Box::new(transport),
            session: Session { known: PeerProof { key, is_sealed }, keys },
        }
    }
}

impl PeerProof {
    /// The connection with a peer that calls itself so.
    pub(in crate::fabric) fn made(self, conn: ConnId, host: &str) -> NewConnection {
        let mut made = NewConnection::new(conn, host);
        (made.key, made.is_encrypted) = (Some(self.key), self.is_sealed);
        made
    }
}

impl NoiseTransport {
    /// Says the callee's closing frame.
    pub(super) fn seal(&mut self, words: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; words.len() + TAG];
        let len = self.transport.write_message(words, &mut sealed).expect("a step is short");
        sealed.truncate(len);
        sealed
    }

    /// Hears them.
    pub(super) fn open(&mut self, sealed: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
        let mut words = vec![0; sealed.len()];
        let len = self.transport.read_message(sealed, &mut words).map_err(|_| NotAuthentic)?;
        words.truncate(len);
        Ok(words)
    }
}

impl fmt::Debug for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Noise(..)")
    }
}

impl fmt::Debug for NoiseTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.session.fmt(f)
    }
}

/// Of the secret in the pattern: it goes in with the third message.
const PLACE: usize = 3;
const NO_SECRET: [u8; KEY_BYTES] = [0; KEY_BYTES];
const PATTERN: &str = "Noise_XXpsk3_25519_AESGCM_SHA256";
